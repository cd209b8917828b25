//! As many tensors as experts.

use crate::ops::operands::Facts;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// A tensor for each expert.
#[allow(clippy::large_enum_variant)] // A few a call: a box would cost more than it saves.
#[derive(Clone, Debug)]
pub enum Stack<const STACKED: usize, const SINGLE: usize> {
    /// All in one, experts along the first axis.
    Stacked(Tensor<STACKED>),
    /// One each.
    List(Vec<Tensor<SINGLE>>),
}

impl<const STACKED: usize, const SINGLE: usize> Stack<STACKED, SINGLE> {
    /// The tensor of one expert.
    ///
    /// # Panics
    /// There is no such expert.
    pub fn expert(&self, expert: usize) -> Tensor<SINGLE> {
        match self {
            Self::Stacked(tensor) => tensor
                .clone()
                .slice_dim(0, expert..expert + 1)
                .squeeze_dim(0),
            Self::List(tensors) => tensors[expert].clone(),
        }
    }

    /// The tensors of some experts, in this order. Those of a list stay what they are; of stacked
    /// ones they are a copy that is cut off from their graph.
    pub(crate) fn of_experts(&self, experts: &[usize]) -> Self {
        match self {
            Self::Stacked(tensor) => {
                let tensor = tensor.clone().detach();
                let each = experts.iter().map(|e| tensor.clone().narrow(0, *e, 1));
                Self::Stacked(Tensor::cat(each.collect(), 0))
            }
            Self::List(tensors) => {
                Self::List(experts.iter().map(|e| tensors[*e].clone()).collect())
            }
        }
    }

    /// The number of experts.
    pub(super) fn experts(&self) -> usize {
        match self {
            Self::Stacked(tensor) => tensor.dims()[0],
            Self::List(tensors) => tensors.len(),
        }
    }

    /// Describes the tensors.
    pub(super) fn facts(&self) -> Vec<Facts> {
        match self {
            Self::Stacked(tensor) => vec![tensor.into()],
            Self::List(tensors) => tensors.iter().map(Facts::from).collect(),
        }
    }

    /// The tensors, one if they are stacked.
    pub(super) fn into_dispatch(self) -> Vec<DispatchTensor> {
        match self {
            Self::Stacked(tensor) => vec![tensor.into_dispatch()],
            Self::List(tensors) => tensors.into_iter().map(Tensor::into_dispatch).collect(),
        }
    }
}

impl<const STACKED: usize, const SINGLE: usize> From<Tensor<STACKED>> for Stack<STACKED, SINGLE> {
    fn from(tensor: Tensor<STACKED>) -> Self {
        Self::Stacked(tensor)
    }
}

impl<const STACKED: usize, const SINGLE: usize> From<&[Tensor<SINGLE>]> for Stack<STACKED, SINGLE> {
    fn from(tensors: &[Tensor<SINGLE>]) -> Self {
        Self::List(tensors.to_vec())
    }
}

impl<const STACKED: usize, const SINGLE: usize> From<Vec<Tensor<SINGLE>>>
    for Stack<STACKED, SINGLE>
{
    fn from(tensors: Vec<Tensor<SINGLE>>) -> Self {
        Self::List(tensors)
    }
}
