//! Attention of sequences of several lengths (`aclnnFlashAttentionVarLenScore`) and its gradient
//! (`aclnnFlashAttentionUnpaddingScoreGrad`).
//!
//! The sequences follow one another in one axis, CANN's layout TND: `[tokens, heads, width]`.

use super::super::aclnn::aclnn;
use super::super::types::FLOATS;
use super::super::{Checked, Refusal, check};
use super::{
    Attended, Gradients, KEEP_ALL, Mask, PRECISE, Results, check_attended, check_heads, check_scale,
};
use crate::call::Constant;
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The ends of all sequences among the tokens, in order. Each sequence begins at the end of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends<'a> {
    /// The ends of the sequences of queries. The last one is the number of all queries.
    pub queries: &'a [usize],
    /// The ends of the sequences of keys and values, as many.
    pub keys: &'a [usize],
}

impl Ends<'_> {
    /// The most sequences of a call.
    pub const MOST: usize = 2048;
    /// The most tokens of a call.
    pub const MOST_TOKENS: usize = 1_000_000;

    /// Returns the numbers of queries and keys of each sequence.
    fn lengths(&self) -> impl Iterator<Item = [usize; 2]> {
        let starts = std::iter::once((0, 0)).chain(self.pairs());
        let lengths = |((queries, keys), (start, key_start)): ((usize, usize), (usize, usize))| {
            [
                queries.saturating_sub(start),
                keys.saturating_sub(key_start),
            ]
        };
        self.pairs().zip(starts).map(lengths)
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.queries.iter().copied().zip(self.keys.iter().copied())
    }

    fn check(&self, mask: Mask<&Spec>, queries: usize, keys: usize) -> Checked<()> {
        check::at_most("the number of sequences", self.queries.len(), Self::MOST)?;
        check::at_most("the number of tokens", queries.max(keys), Self::MOST_TOKENS)?;
        let in_order = |ends: &[usize], tokens: usize| {
            ends.is_sorted() && ends.last().copied() == Some(tokens)
        };
        if self.queries.len() != self.keys.len()
            || !in_order(self.queries, queries)
            || !in_order(self.keys, keys)
        {
            return Err(
                self.refusal("as many ends of queries as of keys, in order, up to the last token")
            );
        }
        for [queries, keys] in self.lengths().filter(|lengths| *lengths != [0, 0]) {
            if queries == 0 || keys == 0 {
                return Err(self.refusal("queries and keys in each sequence, or none of both"));
            }
            if matches!(mask, Mask::ToLast(_)) && queries > keys {
                return Err(self.refusal("as many keys as queries in each sequence, or more"));
            }
            mask.check_band([queries, keys])?;
        }
        Ok(())
    }

    fn refusal(&self, expected: &'static str) -> Refusal {
        Refusal::Value {
            what: "the ends",
            found: format!("{:?} of queries, {:?} of keys", self.queries, self.keys),
            expected,
        }
    }
}

/// Checks the operands of [`attention_varlen`] and returns the specs of what it returns.
///
/// All tensors are `[tokens, heads, width]`, have the same dtype, f32, f16 or bf16, and may have any strides. Heads have
/// the limits of [`check`](super::check()). There are at most [`Ends::MOST`] sequences of [`Ends::MOST_TOKENS`] tokens in
/// all. A full mask is not taken.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_varlen(
    platform: &Platform,
    [q, k, v]: [&Spec; 3],
    mask: Mask<&Spec>,
    ends: Ends<'_>,
    scale: f64,
) -> Checked<Results> {
    check::processor(platform, "FlashAttentionVarLenScore")?;
    for operand in [("q", q), ("k", k), ("v", v)] {
        check::dtype(operand, FLOATS)?;
        check::dtype(operand, &[q.dtype])?;
        check::not_empty(operand)?;
        check::rank(operand, 3, 3)?;
    }
    let &[queries, heads, width] = q.shape() else {
        unreachable!("three dimensions")
    };
    let &[keys, groups, key_width] = k.shape() else {
        unreachable!("three dimensions")
    };
    check_heads(heads, width)?;
    if key_width != width || !heads.is_multiple_of(groups) {
        let expected = format!("a divisor of {heads} heads, and width {width}");
        return Err(check::wrong_shape(("k", k), expected));
    }
    let value_width = v.shape()[2];
    if value_width > width {
        let expected = format!("heads of at most {width} elements");
        return Err(check::wrong_shape(("v", v), expected));
    }
    check::shape(("v", v), &[keys, groups, value_width])?;
    check_scale(scale)?;
    if let Mask::Full(mask) = mask {
        return Err(check::wrong_shape(
            ("mask", mask),
            "the mask of causal_mask",
        ));
    }
    ends.check(mask, queries, keys)?;
    mask.check([1, heads, queries, keys])?;
    Ok(Results {
        output: Spec::contiguous(q.dtype, [queries, heads, value_width])?,
        statistics: Spec::contiguous(DType::F32, [queries, heads, 8])?,
    })
}

/// Checks the operands of [`attention_varlen_backward`]: those of [`check_varlen`], `dy` like `output`, and the results
/// that [`attention_varlen`] returned. The statistics are contiguous.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_varlen_backward(
    platform: &Platform,
    tensors: [&Spec; 3],
    mask: Mask<&Spec>,
    ends: Ends<'_>,
    scale: f64,
    given: [&Spec; 4],
) -> Checked<()> {
    check_attended(&check_varlen(platform, tensors, mask, ends, scale)?, given)?;
    check::contiguous(("softmax_max", given[2]))?;
    check::contiguous(("softmax_sum", given[3]))
}

/// Computes `softmax(scale · q·kᵀ)·v` for each sequence.
///
/// The statistics have the shape `[tokens, heads, 8]`, but CANN writes them sequence by sequence: the memory has those of
/// the first sequence, `[heads, queries, 8]`, then those of the second.
///
/// # Errors
///
/// Returns an error if [`check_varlen`] refuses the operands or a call fails.
pub fn attention_varlen(
    stream: &Stream,
    [q, k, v]: [&Tensor; 3],
    mask: Mask<&Tensor>,
    ends: Ends<'_>,
    scale: f64,
) -> Result<Attended> {
    let device = stream.device();
    let specs = [q, k, v].map(Tensor::spec);
    let results = check_varlen(
        device.platform(),
        specs,
        mask.map(Tensor::spec),
        ends,
        scale,
    )?;
    let made = Attended::new(stream, &results)?;
    let (most, sum, y) = (&made.softmax_max, &made.softmax_sum, &made.output);
    let (mode, [before, behind]) = (mask.mode(), mask.band());
    let (absent, mask) = (None::<&Tensor>, mask.tensor());
    let (layout, heads) = (c"TND".as_ptr().cast_mut(), q.shape()[1] as i64);
    aclnn!(
        stream, attention.aclnnFlashAttentionVarLenScoreGetWorkspaceSize,
        aclnnFlashAttentionVarLenScore,
        tensors [q, k, v, absent, mask, most, sum, y],
        constants [
            q_ends: ints = Constant::sizes(ends.queries),
            k_ends: ints = Constant::sizes(ends.keys),
        ],
        attributes [],
        call(
            q, k, v, absent, absent, absent, mask, std::ptr::null(), q_ends, k_ends, scale,
            KEEP_ALL, before, behind, heads, layout, PRECISE, mode, most, sum, absent, y,
        ),
        made.clone(),
    )
}

/// Returns the gradients of [`attention_varlen`] from `dy`, the gradient of its output, and from what it returned.
///
/// # Errors
///
/// Returns an error if [`check_varlen_backward`] refuses the operands or a call fails.
pub fn attention_varlen_backward(
    stream: &Stream,
    dy: &Tensor,
    [q, k, v]: [&Tensor; 3],
    mask: Mask<&Tensor>,
    ends: Ends<'_>,
    scale: f64,
    attended: &Attended,
) -> Result<Gradients> {
    let Attended {
        output,
        softmax_max: most,
        softmax_sum: sum,
    } = attended;
    let device = stream.device();
    check_varlen_backward(
        device.platform(),
        [q, k, v].map(Tensor::spec),
        mask.map(Tensor::spec),
        ends,
        scale,
        attended.specs(dy),
    )?;
    let made = Gradients::new(stream, [q, k, v])?;
    let (dq, dk, dv) = (&made.dq, &made.dk, &made.dv);
    let (mode, [before, behind]) = (mask.mode(), mask.band());
    let (absent, mask) = (None::<&Tensor>, mask.tensor());
    let (layout, heads) = (c"TND".as_ptr().cast_mut(), q.shape()[1] as i64);
    aclnn!(
        stream, attention.aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize,
        aclnnFlashAttentionUnpaddingScoreGrad,
        tensors [q, k, v, dy, absent, mask, most, sum, output, dq, dk, dv],
        constants [
            q_ends: ints = Constant::sizes(ends.queries),
            k_ends: ints = Constant::sizes(ends.keys),
        ],
        attributes [],
        call(
            q, k, v, dy, absent, absent, absent, mask, most, sum, absent, output,
            std::ptr::null(), q_ends, k_ends, scale, KEEP_ALL, before, behind, heads, layout,
            PRECISE, mode, dq, dk, dv, absent,
        ),
        made.clone(),
    )
}
