//! Tests norms and rotations of queries and keys, which have a weight for each.

use super::train::{TOKENS, WIDTH, initial, one_seed_one_model};
use burn::module::{Initializer, Module, Param};
use burn::tensor::{Device, Tensor};
use burn_kernels::fused_kernel;

fn vector(device: &Device) -> Param<Tensor<1>> {
    let (min, max) = (0.5, 1.5);
    Initializer::Uniform { min, max }.init([WIDTH], device)
}

/// Declares layers with these fields.
macro_rules! layers {
    ($($(#[$attribute:meta])* $name:ident { $first:ident $second:ident })*) => {
        $(
            $(#[$attribute])*
            #[derive(Module, Debug)]
            struct $name {
                $first: Param<Tensor<1>>,
                $second: Param<Tensor<1>>,
                cos: Tensor<2>,
                sin: Tensor<2>,
                eps: f64,
            }

            impl $name {
                fn init(device: &Device) -> Self {
                    Self {
                        $first: vector(device),
                        $second: vector(device),
                        cos: Tensor::ones([TOKENS, WIDTH], device),
                        sin: Tensor::zeros([TOKENS, WIDTH], device),
                        eps: 1e-5,
                    }
                }

                /// Prepares the rows of `x` as queries and as keys of one head, unturned.
                fn both(&self, x: Tensor<2>) -> Tensor<2> {
                    let heads = x.reshape([1, TOKENS, 1, WIDTH]);
                    let (q, k) = self.forward(heads.clone(), heads);
                    (q + k * 2.0).reshape([TOKENS, WIDTH])
                }
            }
        )*
    };
}

layers! {
    #[fused_kernel("npu_fused_qk_norm_rope")]
    OfFields { q_weight k_weight }
    #[fused_kernel("npu_fused_qk_norm_rope")]
    OfFieldsKeysFirst { k_weight q_weight }
    KeysFirst { q_weight k_weight }
}

fn normal(x: Tensor<4>, weight: &Param<Tensor<1>>, eps: f64) -> Tensor<4> {
    let mean_square = x.clone().square().mean_dim(3);
    x / (mean_square + eps).sqrt() * weight.val().unsqueeze()
}

fn turned(x: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>) -> Tensor<4> {
    let x1 = x.clone().narrow(3, 0, WIDTH / 2);
    let x2 = x.clone().narrow(3, WIDTH / 2, WIDTH / 2);
    x * cos.unsqueeze() + Tensor::cat(vec![x2.neg(), x1], 3) * sin.unsqueeze()
}

#[fused_kernel("npu_fused_qk_norm_rope")]
impl KeysFirst {
    fn forward(&self, q: Tensor<4>, k: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        let k = normal(k, &self.k_weight, self.eps).swap_dims(1, 2);
        let q = normal(q, &self.q_weight, self.eps).swap_dims(1, 2);
        let turn = |x| turned(x, self.cos.clone(), self.sin.clone());
        (turn(q), turn(k))
    }
}

#[test]
fn weights_are_initialised_in_the_order_of_fields_or_of_the_body() {
    one_seed_one_model("prepared::OfFields", OfFields::init, OfFields::both);
    let (init, both) = (OfFieldsKeysFirst::init, OfFieldsKeysFirst::both);
    one_seed_one_model("OfFieldsKeysFirst", init, both);
    one_seed_one_model("KeysFirst", KeysFirst::init, KeysFirst::both);
    assert_ne!(
        initial(OfFields::init, OfFields::both),
        initial(KeysFirst::init, KeysFirst::both),
        "the order makes a difference"
    );
}
