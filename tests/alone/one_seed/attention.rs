//! Tests attention with its projections.

use super::train::{WIDTH, initial, one_seed_one_model};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use burn_kernels::fused_kernel;

/// Declares layers with the same fields. The struct form takes the order of the fields.
macro_rules! layers {
    ($($(#[$attribute:meta])* $name:ident)*) => {
        $(
            $(#[$attribute])*
            #[derive(Module, Debug)]
            struct $name {
                v_proj: Linear,
                o_proj: Linear,
                q_proj: Linear,
                k_proj: Linear,
                num_heads: usize,
            }

            impl $name {
                fn init(device: &Device) -> Self {
                    let linear = || LinearConfig::new(WIDTH, WIDTH).init(device);
                    Self {
                        v_proj: linear(),
                        o_proj: linear(),
                        q_proj: linear(),
                        k_proj: linear(),
                        num_heads: 2,
                    }
                }
            }
        )*
    };
}

layers! {
    #[fused_kernel("npu_fused_attention", part = layer, mask = none)]
    AttentionStruct
    KeysFirst Helped
}

/// Computes attention from `[seq, width]`.
fn attend(q: Tensor<2>, k: Tensor<2>, v: Tensor<2>, heads: usize) -> Tensor<2> {
    let [seq, width] = q.dims();
    let split = |x: Tensor<2>| x.reshape([seq, heads, width / heads]).swap_dims(0, 1);
    let scores = split(q).matmul(split(k).swap_dims(1, 2)) / ((width / heads) as f64).sqrt();
    let mixed = softmax(scores, 2).matmul(split(v));
    mixed.swap_dims(0, 1).reshape([seq, width])
}

#[fused_kernel("npu_fused_attention", part = layer, mask = none)]
impl KeysFirst {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let k = self.k_proj.forward(x.clone());
        let q = self.q_proj.forward(x.clone());
        let v = self.v_proj.forward(x);
        self.o_proj.forward(attend(q, k, v, self.num_heads))
    }
}

fn through(layer: &Linear, x: Tensor<2>) -> Tensor<2> {
    layer.forward(x)
}

/// The order is out of the attribute's sight, so the body runs first.
#[fused_kernel("npu_fused_attention", part = layer, mask = none)]
impl Helped {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let v = through(&self.v_proj, x.clone());
        let (k, q) = (self.k_proj.forward(x.clone()), self.q_proj.forward(x));
        self.o_proj.forward(attend(q, k, v, self.num_heads))
    }
}

#[test]
fn projections_are_initialised_in_the_order_of_the_body() {
    one_seed_one_model("AttentionStruct", AttentionStruct::init, |layer, x| {
        layer.forward(x)
    });
    one_seed_one_model("KeysFirst", KeysFirst::init, KeysFirst::forward);
    one_seed_one_model("Helped", Helped::init, Helped::forward);
    assert_ne!(
        initial(KeysFirst::init, KeysFirst::forward),
        initial(Helped::init, Helped::forward),
        "the order makes a difference"
    );
}
