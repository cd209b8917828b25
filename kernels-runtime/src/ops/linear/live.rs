//! The operands of a linear layer as live verification checks them.

use super::{Inputs, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::registry::Implementation;
use crate::semantics::LinearKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The operands of a linear layer.
#[derive(Clone)]
pub(crate) struct Linear<const D: usize> {
    inputs: Inputs<D>,
    key: LinearKey,
}

impl<const D: usize> From<super::Operands<DispatchTensor>> for Linear<D> {
    fn from(operands: super::Operands<DispatchTensor>) -> Self {
        Self {
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl<const D: usize> Linear<D> {
    /// Returns the tensor that a body takes.
    pub(super) fn into_x(self) -> Tensor<D> {
        self.inputs.x
    }
}

impl<const D: usize> Tensors for Linear<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.inputs.x);
        visitor.tensor("weight", &mut self.inputs.weight);
        if let Some(bias) = &mut self.inputs.bias {
            visitor.tensor("bias", bias);
        }
    }
}

impl<const D: usize> Operands for Linear<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        reference(self.inputs, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<D> {
        let operands = super::Operands::of(self.inputs, self.key);
        Tensor::from_dispatch(operands.run(implementation))
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            inputs: Inputs {
                x: rows.of(&self.inputs.x),
                ..self.inputs.clone()
            },
            ..self.clone()
        })
    }
}
