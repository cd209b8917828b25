//! A linear layer on Flex.
//!
//! f64 is multiplied by the `gemm` crate as Burn's own products are, with the same bits, except for large products with
//! many more terms than rows and columns, which are the sums of two. So is f32, except for large matrices on processors
//! with AMX or with AVX2 alone, where this crate's products are faster. Half types are multiplied by the products of this
//! crate, which sum in f32: in bf16 two elements at a time, where there is an instruction for it. Few rows, as in decoding,
//! read each weight once, in order, in every type.

mod gradients;
mod product;

use super::autodiff::Tensors;
use super::{Backward, Gradients, LinearBackend, LinearKernel};
use crate::cpu::{BASE, dispatch_dtype};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::Linear(super::launch),
    accepts: |key| matches!(key, SemanticsKey::Linear(_)),
    ..BASE
};

impl LinearBackend for Flex {
    fn fused_linear(operands: Tensors<Self>) -> FlexTensor {
        Self::fused_linear_forward(operands)
    }
}

impl LinearKernel for Flex {
    fn fused_linear_forward(operands: Tensors<Self>) -> FlexTensor {
        dispatch_dtype!(checked(operands.dtype()), T => product::forward::<T>(&operands))
    }

    fn fused_linear_backward(backward: Backward<FlexTensor>) -> Gradients<FlexTensor> {
        let dtype = checked(backward.operands().dtype());
        dispatch_dtype!(dtype, T => gradients::gradients::<T>(&backward, None))
    }

    fn fused_linear_backward_added(
        backward: Backward<FlexTensor>,
        before: FlexTensor,
    ) -> Gradients<FlexTensor> {
        checked(backward.check_before(&before));
        let dtype = checked(backward.operands().dtype());
        dispatch_dtype!(dtype, T => gradients::gradients::<T>(&backward, Some(before)))
    }
}
