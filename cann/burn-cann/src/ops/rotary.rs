//! Rotary position embedding (`aclnnRotaryPositionEmbedding`, V2 if the toolkit has it) and its gradient
//! (`aclnnRotaryPositionEmbeddingGrad`).
//!
//! `y = x · cos + rotate(x) · sin`, computed in f32 and rounded once. The tables are as wide as the heads, not half as
//! wide.

use cann_sys::NewestRotary;
use smallvec::{SmallVec, smallvec};

use super::aclnn::aclnn;
use super::check;
use super::{Checked, Refusal};
use crate::error::Result;
use crate::layout::Dimensions;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The pairs of elements that are rotated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Style {
    /// Elements `i` and `i + width / 2`: `rotate(x1, x2) = (-x2, x1)` for the halves.
    Half,
    /// Neighbours, elements `2i` and `2i + 1`: `rotate(x0, x1, …) = (-x1, x0, …)`.
    Interleaved,
}

impl Style {
    fn mode(self) -> i64 {
        match self {
            Self::Half => 0,
            Self::Interleaved => 1,
        }
    }
}

/// The meaning of the dimensions of `x`. CANN infers it from the tables' shape; the limits depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Axes {
    /// Batch, heads, sequence, width.
    BatchHeadsSequence,
    /// Batch, sequence, heads, width.
    BatchSequenceHeads,
    /// Sequence, batch, heads, width.
    SequenceBatchHeads,
    /// Tokens, heads, width. Needs CANN 9.0.
    TokensHeads,
}

/// The gradients of [`rotary`].
#[derive(Debug, Clone)]
pub struct Gradients {
    /// The gradient of `x`, with its shape and dtype.
    pub dx: Tensor,
    /// The gradients of `cos` and `sin`, if they were requested.
    pub tables: Option<(Tensor, Tensor)>,
}

/// The sizes of the dimensions by their meaning.
struct Sizes {
    batch: usize,
    heads: usize,
    sequence: usize,
    width: usize,
}

impl Axes {
    fn rank(self) -> usize {
        if self == Self::TokensHeads { 3 } else { 4 }
    }

    fn sizes(self, shape: &[usize]) -> Sizes {
        let (batch, heads, sequence) = match self {
            Self::BatchHeadsSequence => (shape[0], shape[1], shape[2]),
            Self::BatchSequenceHeads => (shape[0], shape[2], shape[1]),
            Self::SequenceBatchHeads => (shape[1], shape[2], shape[0]),
            Self::TokensHeads => (1, shape[1], shape[0]),
        };
        let width = shape[self.rank() - 1];
        Sizes {
            batch,
            heads,
            sequence,
            width,
        }
    }

    /// Returns the shape of a table with this batch and these heads.
    fn table(self, batch: usize, heads: usize, sequence: usize, width: usize) -> Dimensions {
        match self {
            Self::BatchHeadsSequence => smallvec![batch, heads, sequence, width],
            Self::BatchSequenceHeads => smallvec![batch, sequence, heads, width],
            Self::SequenceBatchHeads => smallvec![sequence, batch, heads, width],
            Self::TokensHeads => smallvec![sequence, heads, width],
        }
    }
}

/// Checks `x`, which may have any strides, and the tables of [`rotary`], all of the same dtype. Returns the spec of
/// the result.
///
/// The width is even and less than 896. With [`Style::Half`], the tables have the sequence of `x` and, besides, either
/// no further dimension, its batch, or its batch and heads; batch and heads are less than 1000 each. With
/// [`Style::Interleaved`], the tables have the sequence only, and batch times heads is less than 1000.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(
    platform: &Platform,
    x: &Spec,
    cos: &Spec,
    sin: &Spec,
    style: Style,
    axes: Axes,
) -> Checked<Spec> {
    check::processor(platform, "RotaryPositionEmbedding")?;
    if axes == Axes::TokensHeads && !platform.version.at_least(9, 0) {
        return Err(Refusal::Version {
            what: "a rotary embedding of tokens without a batch",
            needed: "9.0",
            found: platform.version.to_string(),
        });
    }
    check::one_float(&[("x", x), ("cos", cos), ("sin", sin)])?;
    check::rank(("x", x), axes.rank(), axes.rank())?;
    check::shape(("sin", sin), cos.shape())?;
    let sizes = axes.sizes(x.shape());
    if sizes.width % 2 == 1 {
        return Err(check::wrong_shape(("x", x), "an even last dimension"));
    }
    check::at_most("the last dimension of x", sizes.width, 895)?;
    tables(x, cos, style, axes, &sizes)?;
    match style {
        Style::Half => {
            check::at_most("the batch", sizes.batch, 999)?;
            check::at_most("the number of heads", sizes.heads, 999)?;
        }
        Style::Interleaved => {
            check::at_most(
                "batch times heads",
                sizes.batch.saturating_mul(sizes.heads),
                999,
            )?;
        }
    }
    if style == Style::Half && axes == Axes::BatchHeadsSequence {
        many_heads(platform, x, &sizes)?;
    }
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Checks the operands of [`rotary_grad`], which are those of [`check`] and the gradient of its output. Returns the
/// specs of `dx` and of a table's gradient.
///
/// If `x` is given for the tables' gradients, batch times heads is at most 1024. All operands must be contiguous,
/// because CANN does not document that they may be strided.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_grad(
    platform: &Platform,
    dy: &Spec,
    cos: &Spec,
    sin: &Spec,
    x: Option<&Spec>,
    style: Style,
    axes: Axes,
) -> Checked<(Spec, Spec)> {
    let dx = check(platform, dy, cos, sin, style, axes)?;
    check::not_empty(("dy", dy))?;
    for operand in [("dy", dy), ("cos", cos), ("sin", sin)] {
        check::contiguous(operand)?;
    }
    if let Some(x) = x {
        check::dtype(("x", x), &[dy.dtype])?;
        check::shape(("x", x), dy.shape())?;
        check::contiguous(("x", x))?;
        let Sizes {
            batch,
            heads,
            sequence,
            width,
        } = axes.sizes(x.shape());
        check::at_most("batch times heads", batch.saturating_mul(heads), 1024)?;
        let by_batch = batch > 1 && *cos.shape() == axes.table(batch, 1, sequence, width)[..];
        if axes == Axes::BatchHeadsSequence && by_batch && batch >= sequence && is_nine(platform) {
            return Err(check::wrong_shape(
                ("x", x),
                "a batch less than the sequence for tables by batch",
            ));
        }
    }
    Ok((dx, Spec::contiguous(cos.dtype, cos.shape())?))
}

/// Computes `x · cos + rotate(x) · sin`.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn rotary(
    stream: &Stream,
    x: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    style: Style,
    axes: Axes,
) -> Result<Tensor> {
    let device = stream.device();
    let y = check(
        device.platform(),
        x.spec(),
        cos.spec(),
        sin.spec(),
        style,
        axes,
    )?;
    let output = Tensor::like(stream, &y)?;
    if x.spec().is_empty() {
        return Ok(output);
    }
    let (mode, y) = (style.mode(), &output);
    match device.cann().sys().rotary.newest()? {
        NewestRotary::V1(one, two) => aclnn!(
            stream, (one, two) as aclnnRotaryPositionEmbedding,
            tensors [x, cos, sin, y], constants [], attributes [mode],
            call(x, cos, sin, mode, y), output,
        ),
        NewestRotary::V2(one, two) => {
            // Other modes need the matrix of the rotation.
            let rotate = None::<&Tensor>;
            aclnn!(
                stream, (one, two) as aclnnRotaryPositionEmbeddingV2,
                tensors [x, cos, sin, rotate, y], constants [], attributes [mode],
                call(x, cos, sin, mode, rotate, y), output,
            )
        }
    }
}

/// Returns the gradients of [`rotary`] from `dy`. The gradients of the tables need `x`.
///
/// # Errors
///
/// Returns an error if [`check_grad`] refuses the operands or a call fails.
pub fn rotary_grad(
    stream: &Stream,
    dy: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    x: Option<&Tensor>,
    style: Style,
    axes: Axes,
) -> Result<Gradients> {
    let device = stream.device();
    let (platform, of_x) = (device.platform(), x.map(Tensor::spec));
    let (dx, table) = check_grad(
        platform,
        dy.spec(),
        cos.spec(),
        sin.spec(),
        of_x,
        style,
        axes,
    )?;
    let dx = &Tensor::like(stream, &dx)?;
    // CANN needs the places even if it does not write to them.
    let (dcos, dsin) = (
        &Tensor::like(stream, &table)?,
        &Tensor::like(stream, &table)?,
    );
    let output = Gradients {
        dx: dx.clone(),
        tables: x.map(|_| (dcos.clone(), dsin.clone())),
    };
    let mode = style.mode();
    aclnn!(
        stream, rotary.aclnnRotaryPositionEmbeddingGradGetWorkspaceSize, aclnnRotaryPositionEmbeddingGrad,
        tensors [dy, cos, sin, x, dx, dcos, dsin], constants [], attributes [mode],
        call(dy, cos, sin, x, mode, dx, dcos, dsin), output,
    )
}

fn tables(x: &Spec, cos: &Spec, style: Style, axes: Axes, sizes: &Sizes) -> Checked<()> {
    let &Sizes {
        batch,
        heads,
        sequence,
        width,
    } = sizes;
    let shared = axes.table(1, 1, sequence, width);
    let mut allowed: SmallVec<[Dimensions; 3]> = smallvec![shared];
    if style == Style::Half {
        allowed.push(axes.table(batch, 1, sequence, width));
        allowed.push(axes.table(batch, heads, sequence, width));
    }
    allowed.dedup();
    if allowed.iter().any(|shape| shape[..] == *cos.shape()) {
        return Ok(());
    }
    let allowed: Vec<_> = allowed.iter().map(|shape| format!("{shape:?}")).collect();
    let expected = format!("{} for x of {:?}", allowed.join(" or "), x.shape());
    Err(check::wrong_shape(("cos", cos), expected))
}

/// Checks a limit on the heads before the sequence, documented since CANN 9.0.
fn many_heads(platform: &Platform, x: &Spec, sizes: &Sizes) -> Checked<()> {
    if !is_nine(platform) {
        return Ok(());
    }
    let rows = sizes.batch.saturating_mul(sizes.heads);
    if (sizes.width / 2).is_multiple_of(32 / x.dtype.size()) {
        return check::at_most("batch times heads", rows, sizes.sequence.saturating_mul(8));
    }
    if sizes.width >= 80 {
        return Ok(());
    }
    let cores = platform.vector_cores.unwrap_or(u32::MAX) as usize;
    check::at_most(
        "batch times heads",
        rows,
        sizes.sequence.div_ceil(cores) / 2,
    )
}

fn is_nine(platform: &Platform) -> bool {
    // An unknown version may be 9.0.
    platform.version.numbers().is_none() || platform.version.at_least(9, 0)
}
