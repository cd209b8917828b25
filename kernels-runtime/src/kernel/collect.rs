use super::{Tensors, Visitor};
use burn::backend::{DispatchTensor, DispatchTensorKind};
use burn::tensor::Tensor;

/// Handles of all tensors. They are dropped before the kernel runs, so that it may reuse buffers.
pub(crate) struct Collect(Vec<DispatchTensor>);

impl Collect {
    pub(crate) fn of(operands: &mut impl Tensors) -> Self {
        let mut collect = Self(Vec::new());
        operands.visit(&mut collect);
        collect
    }

    /// Returns the tensors that have autodiff enabled, each in its place.
    pub(crate) fn with_autodiff(self) -> Vec<Option<DispatchTensor>> {
        let has_autodiff =
            |tensor: &DispatchTensor| matches!(tensor.kind, DispatchTensorKind::Autodiff(_));
        let tensors = self.0.into_iter();
        tensors
            .map(|tensor| Some(tensor).filter(has_autodiff))
            .collect()
    }

    pub(crate) fn tensors(&self) -> Vec<&DispatchTensor> {
        self.0.iter().collect()
    }
}

impl Visitor for Collect {
    fn tensor<const D: usize>(&mut self, _: &'static str, tensor: &mut Tensor<D>) {
        self.0.push(tensor.clone().into_dispatch());
    }
}
