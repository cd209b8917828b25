//! The weights of experts on Flex.

use crate::cpu::view;
use burn::backend::flex::FlexTensor;
use kernels_simd::View;
use std::borrow::Cow;

/// The tensors of a projection, one stacked tensor or several, whose elements can be read in place. A
/// transposed or sliced tensor is not copied if one of the two axes of an expert's matrix is contiguous.
pub(super) struct Readable<'a>(Vec<Cow<'a, FlexTensor>>);

impl<'a> Readable<'a> {
    pub(super) fn new(tensors: &'a [FlexTensor]) -> Self {
        let readable = |tensor: &'a FlexTensor| {
            let strides = tensor.layout().strides();
            let expert = &strides[strides.len().saturating_sub(2)..];
            if expert.contains(&1) && strides.iter().all(|stride| *stride > 0) {
                Cow::Borrowed(tensor)
            } else {
                Cow::Owned(tensor.to_contiguous())
            }
        };
        Self(tensors.iter().map(readable).collect())
    }

    pub(super) fn views(&self) -> Vec<View<'_>> {
        self.0.iter().map(|tensor| view(tensor)).collect()
    }
}
