//! One tensor for each expert, stacked or in a list.

use crate::ops::operands::Facts;
use burn::backend::DispatchTensor;
use burn::tensor::{Device, Tensor};

/// The tensors of all experts.
#[allow(clippy::large_enum_variant)] // There are a few per call: a box would cost more than it saves.
#[derive(Clone, Debug)]
pub enum Stack<const STACKED: usize, const SINGLE: usize> {
    /// One tensor, with the experts along the first axis.
    Stacked(Tensor<STACKED>),
    /// One tensor for each expert.
    List(Vec<Tensor<SINGLE>>),
}

impl<const STACKED: usize, const SINGLE: usize> Stack<STACKED, SINGLE> {
    /// Returns the tensor of one expert.
    ///
    /// # Panics
    /// Panics if there is no such expert.
    pub fn expert(&self, expert: usize) -> Tensor<SINGLE> {
        match self {
            Self::Stacked(tensor) => tensor
                .clone()
                .slice_dim(0, expert..expert + 1)
                .squeeze_dim(0),
            Self::List(tensors) => tensors[expert].clone(),
        }
    }

    /// Returns the tensors of some experts, in this order. Tensors of a list are returned as they are; a stacked
    /// tensor is copied and detached from its graph.
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

    /// Returns the number of experts.
    pub(super) fn experts(&self) -> usize {
        match self {
            Self::Stacked(tensor) => tensor.dims()[0],
            Self::List(tensors) => tensors.len(),
        }
    }

    /// Returns the device of the tensors.
    pub(super) fn device(&self) -> Device {
        match self {
            Self::Stacked(tensor) => tensor.device(),
            Self::List(tensors) => tensors[0].device(),
        }
    }

    /// Returns the shape of an expert's tensor.
    pub(super) fn of_one(&self) -> [usize; SINGLE] {
        match self {
            Self::Stacked(tensor) => std::array::from_fn(|axis| tensor.dims()[axis + 1]),
            Self::List(tensors) => tensors[0].dims(),
        }
    }

    /// Returns the shapes and dtypes of the tensors.
    pub(super) fn facts(&self) -> Vec<Facts> {
        match self {
            Self::Stacked(tensor) => vec![tensor.into()],
            Self::List(tensors) => tensors.iter().map(Facts::from).collect(),
        }
    }

    /// Returns the tensors, one if they are stacked.
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
