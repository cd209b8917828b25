//! The operands of an RMSNorm as live verification checks them.

use super::{Inputs, Settings, of_all};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::live::probe::append_fixed;
use crate::registry::Implementation;
use crate::semantics::{RmsNormKey, Rounding};
use burn::backend::DispatchTensor;
use burn::tensor::{DType, Tensor};

/// The operands of an RMSNorm.
#[derive(Clone)]
pub(crate) struct Norm<const D: usize> {
    pub(crate) inputs: Inputs<D>,
    pub(in crate::ops) bias: Option<Tensor<1>>,
    pub(in crate::ops) settings: Settings,
    pub(in crate::ops) key: RmsNormKey,
}

impl<const D: usize> From<super::Operands<DispatchTensor>> for Norm<D> {
    fn from(operands: super::Operands<DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            bias: operands.bias().cloned().map(Tensor::from_dispatch),
            inputs: operands.into_inputs(),
        }
    }
}

impl<const D: usize> Tensors for Norm<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.inputs.x);
        if let Some(weight) = &mut self.inputs.weight {
            visitor.tensor("weight", weight);
        }
        if let Some(gate) = &mut self.inputs.gate {
            visitor.tensor("gate", gate);
        }
        if let Some(bias) = &mut self.bias {
            visitor.tensor("bias", bias);
        }
    }
}

impl<const D: usize> Operands for Norm<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        of_all(self.inputs, self.bias, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<D> {
        let operands = super::Operands::of_all(self.inputs, self.bias, self.settings, self.key);
        Tensor::from_dispatch(super::RmsNorm::run(operands, implementation).y)
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            inputs: Inputs {
                x: rows.of(&self.inputs.x),
                weight: self.inputs.weight.clone(),
                gate: self.inputs.gate.as_ref().map(|gate| rows.of(gate)),
            },
            ..self.clone()
        })
    }

    /// Appends a slice whose mean square is near epsilon: in larger numbers a wrong epsilon would not show.
    fn with_probes(self) -> (Self, usize) {
        let Some(size) = self.probe_size() else {
            return (self, 0);
        };
        let inputs = Inputs {
            x: append_fixed("x", self.inputs.x, &[size]),
            weight: self.inputs.weight,
            gate: self
                .inputs
                .gate
                .map(|gate| append_fixed("gate", gate, &[1.0])),
        };
        (Self { inputs, ..self }, 1)
    }

    fn in_other_order(&self) -> Option<(Self, &'static str)> {
        let (rounding, name) = match self.key.rounding {
            Rounding::Llama => (Rounding::Gemma, "gemma"),
            Rounding::Gemma => (Rounding::Llama, "llama"),
        };
        let key = RmsNormKey {
            rounding,
            ..self.key
        };
        Some((
            Self {
                key,
                ..self.clone()
            },
            name,
        ))
    }

    fn epsilon(&self) -> Option<f64> {
        Some(self.settings.eps)
    }

    fn with_epsilon(&self, eps: f64) -> Option<Self> {
        let mut other = self.clone();
        other.settings.eps = eps;
        Some(other)
    }
}

impl<const D: usize> Norm<D> {
    /// Returns the root mean square of a probe, or `None` if there is none. The squares must stay above the
    /// smallest numbers of f16, in which a body may compute them.
    fn probe_size(&self) -> Option<f64> {
        let least = match self.inputs.x.dtype() {
            DType::F16 => 1e-4,
            _ => 1e-20,
        };
        let has_rows = D > 1 && self.inputs.x.shape().num_elements() > 0;
        let shows = has_rows && self.settings.eps > 1e-20;
        shows.then(|| self.settings.eps.max(least).sqrt())
    }
}
