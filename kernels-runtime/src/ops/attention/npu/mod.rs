//! Attention over CANN's operators.
//!
//! `F` is `aclnnFlashAttentionScore` forward, and `aclnnFlashAttentionScoreGrad` backward.
//!
//! | key | computation | why |
//! |---|---|---|
//! | no mask | `F` | computes exactly this |
//! | causal, the last query at the last key | `F` with the mode `rightDownCausal` | its mask of 2048 × 2048 serves all sizes |
//! | causal, the first query at the first key | `F` with the mode `leftUpCausal` | as above |
//! | causal, another offset | `F` with a mask of queries × keys | no mode computes it |
//! | a prefix | `F` with a mask of queries × keys | the modes with a prefix are not wired |
//! | a sliding window | `F` with the mode `band` | its mask of 2048 × 2048 serves all sizes |
//! | a query that sees no key | refused | CANN does not define its result |
//! | a window of chunks, a bias, a cap, sinks, lengths | refused | `F` of this interface has no cap, no sinks and no gradient of a bias; chunks and lengths are not wired |
//! | values wider than keys | refused | CANN's limit |
//! | an axis without elements, f64, different types, more than 256 heads, heads wider than 768 | refused | CANN's limits |
//!
//! `F` returns the maximum and the sum of each query's exponentials, both eight times. `lse` is `max + ln(sum)`. The
//! backward pass takes `lse` for the maximum and 1 for the sum, which gives the same weights.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Backward, Gradients, Operands, Settings, Sizes};
use crate::npu::refused::one_float;
use crate::npu::views::contiguous;
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::reason::Reason;
use crate::semantics::{
    AttentionBias, AttentionKey, AttentionMask, AttentionWindow, HeadLayout, ScoreCap,
    SequenceLengths, Sinks,
};
use burn_cann::ops::attention::{self as cann, Attended, Axes, check, check_backward};
use burn_cann::ops::{create, rearrange, shape, unary};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// The number of times that CANN repeats each statistic.
const REPEATED: usize = 8;

/// The operators that compute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The mask that is passed to the operator.
    pub mask: Hidden,
    /// The order of the axes.
    pub axes: Axes,
}

/// The mask that is passed to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// No key is hidden.
    Nothing,
    /// The last query sees all keys, and each earlier one sees one key less.
    ToLast,
    /// The first query sees the first key, and each later one sees one key more.
    FromFirst,
    /// The first query sees this number of keys before its own.
    Full(i64),
    /// As [`Full`](Self::Full), and each query sees this number of first keys.
    Prefix {
        /// The number of keys before the first query's own.
        first: i64,
        /// The number of first keys.
        prefix: usize,
    },
    /// A query sees the keys from `before` its diagonal to `behind` it. The diagonal ends at the last query and the
    /// last key.
    Band {
        /// The number of keys before the diagonal.
        before: i64,
        /// The number of keys behind the diagonal.
        behind: i64,
    },
}

/// Returns whether dispatch takes the key.
pub(crate) fn is_dispatched(key: AttentionKey) -> bool {
    key.window != AttentionWindow::Chunked
        && key.bias == AttentionBias::None
        && key.cap == ScoreCap::None
        && key.sink == Sinks::None
        && key.lengths == SequenceLengths::None
}

/// Returns the operators that compute a call of these operands.
///
/// # Errors
/// Returns the reason if no operators compute it.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Plan, Refused> {
    let (key, sizes) = (operands.key(), operands.sizes());
    if !is_dispatched(key) {
        let why = format!("CANN's operator is not used for {key}");
        return Err(Refused::new(Reason::Semantics, why));
    }
    let [q, k, v] = [operands.q(), operands.k(), operands.v()].map(|tensor| tensor.spec());
    one_float(("q", q), [("k", k), ("v", v)])?;
    let axes = match key.layout {
        HeadLayout::Bnsd => Axes::Bnsd,
        HeadLayout::Bsnd => Axes::Bsnd,
    };
    let plan = Plan {
        mask: hidden(operands)?,
        axes,
    };
    let settings = plan.settings(operands.settings(), sizes);
    let square = Spec::contiguous(DType::Bool, [2048, 2048])?;
    let full = Spec::contiguous(DType::Bool, [sizes.queries, sizes.keys])?;
    let mask = plan.mask.with(&square, &full);
    let found = check(platform, q, k, v, mask, settings)?;
    let (y, statistics) = (&found.output, &found.statistics);
    let given = [y, y, statistics, statistics];
    check_backward(platform, [q, k, v], mask, settings, given)?;
    Ok(plan)
}

fn hidden<T: Specified>(operands: &Operands<Seen<T>>) -> Result<Hidden, Refused> {
    let (key, sizes, settings) = (operands.key(), operands.sizes(), operands.settings());
    // `is_dispatched` leaves no lengths, so all sequences are alike.
    let visible = operands.visible();
    // Neither end of the visible keys decreases, so no query between these two sees nothing either.
    let ends = [0, sizes.queries.saturating_sub(1)];
    if ends
        .into_iter()
        .any(|query| visible.of(0, query).is_empty())
    {
        let why = format!(
            "some of {} queries see none of {} keys",
            sizes.queries, sizes.keys
        );
        return Err(Refused::new(Reason::Shape, why));
    }
    let first = settings.first(sizes);
    let ahead = first - (sizes.keys as i64 - sizes.queries as i64);
    if let Some(window) = settings.window {
        // A longer window hides nothing more.
        let reach = window.clamp(1, sizes.keys + sizes.queries) as i64 - 1;
        let later = match key.mask {
            AttentionMask::Causal => 0,
            AttentionMask::None | AttentionMask::Prefix => reach,
        };
        return Ok(Hidden::Band {
            before: reach - ahead,
            behind: later + ahead,
        });
    }
    Ok(match key.mask {
        AttentionMask::None => Hidden::Nothing,
        AttentionMask::Prefix => Hidden::Prefix {
            first,
            prefix: settings.prefix.unwrap_or(0).min(sizes.keys),
        },
        AttentionMask::Causal if ahead == 0 => Hidden::ToLast,
        AttentionMask::Causal if first == 0 => Hidden::FromFirst,
        AttentionMask::Causal => Hidden::Full(first),
    })
}

impl Hidden {
    /// Returns CANN's mask: the first tensor for the compressed modes, and the second one for any other.
    fn with<T>(self, square: T, full: T) -> cann::Mask<T> {
        match self {
            Self::Nothing => cann::Mask::None,
            Self::ToLast => cann::Mask::ToLast(square),
            Self::FromFirst => cann::Mask::FromFirst(square),
            Self::Full(_) | Self::Prefix { .. } => cann::Mask::Full(full),
            Self::Band { before, behind } => cann::Mask::Band {
                mask: square,
                before,
                behind,
            },
        }
    }

    /// Makes the tensor of the mask.
    fn tensor(self, stream: &Stream, sizes: Sizes) -> Result<Option<Tensor>> {
        Ok(match self {
            Self::Nothing => None,
            Self::ToLast | Self::FromFirst | Self::Band { .. } => Some(cann::causal_mask(stream)?),
            Self::Full(first) => Some(later(stream, [sizes.queries, sizes.keys], first)?),
            Self::Prefix { first, prefix } => {
                let rest = [sizes.queries, sizes.keys - prefix];
                let seen = create::full(stream, DType::Bool, [sizes.queries, prefix], false)?;
                let first = first.saturating_sub(prefix as i64);
                Some(shape::cat(
                    stream,
                    &[&seen, &later(stream, rest, first)?],
                    1,
                )?)
            }
        })
    }
}

/// Makes a mask of queries × keys, true where a key is later than a query. The first query is at this key.
fn later(stream: &Stream, shape: [usize; 2], first: i64) -> Result<Tensor> {
    let all = create::full(stream, DType::Bool, shape, true)?;
    Ok(rearrange::triu(stream, &all, first.saturating_add(1))?)
}

impl Plan {
    fn settings(&self, settings: Settings, sizes: Sizes) -> cann::Settings {
        cann::Settings {
            axes: self.axes,
            heads: sizes.heads,
            scale: settings.scale_of(sizes.width),
        }
    }
}

/// A call, forward or backward.
struct Call<'a> {
    operands: &'a Operands<Seen<Tensor>>,
    settings: cann::Settings,
    mask: Option<Tensor>,
    hidden: Hidden,
}

/// Returns the result and `lse`, `[batch, heads, queries]` in f32.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or CANN fails.
pub fn forward(stream: &Stream, operands: &Operands<Seen<Tensor>>) -> Result<(Tensor, Tensor)> {
    let call = Call::new(stream, operands)?;
    let [q, k, v] = call.tensors();
    let found = cann::attention(stream, q, k, v, call.mask(), call.settings)?;
    let [most, sum] = [&found.softmax_max, &found.softmax_sum].map(|all| all.select(3, 0));
    let lse = base::add(stream, &most?, &unary::log(stream, &sum?)?)?;
    Ok((found.output, lse))
}

/// Returns the gradients of queries, keys and values.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn backward(stream: &Stream, backward: &Backward<Seen<Tensor>>) -> Result<Gradients<Tensor>> {
    let call = Call::new(stream, backward.operands())?;
    let lse = backward.lse();
    let shape: Vec<usize> = lse.shape().iter().copied().chain([REPEATED]).collect();
    let attended = Attended {
        output: backward.y().0.clone(),
        softmax_max: contiguous(stream, &lse.unsqueeze(3)?.expand(&shape)?)?,
        softmax_sum: base::filled(stream, DType::F32, &shape, 1.0)?,
    };
    let gradients = cann::attention_backward(
        stream,
        backward.dy(),
        call.tensors(),
        call.mask(),
        call.settings,
        &attended,
    )?;
    Ok(Gradients {
        q: gradients.dq,
        k: gradients.dk,
        v: gradients.dv,
        bias: None,
        sinks: None,
    })
}

impl<'a> Call<'a> {
    fn new(stream: &Stream, operands: &'a Operands<Seen<Tensor>>) -> Result<Self> {
        let plan = decide(stream.device().platform(), operands)?;
        let sizes = operands.sizes();
        Ok(Self {
            operands,
            settings: plan.settings(operands.settings(), sizes),
            mask: plan.mask.tensor(stream, sizes)?,
            hidden: plan.mask,
        })
    }

    fn tensors(&self) -> [&'a Tensor; 3] {
        let operands = self.operands;
        [operands.q(), operands.k(), operands.v()].map(|tensor| &tensor.0)
    }

    fn mask(&self) -> cann::Mask<&Tensor> {
        match &self.mask {
            None => cann::Mask::None,
            Some(mask) => self.hidden.with(mask, mask),
        }
    }
}
