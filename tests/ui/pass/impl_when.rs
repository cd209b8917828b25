use crate::common::{assert_paths, assert_same, device, linear};
use burn::nn::Linear;
use burn::tensor::activation::{gelu, silu};
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Silu,
    Gelu,
}

struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    act: Act,
}

// A body that branches: the condition says for which instances the kernel is right.
#[fused_kernel("npu_fused_swiglu", when = self.act == Act::Silu)]
impl Mlp {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let gate = self.gate_proj.forward(x.clone());
        let gate = match self.act {
            Act::Silu => silu(gate),
            Act::Gelu => gelu(gate),
        };
        self.down_proj.forward(gate * self.up_proj.forward(x))
    }
}

pub fn main() {
    let mlp = |act| Mlp {
        gate_proj: linear(4, 6),
        up_proj: linear(4, 6),
        down_proj: linear(6, 4),
        act,
    };
    let x = Tensor::<2>::random([3, 4], Distribution::Default, &device());
    for act in [Act::Silu, Act::Gelu] {
        let mlp = mlp(act);
        assert_same(mlp.forward(x.clone()), mlp.forward_reference(x.clone()));
    }
    assert_paths(
        "impl_when::Mlp::forward",
        &["fused", "reference: the site's condition is false"],
    );
}
