//! Flash attention (`aclnnFlashAttentionScore`) and its gradient (`aclnnFlashAttentionScoreGrad`).
//!
//! Computes `softmax(scale · q·kᵀ)·v` for each head without storing the scores. Heads of queries may share heads of
//! keys and values (grouped-query attention). [`attention_varlen`] takes sequences of several lengths, and
//! [`attention_with_sinks`] one more score for each head. [`infer`] computes few queries over the keys of a cache,
//! without a gradient. Dropout and position shifts are not offered.

mod infer;
mod mask;
mod sinks;
mod varlen;

pub use infer::{Held, check_infer, has_infer, infer};
pub use mask::{Mask, causal_mask};
pub use sinks::{
    attention_with_sinks, attention_with_sinks_backward, check_with_sinks,
    check_with_sinks_backward,
};
pub use varlen::{
    Ends, attention_varlen, attention_varlen_backward, check_varlen, check_varlen_backward,
};

use super::aclnn::aclnn;
use super::check;
use super::types::FLOATS;
use super::{Checked, Refusal};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dimensions;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The order of the dimensions: B for batch, S for tokens, N for heads, D for the width of a head, H for N · D.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Axes {
    /// `[batch, heads, tokens, width]`.
    Bnsd,
    /// `[batch, tokens, heads, width]`.
    Bsnd,
    /// `[batch, tokens, heads · width]`.
    Bsh,
    /// `[tokens, batch, heads · width]`.
    Sbh,
}

/// The settings of attention, besides its tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The order of the dimensions.
    pub axes: Axes,
    /// The number of heads of the queries.
    pub heads: usize,
    /// The factor of the scores.
    pub scale: f64,
}

/// The result of [`attention`].
#[derive(Debug, Clone)]
pub struct Attended {
    /// The result, with the dtype of the queries, their shape, and the width of the values.
    pub output: Tensor,
    /// The greatest score of each query, f32 `[batch, heads, queries, 8]`, for the gradient.
    pub softmax_max: Tensor,
    /// The sum of the exponentials of each query, with the shape and dtype of `softmax_max`, for the gradient.
    pub softmax_sum: Tensor,
}

impl Attended {
    fn new(stream: &Stream, results: &Results) -> Result<Self> {
        Ok(Self {
            output: Tensor::like(stream, &results.output)?,
            softmax_max: Tensor::like(stream, &results.statistics)?,
            softmax_sum: Tensor::like(stream, &results.statistics)?,
        })
    }

    /// Returns the specs of `dy` and of what the forward pass returned.
    fn specs<'a>(&'a self, dy: &'a Tensor) -> [&'a Spec; 4] {
        [dy, &self.output, &self.softmax_max, &self.softmax_sum].map(Tensor::spec)
    }
}

/// The specs of what [`attention`] returns.
#[derive(Debug, Clone)]
pub struct Results {
    /// The spec of [`Attended::output`].
    pub output: Spec,
    /// The spec of [`Attended::softmax_max`] and [`Attended::softmax_sum`].
    pub statistics: Spec,
}

/// The gradients of [`attention`].
#[derive(Debug, Clone)]
pub struct Gradients {
    /// The gradient of the queries, with their shape and dtype.
    pub dq: Tensor,
    /// The gradient of the keys, with their shape and dtype.
    pub dk: Tensor,
    /// The gradient of the values, with their shape and dtype.
    pub dv: Tensor,
}

impl Gradients {
    fn new(stream: &Stream, [q, k, v]: [&Tensor; 3]) -> Result<Self> {
        Ok(Self {
            dq: Tensor::like(stream, q.spec())?,
            dk: Tensor::like(stream, k.spec())?,
            dv: Tensor::like(stream, v.spec())?,
        })
    }
}

impl Axes {
    fn text(self) -> &'static std::ffi::CStr {
        match self {
            Self::Bnsd => c"BNSD",
            Self::Bsnd => c"BSND",
            Self::Bsh => c"BSH",
            Self::Sbh => c"SBH",
        }
    }

    /// Returns the shape of a tensor of this batch, heads, tokens and width.
    fn shape(self, [batch, heads, tokens, width]: [usize; 4]) -> Dimensions {
        match self {
            Self::Bnsd => Dimensions::from_slice(&[batch, heads, tokens, width]),
            Self::Bsnd => Dimensions::from_slice(&[batch, tokens, heads, width]),
            Self::Bsh => Dimensions::from_slice(&[batch, tokens, heads * width]),
            Self::Sbh => Dimensions::from_slice(&[tokens, batch, heads * width]),
        }
    }

    /// Returns batch, heads, tokens and width of a tensor. In orders that join heads and width, `width` separates
    /// them.
    fn sizes(self, name: &'static str, x: &Spec, width: usize) -> Checked<[usize; 4]> {
        let rank = if matches!(self, Self::Bnsd | Self::Bsnd) {
            4
        } else {
            3
        };
        check::rank((name, x), rank, rank)?;
        let shape = x.shape();
        let parted = |batch: usize, tokens: usize| {
            if width > 0 && shape[2].is_multiple_of(width) {
                return Ok([batch, shape[2] / width, tokens, width]);
            }
            let expected = format!("heads of width {width} in the last dimension");
            Err(check::wrong_shape((name, x), expected))
        };
        match self {
            Self::Bnsd => Ok([shape[0], shape[1], shape[2], shape[3]]),
            Self::Bsnd => Ok([shape[0], shape[2], shape[1], shape[3]]),
            Self::Bsh => parted(shape[0], shape[1]),
            Self::Sbh => parted(shape[1], shape[0]),
        }
    }
}

/// Checks the operands of [`attention`] and returns the specs of what it returns.
///
/// All tensors have the same dtype, f32, f16 or bf16, and may have any strides. There are 1 to 256 heads of 1 to 768
/// elements. The number of heads of the keys divides that of the queries. Keys and values have the same shape, but for
/// the heads of values, which may be narrower.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(
    platform: &Platform,
    q: &Spec,
    k: &Spec,
    v: &Spec,
    mask: Mask<&Spec>,
    settings: Settings,
) -> Checked<Results> {
    check::processor(platform, "FlashAttentionScore")?;
    for operand in [("q", q), ("k", k), ("v", v)] {
        check::dtype(operand, FLOATS)?;
        check::dtype(operand, &[q.dtype])?;
        check::not_empty(operand)?;
    }
    let Settings { axes, heads, .. } = settings;
    let hidden = q.shape().last().copied().unwrap_or_default();
    let width = match axes {
        Axes::Bnsd | Axes::Bsnd => hidden,
        Axes::Bsh | Axes::Sbh => hidden / heads.max(1),
    };
    let [batch, found, queries, width] = axes.sizes("q", q, width)?;
    if found != heads {
        return Err(Refusal::Value {
            what: "heads",
            found: heads.to_string(),
            expected: "the number of heads of q",
        });
    }
    check_heads(heads, width)?;
    let [key_batch, groups, keys, key_width] = axes.sizes("k", k, width)?;
    if key_batch != batch || key_width != width || groups == 0 || !heads.is_multiple_of(groups) {
        let expected = format!("{batch} batches, a divisor of {heads} heads, and width {width}");
        return Err(check::wrong_shape(("k", k), expected));
    }
    let last = v.shape().last().copied().unwrap_or_default();
    let value_width = match axes {
        Axes::Bnsd | Axes::Bsnd => last,
        Axes::Bsh | Axes::Sbh => last / groups,
    };
    if !(1..=width).contains(&value_width) {
        return Err(check::wrong_shape(
            ("v", v),
            format!("heads of at most {width} elements"),
        ));
    }
    check::shape(("v", v), &axes.shape([batch, groups, keys, value_width]))?;
    check_scale(settings.scale)?;
    mask.check([batch, heads, queries, keys])?;
    let output = axes.shape([batch, heads, queries, value_width]);
    Ok(Results {
        output: Spec::contiguous(q.dtype, output)?,
        statistics: Spec::contiguous(DType::F32, [batch, heads, queries, 8])?,
    })
}

/// Checks the limits of heads that all versions of the operator have.
fn check_heads(heads: usize, width: usize) -> Checked<()> {
    check::at_most("the number of heads", heads, 256)?;
    check::at_most("the width of a head", width, 768)
}

fn check_scale(scale: f64) -> Checked<()> {
    if scale.is_finite() {
        return Ok(());
    }
    Err(Refusal::Value {
        what: "scale",
        found: scale.to_string(),
        expected: "a finite number",
    })
}

/// Checks `dy` and what the forward pass returned.
fn check_attended(
    results: &Results,
    [dy, output, softmax_max, softmax_sum]: [&Spec; 4],
) -> Checked<()> {
    let Results {
        output: y,
        statistics,
    } = results;
    for (name, given, like) in [
        ("dy", dy, y),
        ("output", output, y),
        ("softmax_max", softmax_max, statistics),
        ("softmax_sum", softmax_sum, statistics),
    ] {
        check::dtype((name, given), &[like.dtype])?;
        check::shape((name, given), like.shape())?;
    }
    Ok(())
}

/// Checks the operands of [`attention_backward`]: those of [`check`], `dy` like `output`, and the results that
/// [`attention`] returned.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_backward(
    platform: &Platform,
    [q, k, v]: [&Spec; 3],
    mask: Mask<&Spec>,
    settings: Settings,
    given: [&Spec; 4],
) -> Checked<()> {
    check_attended(&check(platform, q, k, v, mask, settings)?, given)
}

/// CANN's number for no dropout.
const KEEP_ALL: f64 = 1.0;
/// CANN's number for its default precision.
const PRECISE: i64 = 0;

/// Computes `softmax(scale · q·kᵀ)·v`. CANN does not define the result of a query that sees no key.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn attention(
    stream: &Stream,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Mask<&Tensor>,
    settings: Settings,
) -> Result<Attended> {
    let device = stream.device();
    let specs = mask.map(Tensor::spec);
    let results = check(
        device.platform(),
        q.spec(),
        k.spec(),
        v.spec(),
        specs,
        settings,
    )?;
    let made = Attended::new(stream, &results)?;
    let (most, sum, y) = (&made.softmax_max, &made.softmax_sum, &made.output);
    let (mode, [before, behind]) = (mask.mode(), mask.band());
    let (absent, mask) = (None::<&Tensor>, mask.tensor());
    let (layout, heads) = (
        settings.axes.text().as_ptr().cast_mut(),
        settings.heads as i64,
    );
    aclnn!(
        stream, attention.aclnnFlashAttentionScoreGetWorkspaceSize, aclnnFlashAttentionScore,
        tensors [q, k, v, absent, mask, most, sum, y], constants [], attributes [],
        call(
            q, k, v, absent, absent, absent, mask, std::ptr::null(), settings.scale, KEEP_ALL,
            before, behind, heads, layout, PRECISE, mode, most, sum, absent, y,
        ),
        made.clone(),
    )
}

/// Returns the gradients of [`attention`] from `dy`, the gradient of its output, and from what it returned.
///
/// # Errors
///
/// Returns an error if [`check_backward`] refuses the operands or a call fails.
pub fn attention_backward(
    stream: &Stream,
    dy: &Tensor,
    [q, k, v]: [&Tensor; 3],
    mask: Mask<&Tensor>,
    settings: Settings,
    attended: &Attended,
) -> Result<Gradients> {
    let Attended {
        output,
        softmax_max: most,
        softmax_sum: sum,
    } = attended;
    let device = stream.device();
    check_backward(
        device.platform(),
        [q.spec(), k.spec(), v.spec()],
        mask.map(Tensor::spec),
        settings,
        attended.specs(dy),
    )?;
    let made = Gradients::new(stream, [q, k, v])?;
    let (dq, dk, dv) = (&made.dq, &made.dk, &made.dv);
    let (mode, [before, behind]) = (mask.mode(), mask.band());
    let (absent, mask) = (None::<&Tensor>, mask.tensor());
    let (layout, heads) = (
        settings.axes.text().as_ptr().cast_mut(),
        settings.heads as i64,
    );
    aclnn!(
        stream, attention.aclnnFlashAttentionScoreGradGetWorkspaceSize,
        aclnnFlashAttentionScoreGrad,
        tensors [q, k, v, dy, absent, mask, most, sum, output, dq, dk, dv],
        constants [], attributes [],
        call(
            q, k, v, dy, absent, absent, absent, mask, most, sum, absent, output,
            std::ptr::null(), settings.scale, KEEP_ALL, before, behind, heads, layout, PRECISE,
            mode, dq, dk, dv, absent,
        ),
        made.clone(),
    )
}
