//! Attention with capped scores, of operators for products, the cap and the softmax.
//!
//! The scores of a block of queries are computed at a time, and only of the keys that one of them sees. A block has at
//! most [`QUERIES`] queries, and fewer if it would have more than [`SCORES`] scores. All is computed in f32. With
//! `S = scale · q · kᵀ`, `Z = cap · tanh(S / cap)`, `P = softmax(Z)` and `A = dy · vᵀ`, the gradients are
//!
//! ```text
//! dS = P · (A − Σ P · A) · (1 − (Z / cap)²)
//! dq = scale · dS · k      dk = dSᵀ · scale · q      dv = Pᵀ · dy
//! ```
//!
//! The backward pass computes the scores again, and the weights from `lse`. A sink's score changes `lse`, which scales
//! the weights: `P = exp(Z − lse)`.

use super::super::{Attention, Each, Operands};
use super::ranges::{Blind, Ends, Ranges};
use super::tensors;
use crate::npu::views::reshaped;
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::ops::attention::Sizes;
use crate::ops::fused::Backward;
use crate::reason::Reason;
use crate::semantics::{
    AttentionKey, AttentionMask, AttentionWindow, HeadLayout, SequenceLengths, Sinks,
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

/// Returns the operators of a block's forward pass. `is_half` says whether tensors are widened.
pub(super) fn operators(key: AttentionKey, is_half: bool) -> Vec<&'static str> {
    let casts = if is_half { 3 } else { 0 };
    let scores = [
        "aclnnMuls",
        "aclnnMatmul",
        "aclnnMuls",
        "aclnnTanh",
        "aclnnMuls",
    ];
    let hides = key.mask != AttentionMask::None
        || key.window != AttentionWindow::None
        || key.lengths != SequenceLengths::None;
    let sinks = (key.sink == Sinks::Learned).then_some("aclnnMul");
    std::iter::repeat_n("aclnnCast", casts)
        .chain(scores)
        .chain(hides.then_some("aclnnInplaceMaskedFillScalar"))
        .chain(["aclnnSoftmax", "aclnnMatmul", "aclnnAmax", "aclnnAmax"])
        .chain(sinks)
        .collect()
}

/// A call, forward or backward.
pub(super) struct Composed<'a> {
    operands: &'a Operands<Seen<Tensor>>,
    sizes: Sizes,
    scale: f64,
    cap: f64,
    /// `q`, `k` and `v` as views, `[batch, heads, positions, width]`; `k` and `v` in f32.
    q: Tensor,
    k: Tensor,
    v: Tensor,
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
    /// The capped scores. Those of hidden keys are `-∞`.
    z: Tensor,
    /// The slope of the cap at each score, if gradients are computed.
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
        let sinks = operands.sinks().map(|sinks| {
            let sinks = base::cast(stream, sinks, DType::F32)?;
            reshaped(stream, &sinks, [1, sizes.heads, 1])
        });
        Ok(Self {
            operands,
            sizes,
            scale: settings.scale_of(sizes.width),
            cap: settings.cap.expect("the plan is that of a cap"),
            q: q?,
            k: base::cast(stream, &k?, DType::F32)?,
            v: base::cast(stream, &v?, DType::F32)?,
            hidden,
            sinks: sinks.transpose()?,
        })
    }

    /// Returns the result and `lse`.
    pub(super) fn forward(&self, stream: &Stream) -> Result<(Tensor, Tensor)> {
        let (sizes, layout) = (self.sizes, self.operands.key().layout);
        let y = Tensor::empty(stream, self.q.dtype(), self.operands.result().as_slice())?;
        let y_by_head = by_head(&y, layout)?;
        let lse = Tensor::empty(
            stream,
            DType::F32,
            [sizes.batch, sizes.heads, sizes.queries],
        )?;
        for block in self.blocks() {
            let (part, part_lse) = self.forward_block(stream, &block)?;
            let part = self.apart(&part)?;
            base::write(stream, &y_by_head.slice(2, block.queries.clone())?, &part)?;
            base::write(stream, &lse.slice(2, block.queries)?, &part_lse)?;
        }
        if let Some(blind) = self.blind() {
            blind.clear(stream, &y, &lse, layout)?;
        }
        Ok((y, lse))
    }

    /// Returns the result of a block, `[batch, kv_heads, group · queries, value_width]`, and its
    /// `lse`, `[batch, heads, queries]`.
    fn forward_block(&self, stream: &Stream, block: &Block) -> Result<(Tensor, Tensor)> {
        let z = self.scored(stream, block, false)?.z;
        let weights = base::softmax(stream, &z, 3)?;
        let y = base::product(stream, &weights, &self.v.slice(2, block.keys.clone())?)?;
        // The largest weight is that of the largest score, `exp(z − lse)`.
        let largest = base::log(stream, &base::most(stream, &weights, &[3])?)?;
        let lse = base::sub(stream, &base::most(stream, &z, &[3])?, &largest)?;
        let lse = self.apart(&lse)?.squeeze(3)?;
        let Some(sinks) = &self.sinks else {
            return Ok((y, lse));
        };
        // The sum of exponentials without the sink, as a part of the sum with it.
        let part = base::sigmoid(stream, &base::sub(stream, &lse, sinks)?)?;
        let lse = base::sub(stream, &lse, &base::log(stream, &part)?)?;
        let part = part.reshape([y.shape()[0], y.shape()[1], y.shape()[2], 1])?;
        Ok((base::mul(stream, &y, &part)?, lse))
    }

    pub(super) fn backward(
        &self,
        stream: &Stream,
        backward: &Backward<Attention, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let [_, lse] = backward.saved();
        let lse = base::copy(stream, lse)?;
        if let Some(blind) = self.blind() {
            blind.raise_lse(stream, &lse)?;
        }
        let layout = self.operands.key().layout;
        let dy = by_head(backward.dy(), layout)?;
        let like = |tensor: &Tensor| Tensor::empty(stream, tensor.dtype(), tensor.shape());
        let [q, k, v] = tensors(self.operands);
        let dq = like(q)?;
        let dq_by_head = by_head(&dq, layout)?;
        let zeros = |tensor: &Tensor| base::filled(stream, DType::F32, tensor.shape(), 0.0);
        let (dk, dv) = (zeros(&self.k)?, zeros(&self.v)?);
        let mut d_sinks = None;
        for block in self.blocks() {
            let lse = lse.slice(2, block.queries.clone())?;
            let dy = self.joined(stream, &dy, &block)?;
            let (d_scores, q) =
                self.backward_scores(stream, &block, &lse, &dy, &dv, &mut d_sinks)?;
            let k = self.k.slice(2, block.keys.clone())?;
            let part =
                base::mul_number(stream, &base::product(stream, &d_scores, &k)?, self.scale)?;
            let target = dq_by_head.slice(2, block.queries.clone())?;
            base::write(stream, &target, &self.apart(&part)?)?;
            add_to(stream, &dk, &block, &turned_product(stream, &d_scores, &q)?)?;
        }
        let given = |tensor: &Tensor, gradient: &Tensor| {
            let target = like(tensor)?;
            base::write(stream, &by_head(&target, layout)?, gradient)?;
            Ok::<_, crate::npu::NpuError>(target)
        };
        let sinks = d_sinks.map(|d_sinks| base::cast(stream, &d_sinks, q.dtype()));
        Ok(Each {
            q: Some(dq),
            k: Some(given(k, &dk)?),
            v: Some(given(v, &dv)?),
            bias: None,
            sinks: sinks.transpose()?,
        })
    }

    /// Returns the gradients of the scores before the cap, and the scaled queries. Adds to the gradients of the values
    /// and of the sinks.
    fn backward_scores(
        &self,
        stream: &Stream,
        block: &Block,
        lse: &Tensor,
        dy: &Tensor,
        dv: &Tensor,
        d_sinks: &mut Option<Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let Scored { q, z, slope } = self.scored(stream, block, true)?;
        let rows = [z.shape()[0], z.shape()[1], z.shape()[2], 1];
        let of_rows = reshaped(stream, lse, rows)?;
        let weights = base::exp(stream, &base::sub(stream, &z, &of_rows)?)?;
        drop(z);
        add_to(stream, dv, block, &turned_product(stream, &weights, dy)?)?;
        let v = self.v.slice(2, block.keys.clone())?.transpose(2, 3)?;
        let d_weights = base::product(stream, dy, &v)?;
        if let Some(sinks) = &self.sinks {
            let pairs = base::mul(stream, &weights, &d_weights)?;
            let sum = self
                .apart(&base::sum(stream, &pairs, &[3], true)?)?
                .squeeze(3)?;
            let of_sinks = base::exp(stream, &base::sub(stream, sinks, lse)?)?;
            let less = base::sum(stream, &base::mul(stream, &of_sinks, &sum)?, &[0, 2], false)?;
            *d_sinks = Some(match d_sinks.take() {
                Some(before) => base::sub(stream, &before, &less)?,
                None => base::mul_number(stream, &less, -1.0)?,
            });
        }
        let gradient = base::softmax_backward(stream, &d_weights, &weights, 3)?;
        match slope {
            Some(slope) => Ok((base::mul(stream, &gradient, &slope)?, q)),
            None => Ok((gradient, q)),
        }
    }

    fn scored(&self, stream: &Stream, block: &Block, with_slope: bool) -> Result<Scored> {
        let q = base::mul_number(stream, &self.joined(stream, &self.q, block)?, self.scale)?;
        let k = self.k.slice(2, block.keys.clone())?.transpose(2, 3)?;
        let z = base::capped(stream, &base::product(stream, &q, &k)?, self.cap)?;
        // Before scores are hidden: the slope at `-∞` is not a number.
        let slope = with_slope.then(|| base::cap_slope(stream, &z, self.cap));
        let slope = slope.transpose()?;
        if let Some(hidden) = &self.hidden {
            let (queries, keys) = (block.queries.clone(), block.keys.clone());
            let mask = hidden.ends.hidden(stream, queries, keys)?;
            base::masked_fill(stream, &self.apart(&z)?, &mask, f64::NEG_INFINITY)?;
        }
        Ok(Scored { q, z, slope })
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

/// Returns `aᵀ · b` of each head.
fn turned_product(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    base::product(stream, &a.transpose(2, 3)?, b)
}

/// Adds a part to the rows of a block's keys.
fn add_to(stream: &Stream, sum: &Tensor, block: &Block, part: &Tensor) -> Result<()> {
    let target = sum.slice(2, block.keys.clone())?;
    base::write(stream, &target, &base::add(stream, &target, part)?)
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
