#![no_implicit_prelude]

use ::burn::nn::Linear;
use ::burn::tensor::Tensor;
use ::burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu", clamp = limit)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    limit: f64,
}

#[fused_kernel("npu_fused_rmsnorm", when = eps > 0.0, layer = "Norm")]
fn norm(x: Tensor<2>, weight: Tensor<1>, eps: f64) -> Tensor<2> {
    use ::core::clone::Clone;

    let mean = x.clone().square().mean_dim(1);
    x.div(mean.add_scalar(eps).sqrt()).mul(weight.unsqueeze())
}

#[fused_kernel("npu_fused_moe", experts = list, projections = separate, bias = all)]
struct Experts {
    experts: [Mlp; 2],
}

#[fused_kernel("npu_fused_moe", part = block)]
struct Block {
    gate: Linear,
    experts: Experts,
    top_k: usize,
    routed_scaling_factor: f64,
}

/// Names of the prelude may mean something else here.
#[allow(dead_code)]
enum Option {
    Some,
    None,
}

pub fn main() {
    use crate::common::{assert_same, device, linear};
    use ::core::clone::Clone;

    let layer = || Mlp {
        gate_proj: linear(4, 8),
        up_proj: linear(4, 8),
        down_proj: linear(8, 4),
        limit: 7.0,
    };
    let mlp = layer();
    let x = Tensor::<2>::ones([2, 4], &device());
    assert_same(mlp.forward(x.clone()), mlp.forward_reference(x.clone()));
    let block = Block {
        gate: linear(4, 2),
        experts: Experts {
            experts: [layer(), layer()],
        },
        top_k: 1,
        routed_scaling_factor: 2.5,
    };
    let (y, logits) = block.forward(x.clone());
    let (expected, expected_logits) = block.forward_reference(x.clone());
    assert_same(y, expected);
    assert_same(logits, expected_logits);
    let weight = Tensor::<1>::ones([4], &device());
    let y = norm(x.clone(), weight.clone(), 1e-6);
    assert_same(y, norm_reference(x, weight, 1e-6));
}
