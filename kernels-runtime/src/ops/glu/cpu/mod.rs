//! Gated linear units on Flex: one pass over memory, without stored intermediate tensors.
//!
//! The loops over elements are compiled for every activation and dtype ([`loops`]), but not for
//! every variant. Variants differ in how a row is read, changed and written ([`rows`]), which happens
//! in the cache. Two contiguous rows that need no change go into the loop directly.

mod adjust;
mod backward;
mod forward;
mod loops;
mod rows;

use super::autodiff::Tensors;
use super::{Backward, GluBackend, GluKernel, Projected};
use crate::cpu::{BASE, dispatch_dtype};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::Glu(super::launch),
    accepts: |key| matches!(key, SemanticsKey::Glu(_)),
    ..BASE
};

impl GluBackend for Flex {
    fn glu(operands: Tensors<Self>) -> FlexTensor {
        Self::glu_forward(operands)
    }
}

impl GluKernel for Flex {
    fn glu_forward(operands: Tensors<Self>) -> FlexTensor {
        dispatch_dtype!(checked(operands.dtype()), T => forward::forward::<T>(&operands))
    }

    fn glu_backward(backward: Backward<FlexTensor>) -> Projected<FlexTensor> {
        let dtype = checked(backward.operands().dtype());
        dispatch_dtype!(dtype, T => backward::backward::<T>(&backward))
    }
}
