//! Flash attention: `aclnnFlashAttentionScore` and the gradient, `aclnnFlashAttentionScoreGrad`.
//!
//! `softmax(scale · q·kᵀ)·v` for each head, without the scores ever standing in memory. Heads of queries may
//! share heads of keys and values (grouped queries). Dropout and position shifts are not offered.

use super::aclnn::aclnn;
use super::check;
use super::create;
use super::rearrange;
use super::types::FLOATS;
use super::{Checked, Refusal};
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The order of the dimensions: B for batch, S for tokens, N for heads, D for a head's width, H for N · D.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Axes {
    /// [batch, heads, tokens, width].
    Bnsd,
    /// [batch, tokens, heads, width].
    Bsnd,
    /// [batch, tokens, heads · width].
    Bsh,
    /// [tokens, batch, heads · width].
    Sbh,
}

/// Which keys a query does not see. The mask, of bool or u8, is true for those.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask<T> {
    /// It sees all.
    None,
    /// As the mask says: [batch or 1, heads or 1, queries, keys] (heads only with the batch) or
    /// [queries, keys].
    Full(T),
    /// The first query sees the first key, and each one more. The mask is [`causal_mask`]'s.
    FromFirst(T),
    /// The last query sees all keys, and each one before one less. The mask is [`causal_mask`]'s.
    ToLast(T),
}

impl<T> Mask<T> {
    fn tensor(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::Full(mask) | Self::FromFirst(mask) | Self::ToLast(mask) => Some(mask),
        }
    }

    /// CANN's number of it.
    fn mode(&self) -> i64 {
        match self {
            Self::None => 0,
            Self::Full(_) => 1,
            Self::FromFirst(_) => 2,
            Self::ToLast(_) => 3,
        }
    }

    fn map<U>(self, with: impl FnOnce(T) -> U) -> Mask<U> {
        match self {
            Self::None => Mask::None,
            Self::Full(mask) => Mask::Full(with(mask)),
            Self::FromFirst(mask) => Mask::FromFirst(with(mask)),
            Self::ToLast(mask) => Mask::ToLast(with(mask)),
        }
    }
}

/// How attention is computed, besides its tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The order of the dimensions.
    pub axes: Axes,
    /// Heads of the queries.
    pub heads: usize,
    /// What the scores are multiplied by.
    pub scale: f64,
}

/// What attention gives.
#[derive(Debug, Clone)]
pub struct Attended {
    /// Like the queries.
    pub output: Tensor,
    /// The greatest score of each query, f32 of [batch, heads, queries, 8], for the gradient.
    pub softmax_max: Tensor,
    /// The sum of powers of each query, as the greatest score.
    pub softmax_sum: Tensor,
}

/// The gradients of [`attention`].
#[derive(Debug, Clone)]
pub struct Gradients {
    /// Like the queries.
    pub dq: Tensor,
    /// Like the keys.
    pub dk: Tensor,
    /// Like the values.
    pub dv: Tensor,
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

    /// Batch, heads, tokens and width of a tensor; where heads and width are one, `width` parts them.
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

/// The side of the mask of [`causal_mask`].
const COMPRESSED: usize = 2048;

/// What [`attention`] makes of its operands: the shape of its statistics.
///
/// All of one type of f32, f16 and bf16, any strides; keys and values of one shape; 1 to 256 heads of 1 to 768
/// elements; as many heads of keys, or so many that those of queries can share them.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check(
    platform: &Platform,
    q: &Spec,
    k: &Spec,
    v: &Spec,
    mask: Mask<&Spec>,
    settings: Settings,
) -> Checked<Spec> {
    check::processor(platform, "FlashAttentionScore")?;
    for operand in [("q", q), ("k", k), ("v", v)] {
        check::dtype(operand, FLOATS)?;
        check::dtype(operand, &[q.dtype])?;
        check::not_empty(operand)?;
    }
    check::shape(("v", v), k.shape())?;
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
    check::at_most("the number of heads", heads, 256)?;
    check::at_most("the width of a head", width, 768)?;
    let [key_batch, groups, keys, key_width] = axes.sizes("k", k, width)?;
    if key_batch != batch || key_width != width || groups == 0 || !heads.is_multiple_of(groups) {
        let expected = format!("{batch} batches, a divisor of {heads} heads, and width {width}");
        return Err(check::wrong_shape(("k", k), expected));
    }
    if !settings.scale.is_finite() {
        return Err(Refusal::Value {
            what: "scale",
            found: settings.scale.to_string(),
            expected: "a finite number",
        });
    }
    check_mask(mask, [batch, heads, queries, keys])?;
    Ok(Spec::contiguous(DType::F32, [batch, heads, queries, 8])?)
}

/// The mask has the shape that its kind needs.
fn check_mask(mask: Mask<&Spec>, [batch, heads, queries, keys]: [usize; 4]) -> Checked<()> {
    let causal = matches!(mask, Mask::FromFirst(_) | Mask::ToLast(_));
    if let Some(mask) = mask.tensor() {
        check::dtype(("mask", mask), &[DType::Bool, DType::U8])?;
        let fits = match (causal, mask.shape()) {
            (true, shape) => shape == [COMPRESSED; 2],
            (false, [rows, columns]) => (*rows, *columns) == (queries, keys),
            (false, [of, own, rows, columns]) => {
                (*rows, *columns) == (queries, keys)
                    && (*of == batch && (*own == heads || *own == 1) || (*of, *own) == (1, 1))
            }
            _ => false,
        };
        if !fits {
            let expected = if causal {
                format!("that of causal_mask, {:?}", [COMPRESSED; 2])
            } else {
                format!("[{batch}, {heads} or 1, {queries}, {keys}] or its last two")
            };
            return Err(check::wrong_shape(("mask", mask), expected));
        }
    }
    Ok(())
}

/// Whether [`attention_backward`] takes its operands: as [`check`], `dy` and `output` like `q`, the statistics
/// as [`attention`] gave them.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_backward(
    platform: &Platform,
    [q, k, v]: [&Spec; 3],
    mask: Mask<&Spec>,
    settings: Settings,
    [dy, output, softmax_max, softmax_sum]: [&Spec; 4],
) -> Checked<()> {
    let statistics = check(platform, q, k, v, mask, settings)?;
    for (name, like) in [("dy", dy), ("output", output)] {
        check::dtype((name, like), &[q.dtype])?;
        check::shape((name, like), q.shape())?;
    }
    for (name, given) in [("softmax_max", softmax_max), ("softmax_sum", softmax_sum)] {
        check::dtype((name, given), &[DType::F32])?;
        check::shape((name, given), statistics.shape())?;
    }
    Ok(())
}

/// The mask that causal modes take: 2048 × 2048, true above the diagonal. One serves all calls.
///
/// # Errors
///
/// Memory is short, or a call failed.
pub fn causal_mask(stream: &Stream) -> Result<Tensor> {
    let all = create::full(stream, DType::Bool, [COMPRESSED; 2], true)?;
    rearrange::triu(stream, &all, 1)
}

/// CANN's numbers for a window without ends.
const NO_END: i64 = i32::MAX as i64;
/// Nothing is dropped.
const KEEP_ALL: f64 = 1.0;
/// CANN's default of how precisely it computes.
const PRECISE: i64 = 0;

/// `softmax(scale · q·kᵀ)·v`. Of a query that sees no key the result is CANN's matter.
///
/// # Errors
///
/// Refused by [`check`], or a call failed.
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
    let statistics = check(
        device.platform(),
        q.spec(),
        k.spec(),
        v.spec(),
        specs,
        settings,
    )?;
    let made = Attended {
        output: Tensor::like(stream, q.spec())?,
        softmax_max: Tensor::like(stream, &statistics)?,
        softmax_sum: Tensor::like(stream, &statistics)?,
    };
    let (most, sum, y) = (&made.softmax_max, &made.softmax_sum, &made.output);
    let (mode, absent, mask) = (mask.mode(), None::<&Tensor>, mask.tensor());
    let (layout, heads) = (
        settings.axes.text().as_ptr().cast_mut(),
        settings.heads as i64,
    );
    aclnn!(
        stream, attention.aclnnFlashAttentionScoreGetWorkspaceSize, aclnnFlashAttentionScore,
        tensors [q, k, v, absent, mask, most, sum, y], constants [], attributes [],
        call(
            q, k, v, absent, absent, absent, mask, std::ptr::null(), settings.scale, KEEP_ALL,
            NO_END, NO_END, heads, layout, PRECISE, mode, most, sum, absent, y,
        ),
        made.clone(),
    )
}

/// The gradients of [`attention`] from `dy`, with what it gave.
///
/// # Errors
///
/// Refused by [`check_backward`], or a call failed.
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
        [dy.spec(), output.spec(), most.spec(), sum.spec()],
    )?;
    let made = Gradients {
        dq: Tensor::like(stream, q.spec())?,
        dk: Tensor::like(stream, k.spec())?,
        dv: Tensor::like(stream, v.spec())?,
    };
    let (dq, dk, dv) = (&made.dq, &made.dk, &made.dv);
    let (mode, absent, mask) = (mask.mode(), None::<&Tensor>, mask.tensor());
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
            std::ptr::null(), settings.scale, KEEP_ALL, NO_END, NO_END, heads, layout, PRECISE,
            mode, dq, dk, dv, absent,
        ),
        made.clone(),
    )
}
