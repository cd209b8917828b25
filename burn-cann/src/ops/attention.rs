//! Attention in one operator: `aclnnFlashAttentionScore`, which keeps no matrix of scores.
//!
//! `softmax(scale · query · keyᵀ) · value` for each head. Scores and sums are in f32.

use cann_sys::types::aclIntArray;

use super::check;
use super::types::FLOATS;
use super::{Checked, Refusal};
use crate::DType;
use crate::call::{Operand, Request};
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// Batch, heads, sequence, width.
const LAYOUT: &std::ffi::CStr = c"BNSD";
/// The mask says all about what is left out.
const WHOLE_MASK: i64 = 0;
/// Rows of which everything is masked are computed with care: 2 of CANN's modes.
const EMPTY_ROWS: i64 = 2;
/// A window as wide as any sequence.
const NO_WINDOW: i64 = i32::MAX as i64;
/// CANN keeps what gradients need eight times beside each other.
const TIMES: usize = 8;

/// What [`flash_attention`] gives.
#[derive(Debug, Clone)]
pub struct Attention {
    /// Like `query`.
    pub output: Tensor,
    /// The greatest score of each row, f32, `[batch, heads, length, 8]`.
    pub greatest: Tensor,
    /// The sum of each row's exponentials, f32, as `greatest`.
    pub sums: Tensor,
}

/// What [`flash_attention`] makes of `query`, `[batch, heads, length, width]`, and `key` and `value`,
/// `[batch, heads of keys, keys, width]`: f32, f16 or bf16, any strides.
///
/// `mask` is of bools, true where a score does not count: `[batch, heads, length, keys]`, of which the heads
/// or both first dimensions may be 1, or `[length, keys]`. Heads are at most 256, a multiple of those of the
/// keys; the width is at most 768; nothing is empty.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check(
    platform: &Platform,
    query: &Spec,
    key: &Spec,
    value: &Spec,
    mask: Option<&Spec>,
) -> Checked<Spec> {
    check::processor(platform, "FlashAttentionScore")?;
    check::one_float(&[("query", query), ("key", key), ("value", value)])?;
    for operand in [("query", query), ("key", key)] {
        check::dtype(operand, FLOATS)?;
        check::rank(operand, 4, 4)?;
        check::not_empty(operand)?;
    }
    let (own, other) = (query.shape(), key.shape());
    if own[0] != other[0] || own[3] != other[3] || own[1] % other[1] != 0 {
        let expected = format!("the query's batch and width and a part of its heads, {own:?}");
        return Err(check::wrong_shape(("key", key), expected));
    }
    check::shape(("value", value), other)?;
    check::at_most("the batch", own[0], 2 << 20)?;
    check::at_most("the number of heads", own[1], 256)?;
    check::at_most("the length", own[2].max(other[2]), 1 << 20)?;
    check::at_most("the width of a head", own[3], 768)?;
    if let Some(mask) = mask {
        masks(mask, [own[0], own[1], own[2], other[2]])?;
    }
    Ok(Spec::contiguous(query.dtype, own)?)
}

fn masks(mask: &Spec, [batch, heads, queries, keys]: [usize; 4]) -> Checked<()> {
    check::dtype(("mask", mask), &[DType::Bool])?;
    let shapes: [&[usize]; 4] = [
        &[batch, heads, queries, keys],
        &[batch, 1, queries, keys],
        &[1, 1, queries, keys],
        &[queries, keys],
    ];
    if shapes.contains(&mask.shape()) {
        return Ok(());
    }
    Err(check::wrong_shape(
        ("mask", mask),
        format!("one of {shapes:?}"),
    ))
}

/// Attention of each head, and what its gradient needs. CANN does not say what a row is of which everything
/// is masked.
///
/// # Errors
///
/// Refused by [`check`], or a call failed.
pub fn flash_attention(
    stream: &Stream,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    mask: Option<&Tensor>,
    scale: f64,
) -> Result<Attention> {
    let device = stream.device();
    let spec = check(
        device.platform(),
        query.spec(),
        key.spec(),
        value.spec(),
        mask.map(Tensor::spec),
    )?;
    if !scale.is_finite() {
        return Err(Refusal::Value {
            what: "scale",
            found: scale.to_string(),
            expected: "a finite number",
        }
        .into());
    }
    let [batch, heads, length, _] = *spec.shape() else {
        unreachable!("has four dimensions, as was checked")
    };
    let row = |_| Tensor::empty(stream, DType::F32, [batch, heads, length, TIMES]);
    let result = Attention {
        output: Tensor::like(stream, &spec)?,
        greatest: row(())?,
        sums: row(())?,
    };
    let area = &device.cann().sys().attention;
    let phase_one = area.aclnnFlashAttentionScoreGetWorkspaceSize.get()?;
    let inputs = [query, key, value].map(Operand::from);
    let outputs = [&result.greatest, &result.sums, &result.output].map(Operand::from);
    let request = Request {
        stream,
        operator: "aclnnFlashAttentionScore",
        operands: inputs
            .into_iter()
            .chain([Operand::optional(mask)])
            .chain(outputs)
            .collect(),
        attributes: vec![scale.into()],
        phase_two: area.aclnnFlashAttentionScore.get()?,
    };
    let (count, none) = (heads as i64, std::ptr::null());
    let no_prefix: *const aclIntArray = std::ptr::null();
    let prepared = request.prepare(result, |operands, answer| {
        let [query, key, value, mask, greatest, sums, output] = operands.tensors();
        let (workspace, executor) = (&mut answer.workspace, &mut answer.executor);
        // SAFETY: operands live as long as the plan, the layout is a string that CANN only reads, and there
        // are places for the answers.
        unsafe {
            phase_one(
                query,
                key,
                value,
                none,
                none,
                none,
                mask,
                no_prefix,
                scale,
                1.0,
                NO_WINDOW,
                NO_WINDOW,
                count,
                LAYOUT.as_ptr().cast_mut(),
                EMPTY_ROWS,
                WHOLE_MASK,
                greatest,
                sums,
                none,
                output,
                workspace,
                executor,
            )
        }
    })?;
    prepared.launch()
}
