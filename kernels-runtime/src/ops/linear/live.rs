//! The operands of a linear layer as live verification checks them.

use super::parts::LARGE;
use super::{Inputs, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor, picked};
use crate::registry::Implementation;
use crate::semantics::{LinearKey, OutputLayout};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The operands of a linear layer.
#[derive(Clone)]
pub(crate) struct Linear<const D: usize> {
    inputs: Inputs<D>,
    key: LinearKey,
    /// The number of outputs of the call, if these operands have only some of them.
    outputs: Option<usize>,
}

/// The number of outputs that a sample takes of a large weight. The reference holds the weight in f64.
const OUTPUTS: usize = 256;

impl<const D: usize> From<super::Operands<DispatchTensor>> for Linear<D> {
    fn from(operands: super::Operands<DispatchTensor>) -> Self {
        Self {
            key: operands.key(),
            inputs: operands.into_inputs(),
            outputs: None,
        }
    }
}

impl<const D: usize> Linear<D> {
    /// Returns the result of a body, which knows the weight and the bias: of a sample, the outputs that it takes.
    pub(super) fn of_body(self, body: impl FnOnce(Tensor<D>) -> Tensor<D>) -> Tensor<D> {
        let y = body(self.inputs.x);
        match self.outputs {
            Some(all) if y.dims()[D - 1] == all => picked(y, D - 1, OUTPUTS),
            _ => y,
        }
    }

    /// Takes some outputs of a large weight, unless the layer is trained: the body's gradients are those of the whole weight.
    fn of_some_outputs(self) -> Self {
        let Inputs { x, weight, bias } = &self.inputs;
        let axis = match self.key.layout {
            OutputLayout::InputMajor => 1,
            OutputLayout::OutputMajor => 0,
        };
        let [all, elements] = [weight.dims()[axis], weight.shape().num_elements()];
        let is_trained = weight.is_tracked() || bias.as_ref().is_some_and(Tensor::is_tracked);
        if all <= OUTPUTS || elements <= LARGE || is_trained {
            return self;
        }
        Self {
            inputs: Inputs {
                x: x.clone(),
                weight: picked(weight.clone(), axis, OUTPUTS),
                bias: bias.clone().map(|bias| picked(bias, 0, OUTPUTS)),
            },
            outputs: Some(all),
            ..self
        }
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
        Tensor::from_dispatch(super::Linear::run(operands, implementation).y)
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        let rows = Self {
            inputs: Inputs {
                x: rows.of(&self.inputs.x),
                ..self.inputs.clone()
            },
            ..self.clone()
        };
        Some(rows.of_some_outputs())
    }
}
