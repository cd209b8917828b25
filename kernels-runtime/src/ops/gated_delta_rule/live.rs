//! The operands of a gated delta rule as live verification checks them.

use super::{Decays, GatedDeltaRule, Inputs, Operands, Settings, both, reference};
use crate::kernel::{self, Rows, Tensors, Visitor, prefix};
use crate::registry::Implementation;
use crate::semantics::{GatedDeltaRuleKey, SequenceLengths};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The number of rows of a sample.
const ROWS: usize = 2;

/// The number of tokens of a sample: more than a chunk of 64 has.
const TOKENS: usize = 80;

/// The operands of a gated delta rule.
#[derive(Clone)]
pub(super) struct Recurrence {
    pub(super) inputs: Inputs,
    settings: Settings,
    key: GatedDeltaRuleKey,
}

impl From<Operands<DispatchTensor>> for Recurrence {
    fn from(operands: Operands<DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl Tensors for Recurrence {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        let inputs = &mut self.inputs;
        visitor.tensor("q", &mut inputs.q);
        visitor.tensor("k", &mut inputs.k);
        visitor.tensor("v", &mut inputs.v);
        match &mut inputs.g {
            Decays::Heads(g) => visitor.tensor("g", g),
            Decays::Channels(g) => visitor.tensor("g", g),
        }
        visitor.tensor("beta", &mut inputs.beta);
        if let Some(state) = &mut inputs.state {
            visitor.tensor("state", state);
        }
    }
}

impl kernel::Operands for Recurrence {
    /// The result and the last states.
    type Output = (Tensor<4>, Tensor<4>);

    /// Calls of one token are often computed in a way of their own.
    fn variant(&self) -> u64 {
        u64::from(self.inputs.q.dims()[1] == 1)
    }

    fn reference(self) -> Self::Output {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Self::Output {
        let operands = Operands::of(self.inputs, self.settings, self.key);
        both(GatedDeltaRule::run(operands, implementation))
    }

    /// Takes the first tokens of the first rows. All heads stay, because a body may know how many share a head of
    /// keys. It also knows the lengths of packed sequences, which are compared as a whole.
    fn sample(&self, _: Rows) -> Option<Self> {
        if self.key.lengths == SequenceLengths::Packed {
            return None;
        }
        let inputs = Inputs {
            q: some(&self.inputs.q),
            k: some(&self.inputs.k),
            v: some(&self.inputs.v),
            g: match &self.inputs.g {
                Decays::Heads(g) => Decays::Heads(some(g)),
                Decays::Channels(g) => Decays::Channels(some(g)),
            },
            beta: some(&self.inputs.beta),
            state: self
                .inputs
                .state
                .as_ref()
                .map(|state| prefix(state.clone().detach(), 0, ROWS)),
            lengths: self.inputs.lengths.clone(),
        };
        Some(Self {
            inputs,
            ..self.clone()
        })
    }

    /// The gradient of a decay is the difference of sums of products of results and their gradients, over the tokens
    /// of a chunk. It is zero where the state before is.
    fn gradient_terms(&self, operand: &str) -> f64 {
        let [batch, tokens, heads, _] = self.inputs.v.dims();
        if operand != "g" || batch * tokens * heads == 0 {
            return 0.0;
        }
        let (y, state) = reference(self.inputs.clone(), self.settings, self.key);
        let of_results = y.detach().abs().sum_dim(3).sum_dim(1).max();
        let of_states = state.detach().abs().sum_dim(3).sum_dim(2).max();
        of_results.into_scalar::<f64>() + of_states.into_scalar::<f64>()
    }

    /// The last states of some tokens are not those of all.
    fn samples_apart(&self) -> bool {
        true
    }
}

/// Returns the first tokens of the first rows.
fn some<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    prefix(prefix(tensor.clone().detach(), 0, ROWS), 1, TOKENS)
}
