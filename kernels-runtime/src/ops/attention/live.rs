//! The operands of attention as live verification checks them.

use super::{Inputs, Settings, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::registry::Implementation;
use crate::semantics::AttentionKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The operands of attention.
#[derive(Clone)]
pub(crate) struct Attended {
    pub(crate) inputs: Inputs,
    settings: Settings,
    key: AttentionKey,
}

impl From<super::Operands<DispatchTensor>> for Attended {
    fn from(operands: super::Operands<DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl Tensors for Attended {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("q", &mut self.inputs.q);
        visitor.tensor("k", &mut self.inputs.k);
        visitor.tensor("v", &mut self.inputs.v);
        if let Some(bias) = &mut self.inputs.bias {
            visitor.tensor("bias", bias);
        }
        if let Some(sinks) = &mut self.inputs.sinks {
            visitor.tensor("sinks", sinks);
        }
    }
}

impl Operands for Attended {
    type Output = Tensor<4>;

    fn reference(self) -> Tensor<4> {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<4> {
        let operands = super::Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(operands.run(implementation))
    }

    /// Takes the first and the last sequence. They keep all heads and positions, because a body may know the number of
    /// heads that share keys, and make its mask from the number of positions.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let some = |tensor: &Tensor<4>| rows.ends(tensor, 0);
        let inputs = Inputs {
            q: some(&self.inputs.q),
            k: some(&self.inputs.k),
            v: some(&self.inputs.v),
            bias: self.inputs.bias.as_ref().map(some),
            sinks: self.inputs.sinks.clone(),
        };
        Some(Self {
            inputs,
            ..self.clone()
        })
    }
}
