//! Tokens to the rows of their experts, and back.

use cann_sys::types::aclIntArray;

use crate::dtype::DType;
use crate::error::Result;
use crate::ops::aclnn::aclnn;
use crate::ops::check;
use crate::ops::{Checked, Refusal};
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// Choices a token, at most.
const MOST_CHOICES: usize = 512;

/// The shape to restore, which only padded rows have.
const NO_SHAPE: *const aclIntArray = std::ptr::null();

/// Tokens in the order of their experts.
#[derive(Debug, Clone)]
pub struct Permuted {
    /// `[rows, hidden]`.
    pub tokens: Tensor,
    /// i32, one per slot: the row at which it lies.
    pub row_of_slot: Tensor,
}

/// The gradients of [`unpermute`].
#[derive(Debug, Clone)]
pub struct UnpermuteGradients {
    /// Like the permuted tokens.
    pub dpermuted: Tensor,
    /// Like `probs`, if there were any.
    pub dprobs: Option<Tensor>,
}

/// What [`permute`] makes of `tokens` `[T, H]` and the experts' numbers `indices`, `[T]` or `[T, K]` of i32 or
/// i64: the permuted tokens and the rows of slots. Of at most 512 choices a token, the first `rows` rows
/// are kept, all without it.
///
/// Experts' numbers must be less than 16,777,215; that is not checked, since they are on the device.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_permute(
    platform: &Platform,
    tokens: &Spec,
    indices: &Spec,
    rows: Option<usize>,
) -> Checked<(Spec, Spec)> {
    check::processor(platform, "MoeTokenPermute")?;
    check::dtype(("tokens", tokens), &check::FLOATS)?;
    check::rank(("tokens", tokens), 2, 2)?;
    check::dtype(("indices", indices), &[DType::I32, DType::I64])?;
    check::rank(("indices", indices), 1, 2)?;
    let (count, hidden) = (tokens.shape()[0], tokens.shape()[1]);
    if indices.shape()[0] != count {
        let expected = format!("{count} tokens first");
        return Err(check::wrong_shape(("indices", indices), expected));
    }
    choices(indices.shape().get(1).copied().unwrap_or(1))?;
    let slots = indices.len();
    if rows == Some(0) {
        return Err(Refusal::Value {
            what: "rows",
            found: "0".to_owned(),
            expected: "positive, or left out for all",
        });
    }
    let kept = rows.map_or(slots, |rows| rows.min(slots));
    let permuted = Spec::contiguous(tokens.dtype, [kept, hidden])?;
    Ok((permuted, Spec::contiguous(DType::I32, [slots])?))
}

/// What [`permute_grad`] makes of the gradient of all permuted tokens and the rows of slots.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_permute_grad(
    platform: &Platform,
    dpermuted: &Spec,
    row_of_slot: &Spec,
    k: usize,
) -> Checked<Spec> {
    check::processor(platform, "MoeTokenPermuteGrad")?;
    choices(k)?;
    let tokens = slots(("dpermuted", dpermuted), row_of_slot, k)?;
    check::contiguous(("dpermuted", dpermuted))?;
    Ok(Spec::contiguous(
        dpermuted.dtype,
        [tokens, dpermuted.shape()[1]],
    )?)
}

/// What [`unpermute`] makes of all permuted tokens, the rows of slots, and `probs` `[T, K]` of the tokens'
/// type; without those each token has one choice.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_unpermute(
    platform: &Platform,
    permuted: &Spec,
    row_of_slot: &Spec,
    probs: Option<&Spec>,
) -> Checked<Spec> {
    check::processor(platform, "MoeTokenUnpermute")?;
    let mut k = 1;
    if let Some(probs) = probs {
        check::dtype(("probs", probs), &[permuted.dtype])?;
        check::rank(("probs", probs), 2, 2)?;
        k = probs.shape()[1];
    }
    choices(k)?;
    let tokens = slots(("permuted", permuted), row_of_slot, k)?;
    if let Some(probs) = probs {
        check::shape(("probs", probs), &[tokens, k])?;
    }
    Ok(Spec::contiguous(
        permuted.dtype,
        [tokens, permuted.shape()[1]],
    )?)
}

/// What [`unpermute_grad`] makes of the operands of [`check_unpermute`] and the gradient of its output, all
/// contiguous: CANN does not say that they may be strided.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_unpermute_grad(
    platform: &Platform,
    permuted: &Spec,
    dout: &Spec,
    row_of_slot: &Spec,
    probs: Option<&Spec>,
) -> Checked<Spec> {
    let out = check_unpermute(platform, permuted, row_of_slot, probs)?;
    check::dtype(("dout", dout), &[permuted.dtype])?;
    check::shape(("dout", dout), out.shape())?;
    let operands = [
        ("permuted", permuted),
        ("dout", dout),
        ("row_of_slot", row_of_slot),
    ];
    for operand in operands
        .into_iter()
        .chain(probs.map(|probs| ("probs", probs)))
    {
        check::contiguous(operand)?;
    }
    Ok(Spec::contiguous(permuted.dtype, permuted.shape())?)
}

/// Tokens, once for each of their choices, sorted by expert.
///
/// # Errors
///
/// Refused by [`check_permute`], or a call failed.
pub fn permute(
    stream: &Stream,
    tokens: &Tensor,
    indices: &Tensor,
    rows: Option<usize>,
) -> Result<Permuted> {
    let device = stream.device();
    let (permuted, row_of_slot) =
        check_permute(device.platform(), tokens.spec(), indices.spec(), rows)?;
    let output = Permuted {
        tokens: Tensor::like(stream, &permuted)?,
        row_of_slot: Tensor::like(stream, &row_of_slot)?,
    };
    if indices.spec().is_empty() || permuted.is_empty() {
        check::not_empty(("tokens", tokens.spec())).or_else(|refusal| {
            // No tokens make no rows. Tokens without elements still have rows, which CANN would sort.
            if indices.spec().is_empty() {
                Ok(())
            } else {
                Err(refusal)
            }
        })?;
        return Ok(output);
    }
    // Zero keeps them all.
    let kept = rows.map_or(0, |rows| rows.min(indices.spec().len()) as i64);
    let (permuted, rows) = (&output.tokens, &output.row_of_slot);
    aclnn!(
        stream, moe.aclnnMoeTokenPermuteGetWorkspaceSize, aclnnMoeTokenPermute,
        tensors [tokens, indices, permuted, rows], constants [], attributes [kept],
        call(tokens, indices, kept, false, permuted, rows), output,
    )
}

/// The gradient of [`permute`] by the tokens: the sums over their choices.
///
/// # Errors
///
/// Refused by [`check_permute_grad`], or a call failed.
pub fn permute_grad(
    stream: &Stream,
    dpermuted: &Tensor,
    row_of_slot: &Tensor,
    k: usize,
) -> Result<Tensor> {
    let device = stream.device();
    let output = check_permute_grad(device.platform(), dpermuted.spec(), row_of_slot.spec(), k)?;
    let output = Tensor::like(stream, &output)?;
    if output.spec().is_empty() {
        return Ok(output);
    }
    let (k, dtokens) = (k as i64, &output);
    aclnn!(
        stream, moe.aclnnMoeTokenPermuteGradGetWorkspaceSize, aclnnMoeTokenPermuteGrad,
        tensors [dpermuted, row_of_slot, dtokens], constants [], attributes [k],
        call(dpermuted, row_of_slot, k, false, dtokens), output,
    )
}

/// Each token's sum over its choices of the rows, times `probs` if there are any; added in f32.
///
/// # Errors
///
/// Refused by [`check_unpermute`], or a call failed.
pub fn unpermute(
    stream: &Stream,
    permuted: &Tensor,
    row_of_slot: &Tensor,
    probs: Option<&Tensor>,
) -> Result<Tensor> {
    let device = stream.device();
    let of_probs = probs.map(Tensor::spec);
    let output = check_unpermute(
        device.platform(),
        permuted.spec(),
        row_of_slot.spec(),
        of_probs,
    )?;
    let output = Tensor::like(stream, &output)?;
    if output.spec().is_empty() {
        return Ok(output);
    }
    let y = &output;
    aclnn!(
        stream, moe.aclnnMoeTokenUnpermuteGetWorkspaceSize, aclnnMoeTokenUnpermute,
        tensors [permuted, row_of_slot, probs, y], constants [], attributes [],
        call(permuted, row_of_slot, probs, false, NO_SHAPE, y), output,
    )
}

/// The gradients of [`unpermute`] from `dout`.
///
/// # Errors
///
/// Refused by [`check_unpermute_grad`], or a call failed.
pub fn unpermute_grad(
    stream: &Stream,
    permuted: &Tensor,
    dout: &Tensor,
    row_of_slot: &Tensor,
    probs: Option<&Tensor>,
) -> Result<UnpermuteGradients> {
    let device = stream.device();
    let dpermuted = check_unpermute_grad(
        device.platform(),
        permuted.spec(),
        dout.spec(),
        row_of_slot.spec(),
        probs.map(Tensor::spec),
    )?;
    let dpermuted = &Tensor::like(stream, &dpermuted)?;
    // CANN wants the place also when it leaves it alone.
    let of_probs = probs.map_or(&[][..], |probs| probs.shape());
    let dprobs = &Tensor::empty(stream, permuted.dtype(), of_probs)?;
    let output = UnpermuteGradients {
        dpermuted: dpermuted.clone(),
        dprobs: probs.map(|_| dprobs.clone()),
    };
    if row_of_slot.spec().is_empty() {
        return Ok(output);
    }
    check::not_empty(("permuted", permuted.spec()))?;
    aclnn!(
        stream, moe.aclnnMoeTokenUnpermuteGradGetWorkspaceSize, aclnnMoeTokenUnpermuteGrad,
        tensors [permuted, dout, row_of_slot, probs, dpermuted, dprobs],
        constants [], attributes [],
        call(permuted, dout, row_of_slot, probs, false, NO_SHAPE, dpermuted, dprobs), output,
    )
}

fn choices(k: usize) -> Checked<()> {
    if k == 0 {
        return Err(Refusal::Value {
            what: "the number of choices",
            found: "0".to_owned(),
            expected: "positive",
        });
    }
    check::at_most("the number of choices", k, MOST_CHOICES)
}

/// One row for each slot and `k` slots for each token: how many tokens there are.
fn slots((name, rows): check::Named<'_>, row_of_slot: &Spec, k: usize) -> Checked<usize> {
    check::dtype((name, rows), &check::FLOATS)?;
    check::rank((name, rows), 2, 2)?;
    check::dtype(("row_of_slot", row_of_slot), &[DType::I32])?;
    check::rank(("row_of_slot", row_of_slot), 1, 1)?;
    check::contiguous(("row_of_slot", row_of_slot))?;
    let slots = rows.shape()[0];
    check::shape(("row_of_slot", row_of_slot), &[slots])?;
    if slots % k != 0 {
        let expected = format!("a multiple of {k} rows");
        return Err(check::wrong_shape((name, rows), expected));
    }
    Ok(slots / k)
}
