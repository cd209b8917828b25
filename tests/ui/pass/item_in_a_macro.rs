use crate::common::{assert_paths, assert_same, device, linear, vector};
use burn::nn::Linear;
use burn::tensor::activation::silu;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

/// The whole item, the kernel and its settings, names and the condition as fragments.
macro_rules! norm {
    ($name:ident { $weight:ident: $type:ty }, $kernel:literal, $offset:tt, $when:expr) => {
        #[fused_kernel($kernel, offset = $offset, weight = $weight, when = $when && self.eps > 0.0)]
        struct $name {
            $weight: $type,
            eps: f64,
        }
    };
}

norm!(Norm { w: Tensor<1> }, "npu_fused_rmsnorm", 1, false || true);

/// The item is the user's, and the attribute the macro's.
macro_rules! fused {
    ($($item:item)*) => {
        $(
            #[fused_kernel("npu_fused_swiglu")]
            $item
        )*
    };
}

struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

fused! {
    fn gated(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
        silu(gate) * up
    }

    impl Mlp {
        fn forward(&self, x: Tensor<2>) -> Tensor<2> {
            let gate = silu(self.gate_proj.forward(x.clone()));
            self.down_proj.forward(gate * self.up_proj.forward(x))
        }
    }
}

/// The body is the user's, and everything around it the macro's.
macro_rules! method {
    ($this:ident, $x:ident, $body:expr) => {
        impl Norm {
            #[fused_kernel("npu_fused_rmsnorm", offset = 1, weight = w)]
            fn apply(&$this, $x: Tensor<2>) -> Tensor<2> {
                $body
            }
        }
    };
}

method!(self, input, {
    let mean = input.clone().square().mean_dim(1);
    input / (mean + self.eps).sqrt() * (self.w.clone() + 1.0).unsqueeze()
});

pub fn main() {
    let x = Tensor::<2>::random([2, 4], Distribution::Default, &device());
    let norm = Norm {
        w: vector(&[0.0, 1.0, 2.0, 3.0]),
        eps: 1e-6,
    };
    assert_same(norm.forward(x.clone()), norm.forward_reference(x.clone()));
    assert_same(norm.apply(x.clone()), norm.apply_reference(x.clone()));
    assert_paths("item_in_a_macro::Norm::forward", &["fused"]);

    assert_same(
        gated(x.clone(), x.clone()),
        gated_reference(x.clone(), x.clone()),
    );
    let mlp = Mlp {
        gate_proj: linear(4, 4),
        up_proj: linear(4, 4),
        down_proj: linear(4, 4),
    };
    assert_same(mlp.forward(x.clone()), mlp.forward_reference(x));
}
