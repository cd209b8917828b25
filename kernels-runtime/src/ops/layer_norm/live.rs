//! The operands of a LayerNorm as live verification checks them.

use super::{Inputs, Settings, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::live::probe::{append_around, append_fixed};
use crate::registry::Implementation;
use crate::semantics::LayerNormKey;
use burn::backend::DispatchTensor;
use burn::tensor::{DType, Tensor};

/// The operands of a LayerNorm.
#[derive(Clone)]
pub(crate) struct Norm<const D: usize> {
    inputs: Inputs<D>,
    settings: Settings,
    key: LayerNormKey,
}

impl<const D: usize> From<super::Operands<DispatchTensor>> for Norm<D> {
    fn from(operands: super::Operands<DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl<const D: usize> Norm<D> {
    /// Returns the tensor that a body takes.
    pub(super) fn into_x(self) -> Tensor<D> {
        self.inputs.x
    }

    /// Returns the standard deviation of the probe that shows epsilon, or `None` if no probe does. The squares must
    /// stay above the smallest numbers of f16, in which a body may compute them.
    fn deviation_near_epsilon(&self) -> Option<f64> {
        let least = match self.inputs.x.dtype() {
            DType::F16 => 1e-4,
            _ => 1e-20,
        };
        let eps = self.settings.eps;
        (eps > 1e-20).then(|| eps.max(least).sqrt())
    }
}

impl<const D: usize> Tensors for Norm<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.inputs.x);
        visitor.tensor("weight", &mut self.inputs.weight);
        if let Some(bias) = &mut self.inputs.bias {
            visitor.tensor("bias", bias);
        }
    }
}

impl<const D: usize> Operands for Norm<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<D> {
        let operands = super::Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(super::LayerNorm::run(operands, implementation).y)
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

    /// Appends a slice around 1, in which a mean that is not subtracted shows, and one whose variance is near epsilon:
    /// in larger numbers a wrong epsilon would not show.
    fn with_probes(self) -> (Self, usize) {
        if D < 2 || self.inputs.x.shape().num_elements() == 0 {
            return (self, 0);
        }
        let near_epsilon: Vec<f64> = self.deviation_near_epsilon().into_iter().collect();
        let x = append_around("x", self.inputs.x, 1.0);
        let inputs = Inputs {
            x: append_fixed("x", x, &near_epsilon),
            ..self.inputs
        };
        (Self { inputs, ..self }, 1 + near_epsilon.len())
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
