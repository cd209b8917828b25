//! Attention with a cap of the scores, with a bias, or with both, of operators for products and the softmax.
//!
//! The scores of a block of queries are computed at a time, and only of the keys that one of them sees. A block has at
//! most [`QUERIES`] queries, and fewer if it would have more than [`SCORES`] scores. All is computed in f32. With
//! `S = scale · q · kᵀ`, `C = cap · tanh(S / cap)`, or `C = S` without a cap, `P = softmax(C + bias)` and `A = dy · vᵀ`, the
//! gradients are
//!
//! ```text
//! G = P · (A − Σ P · A)            d_bias = Σ G over the axes that the bias is repeated on
//! dS = G · (1 − (C / cap)²)        dq = scale · dS · k      dk = dSᵀ · scale · q      dv = Pᵀ · dy
//! ```
//!
//! The backward pass computes the scores again, and only the gradients that are wanted. With sinks, whose scores change
//! `lse`, the weights are `exp(C + bias − lse)`. Without sinks they are a softmax again: a bias may be so far from zero that
//! `lse` holds no sum beside the largest score.
//!
//! Half types are widened, because the product of two of them is rounded to the half type, which would leave scores of 30 off
//! by 2⁻⁴ in bf16. Only the keys and values that a query sees are widened: in a step of decoding with a window of `W` keys,
//! `2 · kv_heads · W · width` elements are read in the half type and written in f32, whatever the length of the cache. In
//! f32 the products read the cache where it lies.

mod backward;

use super::super::Operands;
use super::ranges::{Blind, Ends, Ranges};
use super::tensors;
use crate::npu::views::reshaped;
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::ops::attention::Sizes;
use crate::reason::Reason;
use crate::semantics::{
    AttentionBias, AttentionKey, AttentionMask, AttentionWindow, HeadLayout, ScoreCap,
    SequenceLengths, Sinks,
};
use burn_cann::ops::{matmul, softmax};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};
use std::ops::Range;

/// The most scores of a block that has more than one query: 64 MiB in f32.
const SCORES: usize = 1 << 24;

/// The most queries of a block. More would compute more scores of keys that are hidden from most of them.
const QUERIES: usize = 256;

/// Checks the operands of both directions.
pub(super) fn check<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<(), Refused> {
    let sizes = operands.sizes();
    for (name, tensor) in [
        ("q", operands.q()),
        ("k", operands.k()),
        ("v", operands.v()),
    ] {
        if tensor.spec().is_empty() {
            let why = format!("{name} has no elements");
            return Err(Refused::new(Reason::Shape, why));
        }
    }
    let of =
        |rows, columns| Spec::contiguous(DType::F32, [sizes.batch, sizes.kv_heads, rows, columns]);
    let scores = matmul::check(
        platform,
        &of(sizes.group(), sizes.width)?,
        &of(sizes.width, sizes.keys)?,
    )?;
    softmax::check(platform, &scores, 3)?;
    Ok(())
}

/// Returns the operators of a block's forward pass. `is_half` says whether tensors are widened, and `keeps` whether `lse` is
/// kept for gradients.
pub(super) fn operators(key: AttentionKey, is_half: bool, keeps: bool) -> Vec<&'static str> {
    const FILL: &str = "aclnnInplaceMaskedFillScalar";
    let some = |condition: bool, operators: &'static [&'static str]| {
        operators
            .iter()
            .take(if condition { operators.len() } else { 0 })
    };
    let has_bias = key.bias == AttentionBias::Additive;
    let has_sinks = key.sink == Sinks::Learned;
    let hides = key.mask != AttentionMask::None
        || key.window != AttentionWindow::None
        || key.lengths != SequenceLengths::None;
    some(is_half, &["aclnnCast"; 3])
        .chain(&["aclnnMuls", "aclnnMatmul"])
        .chain(some(
            key.cap == ScoreCap::Tanh,
            &["aclnnMuls", "aclnnTanh", "aclnnMuls"],
        ))
        .chain(some(has_bias && is_half, &["aclnnCast"]))
        .chain(some(has_bias, &["aclnnAdd"]))
        .chain(some(hides, &[FILL]))
        .chain(some(has_bias || has_sinks || keeps, &["aclnnAmax"]))
        .chain(some(has_bias, &[FILL]))
        .chain(&["aclnnSoftmax", "aclnnMatmul"])
        .chain(some(has_sinks || keeps, &["aclnnAmax"]))
        .chain(some(has_sinks, &["aclnnMul"]))
        .copied()
        .collect()
}

/// A call, forward or backward.
pub(super) struct Composed<'a> {
    operands: &'a Operands<Seen<Tensor>>,
    sizes: Sizes,
    scale: f64,
    cap: Option<f64>,
    /// The queries as a view, `[batch, heads, queries, width]`.
    q: Tensor,
    /// The keys and values that a query sees, in f32, `[batch, kv_heads, seen, width]`.
    k: Tensor,
    v: Tensor,
    /// The keys that a query sees, and those between them.
    seen: Range<usize>,
    hidden: Option<HiddenKeys>,
    /// The sinks in f32, `[1, heads, 1]`.
    sinks: Option<Tensor>,
}

/// The keys that are hidden from queries.
struct HiddenKeys {
    ranges: Ranges,
    ends: Ends,
    blind: Option<Blind>,
}

/// A part of the queries, and the keys that they see.
#[derive(Clone)]
struct Block {
    queries: Range<usize>,
    keys: Range<usize>,
}

/// The scores of a block, `[batch, kv_heads, group · queries, keys]`, with the tensors that gradients need.
struct Scored {
    /// The scaled queries in f32, `[batch, kv_heads, group · queries, width]`.
    q: Tensor,
    /// The scores, capped and with the bias. Those of hidden keys are `-∞`.
    z: Tensor,
    /// The slope of the cap at each score, if there is a cap and gradients are computed.
    slope: Option<Tensor>,
}

impl<'a> Composed<'a> {
    pub(super) fn new(stream: &Stream, operands: &'a Operands<Seen<Tensor>>) -> Result<Self> {
        let settings = operands.settings();
        let (sizes, layout) = (operands.sizes(), operands.key().layout);
        let [q, k, v] = tensors(operands).map(|tensor| by_head(tensor, layout));
        let hidden = match operands.visible().is_everything() {
            true => None,
            false => {
                let ranges = Ranges::new(operands);
                Some(HiddenKeys {
                    ends: ranges.ends(stream)?,
                    blind: ranges.blind(stream)?,
                    ranges,
                })
            }
        };
        let seen = match &hidden {
            Some(hidden) => hidden.ranges.seen_by(0..sizes.queries),
            None => 0..sizes.keys,
        };
        let wide = |tensor: Tensor| base::cast(stream, &tensor.slice(2, seen.clone())?, DType::F32);
        let sinks = operands.sinks().map(|sinks| {
            let sinks = base::cast(stream, sinks, DType::F32)?;
            reshaped(stream, &sinks, [1, sizes.heads, 1])
        });
        Ok(Self {
            operands,
            sizes,
            scale: settings.scale_of(sizes.width),
            cap: settings.cap,
            q: q?,
            k: wide(k?)?,
            v: wide(v?)?,
            seen,
            hidden,
            sinks: sinks.transpose()?,
        })
    }

    /// Returns the result and, if it is kept, `lse`.
    pub(super) fn forward(&self, stream: &Stream, keep: bool) -> Result<(Tensor, Option<Tensor>)> {
        let (sizes, layout) = (self.sizes, self.operands.key().layout);
        let y = Tensor::empty(stream, self.q.dtype(), self.operands.result().as_slice())?;
        let y_by_head = by_head(&y, layout)?;
        let lse = [sizes.batch, sizes.heads, sizes.queries];
        let lse = keep.then(|| Tensor::empty(stream, DType::F32, lse));
        let lse = lse.transpose()?;
        for block in self.blocks() {
            let (part, part_lse) = self.forward_block(stream, &block, keep)?;
            let target = y_by_head.slice(2, block.queries.clone())?;
            base::write(stream, &target, &self.apart(&part)?)?;
            if let (Some(lse), Some(part)) = (&lse, part_lse) {
                base::write(stream, &lse.slice(2, block.queries)?, &part)?;
            }
        }
        if let Some(blind) = self.blind() {
            blind.clear(stream, &y, lse.as_ref(), layout)?;
        }
        Ok((y, lse))
    }

    /// Returns the result of a block, `[batch, kv_heads, group · queries, value_width]`, and its `lse`, `[batch, heads,
    /// queries]`, if it is kept or sinks need it.
    fn forward_block(
        &self,
        stream: &Stream,
        block: &Block,
        keep: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let z = self.scored(stream, block, false)?.z;
        let (has_bias, has_sinks) = (self.operands.bias().is_some(), self.sinks.is_some());
        let of_rows = (has_bias || has_sinks || keep).then(|| base::most(stream, &z, &[3]));
        let of_rows = of_rows.transpose()?;
        let sees_none = of_rows.as_ref().filter(|_| has_bias);
        let sees_none = sees_none
            .map(|most| is_minus_infinity(stream, most))
            .transpose()?;
        if let Some(sees_none) = &sees_none {
            base::masked_fill(stream, &z, sees_none, 0.0)?;
        }
        let weights = base::softmax(stream, &z, 3)?;
        let y = base::product(stream, &weights, &self.part(&self.v, block)?)?;
        if let Some(sees_none) = &sees_none {
            base::masked_fill(stream, &y, sees_none, 0.0)?;
        }
        let Some(most) = of_rows.filter(|_| has_sinks || keep) else {
            return Ok((y, None));
        };
        // The largest weight is that of the largest score, `exp(z − lse)`.
        let largest = base::log(stream, &base::most(stream, &weights, &[3])?)?;
        let lse = self
            .apart(&base::sub(stream, &most, &largest)?)?
            .squeeze(3)?;
        let (y, lse) = match &self.sinks {
            None => (y, lse),
            Some(sinks) => {
                // The sum of exponentials without the sink, as a part of the sum with it.
                let part = base::sigmoid(stream, &base::sub(stream, &lse, sinks)?)?;
                let lse = base::sub(stream, &lse, &base::log(stream, &part)?)?;
                let part = part.reshape([y.shape()[0], y.shape()[1], y.shape()[2], 1])?;
                (base::mul(stream, &y, &part)?, lse)
            }
        };
        if let Some(sees_none) = &sees_none {
            let sees_none = self.apart(sees_none)?.squeeze(3)?;
            base::masked_fill(stream, &lse, &sees_none, f64::NEG_INFINITY)?;
        }
        Ok((y, Some(lse)))
    }

    fn scored(&self, stream: &Stream, block: &Block, with_slope: bool) -> Result<Scored> {
        let q = base::mul_number(stream, &self.joined(stream, &self.q, block)?, self.scale)?;
        let k = self.part(&self.k, block)?.transpose(2, 3)?;
        let mut z = base::product(stream, &q, &k)?;
        let mut slope = None;
        if let Some(cap) = self.cap {
            z = base::capped(stream, &z, cap)?;
            // Before scores are hidden: the slope at `-∞` is not a number.
            slope = with_slope
                .then(|| base::cap_slope(stream, &z, cap))
                .transpose()?;
        }
        if let Some(bias) = self.operands.bias() {
            let bias = base::cast(stream, &of_block(bias, block)?, DType::F32)?;
            let sum = base::add(stream, &self.apart(&z)?, &bias)?;
            z = sum.reshape(z.shape())?;
        }
        if let Some(hidden) = &self.hidden {
            let (queries, keys) = (block.queries.clone(), block.keys.clone());
            let mask = hidden.ends.hidden(stream, queries, keys)?;
            base::masked_fill(stream, &self.apart(&z)?, &mask, f64::NEG_INFINITY)?;
        }
        Ok(Scored { q, z, slope })
    }

    /// Returns a block's part of keys or values, or of their gradients.
    fn part(&self, tensor: &Tensor, block: &Block) -> Result<Tensor> {
        let first = self.seen.start;
        Ok(tensor.slice(2, block.keys.start - first..block.keys.end - first)?)
    }

    fn blind(&self) -> Option<&Blind> {
        self.hidden.as_ref()?.blind.as_ref()
    }

    /// Returns the blocks of all queries.
    fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let Sizes {
            batch,
            heads,
            queries,
            keys,
            ..
        } = self.sizes;
        let rows = rows(batch.saturating_mul(heads).saturating_mul(keys));
        (0..queries).step_by(rows).map(move |first| {
            let block = first..(first + rows).min(queries);
            Block {
                keys: match &self.hidden {
                    Some(hidden) => hidden.ranges.seen_by(block.clone()),
                    None => 0..keys,
                },
                queries: block,
            }
        })
    }

    /// Returns the rows of a block's queries in f32, with those of the heads that share a head of keys side by side,
    /// `[batch, kv_heads, group · queries, width]`.
    fn joined(&self, stream: &Stream, tensor: &Tensor, block: &Block) -> Result<Tensor> {
        let Sizes {
            batch, kv_heads, ..
        } = self.sizes;
        let part = tensor.slice(2, block.queries.clone())?;
        let width = part.shape()[3];
        let rows = self.sizes.group() * block.queries.len();
        let part = base::cast(stream, &part, DType::F32)?;
        reshaped(stream, &part, [batch, kv_heads, rows, width])
    }

    /// Returns joined rows by head, `[batch, heads, queries, width]`, as a view.
    fn apart(&self, rows: &Tensor) -> Result<Tensor> {
        let Sizes { batch, heads, .. } = self.sizes;
        let [joined, width] = [rows.shape()[2], rows.shape()[3]];
        Ok(rows.reshape([batch, heads, joined / self.sizes.group(), width])?)
    }
}

/// Returns the number of queries of a block, from the number of scores of one query.
fn rows(scores: usize) -> usize {
    (SCORES / scores.max(1)).clamp(1, QUERIES)
}

/// Returns `[batch, heads, positions, width]`, as a view.
fn by_head(tensor: &Tensor, layout: HeadLayout) -> Result<Tensor> {
    Ok(match layout {
        HeadLayout::Bnsd => tensor.clone(),
        HeadLayout::Bsnd => tensor.transpose(1, 2)?,
    })
}

/// Returns a block's part of a bias or of its gradient.
fn of_block(bias: &Tensor, block: &Block) -> Result<Tensor> {
    let part = bias.slice(3, block.keys.clone())?;
    Ok(match bias.shape()[2] {
        1 => part,
        _ => part.slice(2, block.queries.clone())?,
    })
}

/// Returns a mask of the values that are `-∞`: the largest scores, or `lse`, of queries that see no key.
fn is_minus_infinity(stream: &Stream, values: &Tensor) -> Result<Tensor> {
    base::below(stream, values, f32::MIN.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_bounded() {
        assert_eq!(rows(1), QUERIES);
        assert_eq!(rows(16 * 8192), 128);
        assert_eq!(rows(SCORES + 1), 1);
        for scores in [0, 1, 1000, 123_456, SCORES] {
            assert!(rows(scores) * scores <= SCORES, "{scores}");
        }
    }
}
