use crate::common::{assert_same, assert_site, device, linear, vector};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::activation::silu;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Block {
    before: Param<Tensor<1>>,
    after: Param<Tensor<1>>,
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    eps: f64,
}

// Two attributes on one block, and one on a method in it.
#[fused_kernel("npu_fused_rmsnorm", method = norm_before, weight = before, eps = eps)]
#[fused_kernel("npu_fused_swiglu", method = mlp)]
impl Block {
    const SCALE: f64 = 1.0;

    fn norm_before(&self, x: Tensor<2>) -> Tensor<2> {
        self.norm(x, self.before.val())
    }

    #[fused_kernel("npu_fused_rmsnorm", weight = after, eps = eps)]
    fn norm_after(&self, x: Tensor<2>) -> Tensor<2> {
        self.norm(x, self.after.val())
    }

    fn mlp(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = silu(self.gate_proj.forward(x.clone()));
        self.down_proj.forward(gate * self.up_proj.forward(x))
    }
}

// Another block of the type. The bodies above reach `eps` through it, so they have to name it.
impl Block {
    fn norm(&self, x: Tensor<2>, weight: Tensor<1>) -> Tensor<2> {
        let mean = x.clone().square().mean_dim(1) * Self::SCALE;
        x / (mean + self.eps).sqrt() * weight.unsqueeze()
    }
}

#[fused_kernel("npu_fused_swiglu", method = gated)]
impl Block {
    fn gated(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
        silu(gate) * up
    }
}

pub fn main() {
    let block = Block {
        before: Param::from_tensor(vector(&[0.5, 1.0, 1.5, 2.0])),
        after: Param::from_tensor(vector(&[2.0; 4])),
        gate_proj: linear(4, 8),
        up_proj: linear(4, 8),
        down_proj: linear(8, 4),
        eps: 1e-6,
    };
    let x = Tensor::<2>::random([3, 4], Distribution::Default, &device());
    let y = || x.clone();
    assert_same(block.norm_before(y()), block.norm_before_reference(y()));
    assert_same(block.norm_after(y()), block.norm_after_reference(y()));
    assert_same(block.mlp(y()), block.mlp_reference(y()));
    assert_same(Block::gated(y(), y()), Block::gated_reference(y(), y()));
    let norm = "rms_norm(offset=0, rounding=llama)";
    assert_site("impl_several::Block::norm_before", norm);
    assert_site("impl_several::Block::norm_after", norm);
    assert_site("impl_several::Block::mlp", "glu(activation=silu)");
    assert_site("impl_several::Block::gated", "glu(activation=silu)");
}
