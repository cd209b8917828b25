#![deny(warnings)]

use crate::common::{assert_same, device};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::silu;
use burn_kernels::fused_kernel;

/// Derives on both sides.
#[derive(Debug)]
#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module)]
#[must_use]
#[allow(clippy::module_name_repetitions)]
pub(crate) struct Norm {
    /// The docs of a field.
    weight: Param<Tensor<1>>,
    #[module(skip)]
    eps: f64,
}

#[allow(unused)]
#[fused_kernel("npu_fused_swiglu")]
#[inline]
#[must_use = "a function of its tensors"]
#[expect(unused_mut, reason = "the body, not the signature, has the lint")]
#[rustfmt::skip]
#[track_caller]
fn gated(mut gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> { silu(gate) * up }

#[deprecated = "to see that the expansion itself does not call it"]
#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Debug)]
struct Old {
    weight: Tensor<1>,
    eps: f64,
}

pub fn main() {
    let x = Tensor::<2>::from_floats([[1.0, -2.0]], &device());
    let norm = Norm {
        weight: Param::from_tensor(Tensor::ones([2], &device())),
        eps: 1e-6,
    };
    assert_same(norm.forward(x.clone()), norm.forward_reference(x.clone()));
    assert_same(
        gated(x.clone(), x.clone()),
        gated_reference(x.clone(), x.clone()),
    );
    #[allow(deprecated)]
    let old = Old {
        weight: Tensor::ones([2], &device()),
        eps: 1e-6,
    };
    assert_same(old.forward(x.clone()), norm.forward(x));
}
