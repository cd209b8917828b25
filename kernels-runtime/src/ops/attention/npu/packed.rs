//! Packed documents: the positions of all sequences are one axis, in which the documents follow one another.

use super::super::{Attention, Each, Operands, Sizes};
use super::hidden::Hidden;
use super::{Plan, attended, gradients, lse, tensors};
use crate::npu::views::contiguous;
use crate::npu::{Refused, Result, Seen, Specified};
use crate::ops::fused::Backward;
use crate::semantics::{AttentionMask, AttentionWindow, HeadLayout, SequenceLengths};
use burn_cann::ops::attention::{self as cann, Ends};
use burn_cann::{DType, Layout, Platform, Spec, Stream, Tensor};

/// Returns whether the operator of documents computes a call.
pub(super) fn takes<T: Specified>(operands: &Operands<Seen<T>>) -> bool {
    let (key, sizes) = (operands.key(), operands.sizes());
    key.lengths == SequenceLengths::Packed
        && key.window != AttentionWindow::Chunked
        && key.mask != AttentionMask::Prefix
        && operands.sinks().is_none()
        && !operands.lengths().are_whole(sizes)
        && ends(operands).len() <= Ends::MOST
        && sizes.batch.saturating_mul(sizes.keys) <= Ends::MOST_TOKENS
}

/// Returns the ends of the documents that have positions.
fn ends<T>(operands: &Operands<T>) -> Vec<usize> {
    let lengths = operands.lengths();
    let mut ends = lengths.ends().to_vec();
    ends.retain(|end| *end > 0);
    ends.dedup();
    ends
}

/// Checks the operands of both directions.
pub(super) fn check<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
    plan: Plan,
) -> Result<(), Refused> {
    let sizes = operands.sizes();
    let Sizes {
        batch,
        heads,
        kv_heads,
        queries,
        width,
        value_width,
        ..
    } = sizes;
    let of = |heads: usize, width: usize| {
        Spec::contiguous(operands.q().spec().dtype, [batch * queries, heads, width])
    };
    let [q, k, v] = [
        of(heads, width)?,
        of(kv_heads, width)?,
        of(kv_heads, value_width)?,
    ];
    let ends = ends(operands);
    let ends = Ends {
        queries: &ends,
        keys: &ends,
    };
    let square = Spec::contiguous(DType::Bool, [2048, 2048])?;
    let (mask, scale) = (
        plan.mask.with(&square, &square),
        operands.settings().scale_of(width),
    );
    let found = cann::check_varlen(platform, [&q, &k, &v], mask, ends, scale)?;
    let (y, statistics) = (&found.output, &found.statistics);
    let given = [y, y, statistics, statistics];
    cann::check_varlen_backward(platform, [&q, &k, &v], mask, ends, scale, given)?;
    Ok(())
}

/// A call, forward or backward.
pub(super) struct Packed {
    /// Queries, keys and values in one axis of positions.
    tensors: [Tensor; 3],
    layout: HeadLayout,
    sizes: Sizes,
    scale: f64,
    ends: Vec<usize>,
    hidden: Hidden,
    mask: Option<Tensor>,
}

impl Packed {
    pub(super) fn new(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        plan: Plan,
    ) -> Result<Self> {
        let (layout, sizes) = (operands.key().layout, operands.sizes());
        let [q, k, v] = tensors(operands).map(|tensor| joined(stream, tensor, layout));
        Ok(Self {
            tensors: [q?, k?, v?],
            layout,
            sizes,
            scale: operands.settings().scale_of(sizes.width),
            ends: ends(operands),
            hidden: plan.mask,
            mask: plan.mask.tensor(stream, None)?,
        })
    }

    pub(super) fn forward(&self, stream: &Stream) -> Result<(Tensor, Tensor)> {
        let (mask, ends) = (self.mask(), self.ends());
        let found = cann::attention_varlen(stream, self.tensors(), mask, ends, self.scale)?;
        let Sizes {
            batch,
            heads,
            queries,
            ..
        } = self.sizes;
        let lse = lse(stream, &found)?.reshape([batch, heads, queries])?;
        Ok((self.parted(&found.output)?, lse))
    }

    pub(super) fn backward(
        &self,
        stream: &Stream,
        backward: &Backward<Attention, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let [y, lse] = backward.saved();
        let [dy, y] = [backward.dy(), y].map(|tensor| joined(stream, tensor, self.layout));
        let positions = self.sizes.batch * self.sizes.queries;
        let lse = contiguous(stream, lse)?.reshape([positions, self.sizes.heads])?;
        let attended = attended(stream, y?, &lse)?;
        let found = cann::attention_varlen_backward(
            stream,
            &dy?,
            self.tensors(),
            self.mask(),
            self.ends(),
            self.scale,
            &attended,
        )?;
        let found = cann::Gradients {
            dq: self.parted(&found.dq)?,
            dk: self.parted(&found.dk)?,
            dv: self.parted(&found.dv)?,
        };
        Ok(gradients(found, None))
    }

    fn tensors(&self) -> [&Tensor; 3] {
        self.tensors.each_ref()
    }

    fn ends(&self) -> Ends<'_> {
        Ends {
            queries: &self.ends,
            keys: &self.ends,
        }
    }

    fn mask(&self) -> cann::Mask<&Tensor> {
        match &self.mask {
            None => cann::Mask::None,
            Some(mask) => self.hidden.with(mask, mask),
        }
    }

    /// Returns a contiguous result as a view in the layout of the call.
    fn parted(&self, tensor: &Tensor) -> Result<Tensor> {
        let (batch, width) = (self.sizes.batch, tensor.shape()[2]);
        let parts = [batch, tensor.shape()[0] / batch, tensor.shape()[1], width];
        let parted = tensor.reshape(parts)?;
        Ok(match self.layout {
            HeadLayout::Bsnd => parted,
            HeadLayout::Bnsd => parted.permute(&[0, 2, 1, 3])?,
        })
    }
}

/// Returns a tensor as `[batch · positions, heads, width]`: a view if one stride leads from position to position across
/// sequences, otherwise one of a copy.
fn joined(stream: &Stream, tensor: &Tensor, layout: HeadLayout) -> Result<Tensor> {
    let in_order = match layout {
        HeadLayout::Bsnd => tensor.clone(),
        HeadLayout::Bnsd => tensor.permute(&[0, 2, 1, 3])?,
    };
    let lie = in_order.layout();
    let (shape, strides) = (lie.shape(), lie.strides());
    let together = [shape[0] * shape[1], shape[2], shape[3]];
    if shape[0] == 1 || strides[0] == shape[1] * strides[1] {
        let view = Layout::strided(together, [strides[1], strides[2], strides[3]], lie.offset())?;
        return Ok(in_order.with_layout(view)?);
    }
    Ok(contiguous(stream, &in_order)?.reshape(together)?)
}
