//! The operands of a gated linear unit as live verification checks them.

use super::{Inputs, Settings, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::live::probe::append_fixed;
use crate::registry::Implementation;
use crate::semantics::GluKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The operands of a gated linear unit.
#[derive(Clone)]
pub(crate) struct Gated<const D: usize> {
    pub(crate) inputs: Inputs<D>,
    settings: Settings,
    key: GluKey,
}

impl<const D: usize> From<super::Operands<DispatchTensor>> for Gated<D> {
    fn from(operands: super::Operands<DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl<const D: usize> Tensors for Gated<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        match &mut self.inputs {
            Inputs::Separate { gate, up } => {
                visitor.tensor("gate", gate);
                visitor.tensor("up", up);
            }
            Inputs::Packed(gate_up) => visitor.tensor("gate_up", gate_up),
        }
    }
}

impl<const D: usize> Operands for Gated<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<D> {
        let operands = super::Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(super::Glu::run(operands, implementation).y)
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            inputs: self.inputs.as_ref().map(|tensor| rows.of(tensor)),
            ..self.clone()
        })
    }

    /// Appends a slice of numbers in the range where activations curve, and one beyond the limit of a clamp.
    fn with_probes(self) -> (Self, usize) {
        let (Inputs::Separate { gate: any, .. } | Inputs::Packed(any)) = &self.inputs;
        if D < 2 || any.shape().num_elements() == 0 {
            return (self, 0);
        }
        // In f16, a limit may be so large that products overflow.
        let limit = self.settings.limit.filter(|limit| *limit < 50.0);
        let beyond = limit.map(|limit| 1.5 * limit);
        let sizes: Vec<f64> = std::iter::once(1.5).chain(beyond).collect();
        let inputs = match self.inputs {
            Inputs::Separate { gate, up } => Inputs::Separate {
                gate: append_fixed("gate", gate, &sizes),
                up: append_fixed("up", up, &sizes),
            },
            Inputs::Packed(gate_up) => Inputs::Packed(append_fixed("gate_up", gate_up, &sizes)),
        };
        (Self { inputs, ..self }, sizes.len())
    }
}
