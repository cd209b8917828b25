//! The work of a call: one sequence at a time.

use std::ops::Range;

use super::super::layout::by_head;
use super::call::Plan;
use crate::error::Outcome;
use crate::memory::Memory;
use crate::ops::attention::{Sizes, attention};
use crate::tensor::Tensor;

/// The operands, by their meaning.
struct Read<'a> {
    query: &'a Tensor,
    key: &'a Tensor,
    value: &'a Tensor,
    mask: Option<&'a Tensor>,
    sinks: Option<Vec<f32>>,
    output: &'a Tensor,
    lse: Option<&'a Tensor>,
}

impl Plan {
    pub(super) fn run(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let [query, key, value, rest @ ..] = operands else {
            unreachable!("taken in phase one")
        };
        let (mask, rest) = rest.split_at(usize::from(self.with_mask));
        let (padding, rest) = rest.split_at(usize::from(self.with_padding));
        let (sinks, rest) = rest.split_at(usize::from(self.with_sinks));
        let [output, lse @ ..] = rest else {
            unreachable!("taken in phase one")
        };
        let padding = match padding.first() {
            Some(padding) => Some(padding.integers(memory)?[0].max(0)),
            None => None,
        };
        let sinks = sinks
            .first()
            .map(|sinks| sinks.floats(memory))
            .transpose()?;
        let tensors = Read {
            query,
            key,
            value,
            mask: mask.first(),
            sinks,
            output,
            lse: lse.first(),
        };
        (0..self.sizes.batch).try_for_each(|sequence| {
            let keys = self.keys_of(sequence, padding);
            self.run_one(memory, &tensors, sequence, keys)
        })
    }

    /// Returns the keys of a sequence: the first ones, or with padding those before it. The range is empty if padding and
    /// length are longer than the axis.
    fn keys_of(&self, sequence: usize, padding: Option<i64>) -> Range<usize> {
        let length = self.keys[sequence];
        let Some(padding) = padding else {
            return 0..length;
        };
        let end = usize::try_from(self.sizes.keys as i64 - padding).unwrap_or(0);
        match end.checked_sub(length) {
            Some(start) => start..end,
            None => 0..0,
        }
    }

    fn run_one(
        &self,
        memory: &mut Memory,
        tensors: &Read<'_>,
        sequence: usize,
        keys: Range<usize>,
    ) -> Outcome<()> {
        let sizes = Sizes {
            keys: keys.len(),
            ..self.of(sequence)
        };
        let rows = 0..sizes.queries;
        let output = self.part(tensors.output, sequence, rows.clone())?;
        let (made, lse) = if sizes.keys == 0 {
            self.nothing(sizes)
        } else {
            let q = self.part(tensors.query, sequence, rows)?.floats(memory)?;
            let k = self
                .part(tensors.key, sequence, keys.clone())?
                .floats(memory)?;
            let v = self.part(tensors.value, sequence, keys)?.floats(memory)?;
            let masked = self.masked(memory, tensors.mask, sequence)?;
            let sinks = tensors.sinks.as_deref();
            let hidden = |_, query, key| masked(query, key);
            let mut made = attention((&q, &k, &v), sinks, sizes, self.scale, hidden);
            let blind: Vec<bool> = (0..sizes.queries)
                .map(|query| (0..sizes.keys).all(|key| masked(query, key)))
                .collect();
            self.mark(&mut made.output, &blind, sizes);
            let sums = made.most.iter().zip(&made.total);
            let lse =
                sums.enumerate()
                    .map(|(row, (most, total))| match blind[row % sizes.queries] {
                        true => f32::INFINITY,
                        false => most + total.ln(),
                    });
            (made.output, lse.collect())
        };
        output.store(memory, &made)?;
        match tensors.lse {
            Some(to) => self.store_lse(memory, to, sequence, &lse),
            None => Ok(()),
        }
    }

    /// Returns the results of a sequence without keys.
    fn nothing(&self, sizes: Sizes) -> (Vec<f32>, Vec<f32>) {
        let rows = sizes.heads * sizes.queries;
        (
            vec![0.0; rows * sizes.value_width],
            vec![f32::INFINITY; rows],
        )
    }

    /// Sets the rows that see no key to what CANN returns for them.
    fn mark(&self, output: &mut [f32], blind: &[bool], sizes: Sizes) {
        let value = if self.repairs { 0.0 } else { f32::NAN };
        for (row, values) in output.chunks_exact_mut(sizes.value_width).enumerate() {
            if blind[row % sizes.queries] {
                values.fill(value);
            }
        }
    }

    /// Stores the logarithms of a sequence. Rows behind its last query have none.
    fn store_lse(
        &self,
        memory: &mut Memory,
        to: &Tensor,
        sequence: usize,
        lse: &[f32],
    ) -> Outcome<()> {
        let (rows, queries) = (self.sizes.queries, self.queries[sequence]);
        let mut padded = Vec::with_capacity(self.sizes.heads * rows);
        for head in 0..self.sizes.heads {
            padded.extend_from_slice(&lse[head * queries..][..queries]);
            padded.resize((head + 1) * rows, f32::INFINITY);
        }
        let mut own = to.clone();
        own.shape[0] = 1;
        own.offset += to.strides[0] * sequence as i64;
        own.store(memory, &padded)
    }

    /// Returns tokens of one sequence, as `[1, heads, tokens, width]`.
    fn part(&self, tensor: &Tensor, sequence: usize, tokens: Range<usize>) -> Outcome<Tensor> {
        let mut own = by_head("", tensor, &self.layout, 0)?;
        own.offset += own.strides[0] * sequence as i64 + own.strides[2] * tokens.start as i64;
        own.shape[0] = 1;
        own.shape[2] = tokens.len();
        Ok(own)
    }
}
