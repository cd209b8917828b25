//! The operands of a sum and its RMSNorm as live verification checks them.

use super::{AddRmsNorm, Inputs, both, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::live::probe::append_fixed;
use crate::ops::rms_norm;
use crate::ops::rms_norm::live::Norm;
use crate::registry::Implementation;
use crate::semantics::AddRmsNormKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The operands of an RMSNorm whose `x` is one term of the sum, and the other term.
#[derive(Clone)]
pub(crate) struct SumNorm<const D: usize> {
    norm: Norm<D>,
    residual: Tensor<D>,
}

impl<const D: usize> From<super::Operands<DispatchTensor>> for SumNorm<D> {
    fn from(operands: super::Operands<DispatchTensor>) -> Self {
        let (settings, key) = (operands.settings(), operands.key().norm());
        let Inputs {
            x,
            residual,
            weight,
            gate,
        } = operands.into_inputs();
        let inputs = rms_norm::Inputs { x, weight, gate };
        Self {
            norm: Norm {
                inputs,
                bias: None,
                settings,
                key,
            },
            residual,
        }
    }
}

impl<const D: usize> SumNorm<D> {
    /// Returns the tensors that a body takes.
    pub(super) fn into_flowing(self) -> (Tensor<D>, Tensor<D>, Option<Tensor<D>>) {
        let inputs = self.norm.inputs;
        (inputs.x, self.residual, inputs.gate)
    }

    fn into_inputs(self) -> Inputs<D> {
        let rms_norm::Inputs { x, weight, gate } = self.norm.inputs;
        Inputs {
            x,
            residual: self.residual,
            weight,
            gate,
        }
    }

    fn key(&self) -> AddRmsNormKey {
        AddRmsNormKey::of_norm(self.norm.key)
    }
}

impl<const D: usize> Tensors for SumNorm<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        let inputs = &mut self.norm.inputs;
        visitor.tensor("x", &mut inputs.x);
        visitor.tensor("residual", &mut self.residual);
        if let Some(weight) = &mut inputs.weight {
            visitor.tensor("weight", weight);
        }
        if let Some(gate) = &mut inputs.gate {
            visitor.tensor("gate", gate);
        }
    }
}

impl<const D: usize> Operands for SumNorm<D> {
    type Output = (Tensor<D>, Tensor<D>);

    fn reference(self) -> Self::Output {
        let (settings, key) = (self.norm.settings, self.key());
        reference(self.into_inputs(), settings, key)
    }

    fn launch(self, implementation: &'static Implementation) -> Self::Output {
        let (settings, key) = (self.norm.settings, self.key());
        let operands = super::Operands::of(self.into_inputs(), settings, key);
        both(AddRmsNorm::run(operands, implementation))
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            norm: self.norm.sample(rows)?,
            residual: rows.of(&self.residual),
        })
    }

    /// Appends the norm's probes. The residual of the appended slices is 0.
    fn with_probes(self) -> (Self, usize) {
        let (norm, probes) = self.norm.with_probes();
        let residual = match probes {
            0 => self.residual,
            _ => append_fixed("residual", self.residual, &vec![0.0; probes]),
        };
        (Self { norm, residual }, probes)
    }

    fn in_other_order(&self) -> Option<(Self, &'static str)> {
        let (norm, name) = self.norm.in_other_order()?;
        let residual = self.residual.clone();
        Some((Self { norm, residual }, name))
    }

    fn epsilon(&self) -> Option<f64> {
        self.norm.epsilon()
    }

    fn with_epsilon(&self, eps: f64) -> Option<Self> {
        let (norm, residual) = (self.norm.with_epsilon(eps)?, self.residual.clone());
        Some(Self { norm, residual })
    }
}
