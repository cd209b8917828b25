//! The operands of a norm and rotation as live verification checks them.

use super::{Inputs, Pair, Settings, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::registry::Implementation;
use crate::semantics::{QkNorm, QkNormRopeKey, Rounding};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The operands of a norm and rotation.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) inputs: Inputs,
    settings: Settings,
    key: QkNormRopeKey,
}

impl From<Pair<DispatchTensor>> for Prepared {
    fn from(pair: Pair<DispatchTensor>) -> Self {
        Self {
            settings: pair.settings(),
            key: pair.key(),
            inputs: pair.into_inputs(),
        }
    }
}

impl Tensors for Prepared {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("q", &mut self.inputs.q);
        visitor.tensor("k", &mut self.inputs.k);
        if let Some(weight) = &mut self.inputs.q_weight {
            visitor.tensor("q_weight", weight);
        }
        if let Some(weight) = &mut self.inputs.k_weight {
            visitor.tensor("k_weight", weight);
        }
        visitor.tensor("cos", &mut self.inputs.cos);
        visitor.tensor("sin", &mut self.inputs.sin);
    }
}

impl Operands for Prepared {
    type Output = (Tensor<4>, Tensor<4>);

    fn reference(self) -> Self::Output {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Self::Output {
        let pair = Pair::of(self.inputs, self.settings, self.key);
        pair.run(implementation)
    }

    /// Takes the first and the last head, unless a norm takes all heads together. If all sequences share the tables,
    /// also takes only the first and the last sequence. The tables keep all positions, because a body does not take
    /// them from its argument.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let inputs = &self.inputs;
        let shared = inputs.cos.dims()[0] == 1 && inputs.sin.dims()[0] == 1;
        let some = |tensor: &Tensor<4>| {
            let tensor = match self.key.norm {
                QkNorm::Row => tensor.clone().detach(),
                QkNorm::None | QkNorm::Head => rows.ends(tensor, 2),
            };
            match shared {
                true => rows.ends(&tensor, 0),
                false => tensor,
            }
        };
        Some(Self {
            inputs: Inputs {
                q: some(&inputs.q),
                k: some(&inputs.k),
                ..inputs.clone()
            },
            ..self.clone()
        })
    }

    fn in_other_order(&self) -> Option<(Self, &'static str)> {
        if self.key.norm == QkNorm::None {
            return None;
        }
        let (rounding, name) = match self.key.rounding {
            Rounding::Llama => (Rounding::Gemma, "gemma"),
            Rounding::Gemma => (Rounding::Llama, "llama"),
        };
        let key = QkNormRopeKey {
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
        self.settings.eps
    }

    fn with_epsilon(&self, eps: f64) -> Option<Self> {
        let mut other = self.clone();
        other.settings.eps = Some(eps);
        Some(other)
    }
}
