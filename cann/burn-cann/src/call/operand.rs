//! The operands of a call, in the order of its signature.

use cann_sys::types::{aclTensor, aclTensorList};

use super::constant::{Constant, ConstantHandles};
use crate::cann::Cann;
use crate::descriptor::{TensorDescriptor, TensorListDescriptor};
use crate::error::Result;
use crate::tensor::Tensor;

/// An operand of a call. Inputs come before outputs.
#[derive(Debug, Clone)]
pub(crate) enum Operand {
    Tensor(Tensor),
    List(Vec<Tensor>),
    /// An optional operand that is left out.
    Absent,
}

impl Operand {
    pub(crate) fn tensors(&self) -> &[Tensor] {
        match self {
            Self::Tensor(tensor) => std::slice::from_ref(tensor),
            Self::List(tensors) => tensors,
            Self::Absent => &[],
        }
    }
}

impl From<&Tensor> for Operand {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.clone())
    }
}

impl From<Option<&Tensor>> for Operand {
    fn from(tensor: Option<&Tensor>) -> Self {
        tensor.map_or(Self::Absent, Self::from)
    }
}

impl From<Vec<Tensor>> for Operand {
    fn from(tensors: Vec<Tensor>) -> Self {
        Self::List(tensors)
    }
}

/// The handles of a call's operands.
#[derive(Debug)]
pub(crate) struct Handles {
    operands: Vec<Handle>,
    constants: ConstantHandles,
}

#[derive(Debug)]
enum Handle {
    Tensor(TensorDescriptor),
    List(TensorListDescriptor),
    Absent,
}

impl Handles {
    pub(crate) fn new(cann: &Cann, operands: &[Operand], constants: &[Constant]) -> Result<Self> {
        let handle = |operand: &Operand| match operand {
            Operand::Tensor(tensor) => TensorDescriptor::new(tensor).map(Handle::Tensor),
            Operand::List(tensors) => {
                let members = tensors
                    .iter()
                    .map(TensorDescriptor::new)
                    .collect::<Result<_>>()?;
                TensorListDescriptor::new(cann, members).map(Handle::List)
            }
            Operand::Absent => Ok(Handle::Absent),
        };
        Ok(Self {
            operands: operands.iter().map(handle).collect::<Result<_>>()?,
            constants: ConstantHandles::new(cann, constants)?,
        })
    }

    /// Returns the handles of the values on the host.
    pub(crate) fn constants(&self) -> &ConstantHandles {
        &self.constants
    }

    /// Returns the tensor at `place`, or NULL if it was left out.
    pub(crate) fn tensor(&self, place: usize) -> *mut aclTensor {
        match &self.operands[place] {
            Handle::Tensor(tensor) => tensor.as_raw(),
            Handle::Absent => std::ptr::null_mut(),
            Handle::List(_) => unreachable!("operand {place} is a list"),
        }
    }

    /// Returns the list at `place`, or NULL if it was left out.
    pub(crate) fn list(&self, place: usize) -> *mut aclTensorList {
        match &self.operands[place] {
            Handle::List(list) => list.as_raw(),
            Handle::Absent => std::ptr::null_mut(),
            Handle::Tensor(_) => unreachable!("operand {place} is a tensor"),
        }
    }
}
