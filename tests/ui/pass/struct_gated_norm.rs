use crate::common::{assert_near, assert_same, assert_site, device, vector};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::silu;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm", gating = after_norm)]
#[derive(Module, Debug)]
struct After {
    weight: Param<Tensor<1>>,
    eps: f64,
}

// The gate of the generated method is called `z` here.
#[fused_kernel("npu_fused_rmsnorm", gating = before_norm, gate = z, rounding = gemma)]
#[derive(Module, Debug)]
struct Before {
    weight: Param<Tensor<1>>,
    eps: f64,
}

pub fn main() {
    let x = Tensor::<2>::from_floats([[3.0, -4.0]], &device());
    let gate = Tensor::<2>::from_floats([[1.0, 2.0]], &device());
    let weight = || Param::from_tensor(vector(&[1.0, 0.5]));

    let after = After {
        weight: weight(),
        eps: 0.0,
    };
    let y = after.forward(x.clone(), gate.clone());
    // x / sqrt(12.5) · weight · silu(gate)
    assert_near(y.clone(), &[0.620_324, -0.996_508]);
    assert_same(y, after.forward_reference(x.clone(), gate.clone()));

    let before = Before {
        weight: weight(),
        eps: 1e-6,
    };
    let y = before.forward(x.clone(), gate.clone());
    let u = x.clone() * silu(gate.clone());
    let root = (u.clone().square().mean_dim(1) + 1e-6).sqrt();
    assert_same(y.clone(), u / root * vector(&[1.0, 0.5]).unsqueeze());
    assert_same(y, before.forward_reference(x, gate));
    assert_site(
        "struct_gated_norm::Before::forward",
        "rms_norm(offset=0, rounding=gemma, gating=before_norm)",
    );
}
