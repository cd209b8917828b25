use super::erased::ErasedTensors;
use super::{Tensors, Visitor};
use burn::backend::{DispatchTensor, DispatchTensorKind};
use burn::tensor::Tensor;

/// Handles of all tensors. They are dropped before the kernel runs, so that it may reuse buffers.
#[derive(Default)]
pub(crate) struct Collect(Vec<DispatchTensor>);

impl Collect {
    pub(crate) fn of(operands: &mut impl Tensors) -> Self {
        let mut collect = Self::default();
        operands.visit(&mut collect);
        collect
    }

    pub(crate) fn of_erased(operands: &dyn ErasedTensors) -> Self {
        let mut collect = Self::default();
        operands.show(&mut collect);
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
    fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
        self.0.push(tensor.clone());
    }

    fn tensor<const D: usize>(&mut self, _: &'static str, tensor: &mut Tensor<D>) {
        // One handle, and the tensor stays in its place: calls collect their tensors.
        self.0.push(tensor.clone().into_dispatch());
    }
}
