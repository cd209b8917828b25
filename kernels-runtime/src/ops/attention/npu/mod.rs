//! Attention over CANN's operators.
//!
//! `F` is `aclnnFlashAttentionScore` forward, and `aclnnFlashAttentionScoreGrad` backward. `V` is
//! `aclnnFlashAttentionVarLenScore` forward, and `aclnnFlashAttentionUnpaddingScoreGrad` backward, which take sequences
//! of several lengths in one axis.
//!
//! | key | computation | why |
//! |---|---|---|
//! | no mask | `F` | computes exactly this |
//! | causal, the last query at the last key | `F` with the mode `rightDownCausal` | its mask of 2048 × 2048 serves all sizes |
//! | causal, the first query at the first key | `F` with the mode `leftUpCausal` | as above |
//! | a sliding window | `F` with the mode `band` | its mask of 2048 × 2048 serves all sizes |
//! | packed documents, up to 2048 of 10⁶ positions in all | `V` with the same modes | computes each document by itself |
//! | causal with another offset, a prefix, a window of chunks | `F` with a mask of queries × keys | no mode computes it |
//! | padding, more documents, documents with a prefix or chunks or sinks | `F` with a mask of sequences × queries × keys | as above |
//! | lengths of the whole axis | as without lengths | they hide nothing |
//! | a query that sees no key | `F` with a mask in which it sees one; its result is then set to zero | CANN does not define its result |
//! | sinks, in f16 and bf16 | version 3 of `F`, of CANN 8.5 | the first version has none |
//! | sinks in f32 | refused | CANN's limit |
//! | a cap, a bias or both, with or without sinks | products, the cap, the bias, the softmax (`composed`) | CANN's attention has no cap, and no gradient of a bias |
//! | values wider than keys, without a cap or bias | refused | CANN's limit |
//! | an axis without elements, f64, different types, or, without a cap or bias, more than 256 heads, heads wider than 768 | refused | CANN's limits |
//!
//! A call of inference has no gradient. If it is in f16 or bf16 and has fewer queries than keys, as a step of decoding
//! over a cache has, `aclnnFusedInferAttentionScore` computes it where it can: `I`, version 3, or version 4 with sinks.
//!
//! | call of inference | computation | why |
//! |---|---|---|
//! | one query, or more that see the same keys; the keys of all sequences begin at the first key | `I` with the number of keys of each sequence | it reads no other keys |
//! | one query; the keys of all sequences end at one key: padding on the left, a window, chunks, the cache of a window | `I` also with the number of keys behind them | as above |
//! | more queries, causal from the first key or to the last one, or a sliding window | `I` with the modes of `F` | its mask of 2048 × 2048 serves all sizes |
//! | sinks, in bf16, with heads of 64 or 128 elements | version 4 of `I` | it takes no keys behind those of the sequences, so that a window is copied |
//! | any other mask of more queries, or sequences whose keys neither begin nor end at one key | as in training | no mode computes it |
//! | a query that sees no key | as in training | CANN does not define its result |
//! | heads wider than 512, or whose width is not a multiple of 16, or values of another width | as in training | CANN's limits |
//! | Atlas A3 before CANN 9.1, or a library without the function | as in training | CANN's documentation excludes it |
//!
//! `I` takes contiguous tensors. A cache with room for more keys than there are hands out views that are not. `I` gets the
//! whole memory of the cache and the numbers of keys, so keys and values are not copied (`held`). The cache may have its
//! axes in either order, whatever the layout of the call is. Queries are copied if they are not contiguous. Keys and
//! values of other strides are left to `F`, which takes any, but those in a window are copied.
//!
//! A mask of queries × keys is made on the device. The host sends two numbers for each query, the ends of the keys that
//! it sees, and waits for nothing.
//!
//! The operators return the maximum and the sum of each query's exponentials, both eight times. `lse` is
//! `max + ln(sum)`, with sinks included. The backward pass takes `lse` for the maximum and 1 for the sum, which gives the
//! same weights. Where a query sees no key, it takes the largest number for the maximum, so that all its weights are
//! zero. `V` orders the statistics by document and then by head, and so does `lse`.
//!
//! `V` takes `[batch · positions, heads, width]`. Tensors are copied only if batch and positions are not apart by one
//! stride, as in a contiguous tensor of the layout `bnsd`.

mod composed;
mod dense;
mod held;
mod hidden;
mod infer;
mod kernel;
mod packed;
mod ranges;

pub use hidden::Hidden;
pub(crate) use kernel::{COMPOSED, IMPLEMENTATION};

use super::{Attention, Each, Operands};
use crate::mode::Mode;
use crate::npu::refused::one_float;
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use crate::semantics::{AttentionBias, AttentionKey, HeadLayout, ScoreCap, SequenceLengths, Sinks};
use burn_cann::ops::attention::{self as cann, Attended, Axes};
use burn_cann::ops::unary;
use burn_cann::{DType, Device, Platform, Stream, Tensor};
use composed::Composed;
use dense::Dense;
use infer::Infer;
use packed::Packed;

/// The number of times that CANN repeats each statistic.
const REPEATED: usize = 8;

/// The operators that compute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The operator.
    pub operator: Operator,
    /// The mask that is passed to the operator.
    pub mask: Hidden,
    /// The order of the axes.
    pub axes: Axes,
}

/// The operators of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `aclnnFlashAttentionScore`.
    Dense,
    /// `aclnnFlashAttentionScoreV3`, with sinks.
    WithSinks,
    /// `aclnnFlashAttentionVarLenScore`, of documents.
    Varlen,
    /// Products and the softmax, of scores with a cap or a bias.
    Composed,
    /// `aclnnFusedInferAttentionScoreV3`, of inference calls with fewer queries than keys.
    Infer,
    /// `aclnnFusedInferAttentionScoreV4`, the same with sinks.
    InferWithSinks,
}

/// Returns the operators that compute training, and inference with as many queries as keys. `is_half` says whether the
/// tensors are of a half type.
pub(crate) fn operators(key: AttentionKey, is_half: bool, mode: Mode) -> Vec<&'static str> {
    if is_composed(key) {
        return composed::operators(key, is_half, mode == Mode::Training);
    }
    vec![match (key.sink, key.lengths) {
        (Sinks::Learned, _) => "aclnnFlashAttentionScoreV3",
        (Sinks::None, SequenceLengths::Packed) => "aclnnFlashAttentionVarLenScore",
        (Sinks::None, _) => "aclnnFlashAttentionScore",
    }]
}

/// Returns whether no operator of CANN computes the key with all its gradients, so that several do.
pub(crate) fn is_composed(key: AttentionKey) -> bool {
    key.cap != ScoreCap::None || key.bias != AttentionBias::None
}

/// Returns the operators that compute a call of these operands.
///
/// # Errors
/// Returns the reason if no operators compute it.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Plan, Refused> {
    let key = operands.key();
    let [q, k, v] = [operands.q(), operands.k(), operands.v()].map(|tensor| tensor.spec());
    let bias = operands.bias().map(|bias| ("the bias", bias.spec()));
    let sinks = operands.sinks().map(|sinks| ("the sinks", sinks.spec()));
    let others = [("k", k), ("v", v)].into_iter().chain(bias).chain(sinks);
    one_float(("q", q), others)?;
    if is_composed(key) {
        composed::check(platform, operands)?;
        return Ok(Plan {
            operator: Operator::Composed,
            mask: match operands.visible().is_everything() {
                true => Hidden::Nothing,
                false => Hidden::Full,
            },
            axes: axes(key),
        });
    }
    let is_packed = packed::takes(operands);
    let plan = Plan {
        operator: match operands.sinks() {
            Some(_) => Operator::WithSinks,
            None if is_packed => Operator::Varlen,
            None => Operator::Dense,
        },
        mask: match is_packed {
            true => hidden::of_documents(operands),
            false => hidden::of_sequences(operands),
        },
        axes: axes(key),
    };
    match is_packed {
        true => packed::check(platform, operands, plan)?,
        false => dense::check(platform, operands, plan)?,
    }
    Ok(plan)
}

/// Returns the operators that compute an inference call of these operands. They depend on the strides and the memory of
/// the tensors, and on the functions of the device's library.
///
/// # Errors
/// Returns an error as [`decide`] does.
pub fn decide_inference(
    device: &Device,
    operands: &Operands<Seen<Tensor>>,
) -> Result<Plan, Refused> {
    let plan = decide(device.platform(), operands)?;
    if plan.operator == Operator::Composed {
        return Ok(plan);
    }
    Ok(Infer::new(device, operands).map_or(plan, |call| call.plan()))
}

impl OnNpu for Attention {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        wanted: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        let device = stream.device();
        let plan = decide(device.platform(), operands)?;
        if plan.operator == Operator::Composed {
            let (y, lse) = Composed::new(stream, operands)?.forward(stream, wanted.is_some())?;
            let made = Made::new(y.clone());
            return Ok(match lse {
                Some(lse) => made.saving([y, lse]),
                None => made,
            });
        }
        if wanted.is_none()
            && let Some(call) = Infer::new(&device, operands)
        {
            return Ok(Made::new(call.run(stream)?));
        }
        let (y, lse) = match plan.operator {
            Operator::Varlen => Packed::new(stream, operands, plan)?.forward(stream)?,
            _ => Dense::new(stream, operands, plan)?.forward(stream)?,
        };
        Ok(Made::new(y.clone()).saving([y, lse]))
    }

    fn backward(
        stream: &Stream,
        backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let operands = backward.operands();
        let plan = decide(stream.device().platform(), operands)?;
        match plan.operator {
            Operator::Varlen => Packed::new(stream, operands, plan)?.backward(stream, backward),
            Operator::Composed => Composed::new(stream, operands)?.backward(stream, backward),
            _ => Dense::new(stream, operands, plan)?.backward(stream, backward),
        }
    }
}

/// Returns the order of the axes of the operands.
fn axes(key: AttentionKey) -> Axes {
    match key.layout {
        HeadLayout::Bnsd => Axes::Bnsd,
        HeadLayout::Bsnd => Axes::Bsnd,
    }
}

fn tensors(operands: &Operands<Seen<Tensor>>) -> [&Tensor; 3] {
    [operands.q(), operands.k(), operands.v()].map(|tensor| &tensor.0)
}

/// Returns the logarithm of each query's sum, without the repetition of the last axis.
fn lse(stream: &Stream, found: &Attended) -> Result<Tensor> {
    let last = found.softmax_max.shape().len() - 1;
    let once = |statistic: &Tensor| statistic.select(last, 0);
    let (most, sum) = (once(&found.softmax_max)?, once(&found.softmax_sum)?);
    base::add(stream, &most, &unary::log(stream, &sum)?)
}

/// Returns results of the operator from the output and `lse`: a maximum and a sum that give the same weights.
fn attended(stream: &Stream, output: Tensor, lse: &Tensor) -> Result<Attended> {
    let shape: Vec<usize> = lse.shape().iter().copied().chain([REPEATED]).collect();
    let repeated = lse.unsqueeze(lse.shape().len())?.expand(&shape)?;
    Ok(Attended {
        output,
        softmax_max: base::copy(stream, &repeated)?,
        softmax_sum: base::filled(stream, DType::F32, &shape, 1.0)?,
    })
}

fn gradients(found: cann::Gradients, sinks: Option<Tensor>) -> Each<Option<Tensor>> {
    Each {
        q: Some(found.dq),
        k: Some(found.dk),
        v: Some(found.dv),
        bias: None,
        sinks,
    }
}
