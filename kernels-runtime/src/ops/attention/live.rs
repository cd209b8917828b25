//! The operands of attention as live verification checks them.

use super::{Inputs, Settings, check, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor, prefix};
use crate::registry::Implementation;
use crate::semantics::{AttentionKey, AttentionMask, AttentionWindow, HeadLayout, SequenceLengths};
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

    /// Takes few queries, since the reference and the body hold the scores of all pairs. All heads stay, because a body
    /// may know the number of heads that share keys. A body knows the lengths of all sequences, so with lengths all
    /// sequences stay, and if the padding is behind the sequences or they are packed, nothing is taken.
    fn sample(&self, rows: Rows) -> Option<Self> {
        match (self.key.lengths, self.key.mask) {
            (SequenceLengths::None, _) => {}
            (SequenceLengths::LeftPadded, AttentionMask::Causal) => return self.last_positions(),
            _ => return None,
        }
        match (self.key.mask, self.key.window) {
            (AttentionMask::Causal, _) => self.first_positions(),
            (AttentionMask::None, AttentionWindow::None) => Some(self.ends(rows)),
            (AttentionMask::None | AttentionMask::Prefix, _) => None,
        }
    }

    fn samples_prefix(&self) -> bool {
        self.key.mask == AttentionMask::Causal
    }

    fn samples_apart(&self) -> bool {
        // The last positions are neither the first ones nor those of `Rows`.
        self.key.lengths == SequenceLengths::LeftPadded
    }
}

/// The number of positions of a sample, and the largest number of its scores.
const POSITIONS: usize = 32;
const SCORES: usize = 1 << 20;

impl Attended {
    /// Takes the first positions of the first sequences: a query sees no later key. Returns `None` if the first query
    /// sees no key, since the sample would have other positions.
    fn first_positions(&self) -> Option<Self> {
        let Inputs { q, k, v, .. } = &self.inputs;
        let sizes = check(&self.inputs, self.settings, self.key).sizes();
        let before = usize::try_from(self.settings.first(sizes)).ok()?;
        let batch = sizes.batch.min(2);
        let scores = |queries: usize| batch * sizes.heads * queries * (before + queries);
        // A window shows only beyond its size.
        let wanted = POSITIONS + self.settings.window.unwrap_or(0);
        let mut queries = wanted.min(sizes.queries);
        while queries > 1 && scores(queries) > SCORES {
            queries /= 2;
        }
        let keys = sizes.keys.min(before.saturating_add(queries));
        let axis = self.positions();
        let some = |tensor: &Tensor<4>, count| {
            let tensor = prefix(tensor.clone().detach(), 0, batch);
            prefix(tensor, axis, count)
        };
        let inputs = Inputs {
            q: some(q, queries),
            k: some(k, keys),
            v: some(v, keys),
            bias: self.inputs.bias.as_ref().map(|bias| {
                let bias = prefix(bias.clone().detach(), 0, batch);
                prefix(prefix(bias, 2, queries), 3, keys)
            }),
            sinks: self.inputs.sinks.clone(),
            lengths: self.inputs.lengths.clone(),
        };
        Some(Self {
            inputs,
            ..self.clone()
        })
    }

    /// Takes the last queries of all sequences, with all keys: lengths count from the end. Returns `None` if a call is
    /// small, and if its queries are not the last ones.
    fn last_positions(&self) -> Option<Self> {
        let sizes = check(&self.inputs, self.settings, self.key).sizes();
        let of_one = sizes.batch * sizes.heads * sizes.keys;
        if self.settings.offset.is_some() || of_one.saturating_mul(sizes.queries) <= SCORES {
            return None;
        }
        let queries = (SCORES / of_one).clamp(1, sizes.queries);
        let q = self.inputs.q.clone().detach();
        let inputs = Inputs {
            q: q.narrow(self.positions(), sizes.queries - queries, queries),
            ..self.inputs.clone()
        };
        Some(Self {
            inputs,
            ..self.clone()
        })
    }

    /// Takes the first and the last query of the first and the last sequence, with all keys.
    fn ends(&self, rows: Rows) -> Self {
        let Inputs { q, k, v, .. } = &self.inputs;
        let inputs = Inputs {
            q: rows.ends(&rows.ends(q, 0), self.positions()),
            k: rows.ends(k, 0),
            v: rows.ends(v, 0),
            bias: self
                .inputs
                .bias
                .as_ref()
                .map(|bias| rows.ends(&rows.ends(bias, 0), 2)),
            sinks: self.inputs.sinks.clone(),
            lengths: self.inputs.lengths.clone(),
        };
        Self {
            inputs,
            ..self.clone()
        }
    }

    /// Returns the axis of positions.
    fn positions(&self) -> usize {
        match self.key.layout {
            HeadLayout::Bnsd => 2,
            HeadLayout::Bsnd => 1,
        }
    }
}
