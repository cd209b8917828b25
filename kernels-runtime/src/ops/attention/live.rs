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

    fn variant(&self) -> u64 {
        u64::from(self.inputs.lengths.get().is_some())
    }

    fn reference(self) -> Tensor<4> {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<4> {
        let operands = super::Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(super::Attention::run(operands, implementation).y)
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

    /// The exponential of a rounded score is off by as many roundings as the score is large.
    fn terms(&self) -> f64 {
        match self.is_empty() {
            true => 0.0,
            false => self.roundings() * largest(&self.inputs.v),
        }
    }

    /// Kernels keep the logarithm of each query's sum of exponentials, rounded, and compute the probabilities from it:
    /// these are off by as many roundings as the logarithm is large. A query that sees one key almost alone has
    /// gradients of scores that are far smaller than their terms.
    fn gradient_terms(&self, operand: &str) -> f64 {
        let Inputs { q, k, v, .. } = &self.inputs;
        if self.is_empty() {
            return 0.0;
        }
        let roundings = self.roundings();
        let of_scores = 2.0 * longest_row(v) * (1.0 + roundings);
        let scale = self.scale();
        match operand {
            "v" => roundings,
            "q" => of_scores * scale * largest(k),
            "k" => of_scores * scale * largest(q),
            _ => of_scores,
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
    fn is_empty(&self) -> bool {
        let Inputs { q, k, v, .. } = &self.inputs;
        [q, k, v].iter().any(|tensor| tensor.dims().contains(&0))
    }

    /// Returns two roundings of the largest exponent, as a fraction of the 16 that each term is allowed.
    fn roundings(&self) -> f64 {
        self.largest_exponent() / 8.0
    }

    /// Returns the magnitude of the factor of the scores.
    fn scale(&self) -> f64 {
        self.settings.scale_of(self.inputs.q.dims()[3]).abs()
    }

    /// Returns a bound of the magnitude of the scores, with the bias and the sinks.
    fn largest_exponent(&self) -> f64 {
        let Inputs {
            q, k, bias, sinks, ..
        } = &self.inputs;
        let product = self.scale() * longest_row(q) * longest_row(k);
        let score = self.settings.cap.map_or(product, |cap| product.min(cap));
        // A bias that is far below zero hides a key.
        let of_bias = bias.as_ref().map_or(0.0, |bias| {
            bias.clone().detach().max().into_scalar::<f64>().max(0.0)
        });
        score + of_bias.max(sinks.as_ref().map_or(0.0, largest))
    }

    /// Takes the first positions of the first sequences: a query sees no later key. Returns `None` if the first query
    /// sees no key, since the sample would have other positions.
    fn first_positions(&self) -> Option<Self> {
        let Inputs { q, k, v, .. } = &self.inputs;
        let sizes = check(&self.inputs, self.settings, self.key).sizes();
        let before = usize::try_from(self.settings.first(sizes)).ok()?;
        let batch = sizes.batch.min(2);
        let scores = |queries: usize| {
            let keys = before.saturating_add(queries);
            (batch * sizes.heads * queries).saturating_mul(keys)
        };
        // A window shows only beyond its size, which may be any number.
        let wanted = POSITIONS.saturating_add(self.settings.window.unwrap_or(0));
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

/// Returns the largest Euclidean norm of a row.
fn longest_row(tensor: &Tensor<4>) -> f64 {
    let squares = tensor.clone().detach().square().sum_dim(3);
    squares.max().into_scalar::<f64>().sqrt()
}

/// Returns the largest magnitude of an element.
fn largest<const D: usize>(tensor: &Tensor<D>) -> f64 {
    tensor.clone().detach().abs().max().into_scalar::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::attention::Lengths;
    use crate::registry::FloatType;
    use crate::verify::data::{tensor, values};
    use burn::tensor::Device;

    /// Returns causal attention over scores of about the size.
    fn with_scores(size: f64, name: &str) -> Attended {
        let device = Device::flex().autodiff();
        let shape = [2, 32, 4, 8];
        let of = |operand: &str, factor: f64| {
            let values = values(&format!("{name} {operand}"), 2 * 32 * 4 * 8, FloatType::F32);
            let tensor = tensor(&values, shape, FloatType::F32, &device);
            (tensor * factor).detach().require_grad()
        };
        let root = size.sqrt();
        Attended {
            inputs: Inputs {
                q: of("q", root),
                k: of("k", root),
                v: of("v", 1.0),
                bias: None,
                sinks: None,
                lengths: Lengths::default(),
            },
            settings: Settings::default(),
            key: AttentionKey {
                layout: HeadLayout::Bsnd,
                ..AttentionKey::CAUSAL
            },
        }
    }

    #[test]
    fn large_scores_are_no_mistake() {
        let implementation = &super::super::KERNEL.implementations[0];
        for size in [1.0, 30.0, 300.0, 3000.0] {
            for name in ["one", "two", "three", "four"] {
                crate::live::verify(implementation, &with_scores(size, name)).unwrap();
            }
        }
    }
}
