//! Moving tokens to the rows of their experts, and back.

use cann_sys::types::aclIntArray;

use crate::dtype::DType;
use crate::error::Result;
use crate::ops::aclnn::aclnn;
use crate::ops::check;
use crate::ops::{Checked, Refusal};
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The most choices of a token.
const MOST_CHOICES: usize = 512;

/// NULL for the shape to restore, which only padded rows have.
const NO_SHAPE: *const aclIntArray = std::ptr::null();

/// Tokens in the order of their experts.
#[derive(Debug, Clone)]
pub struct Permuted {
    /// The tokens, `[rows, hidden]`.
    pub tokens: Tensor,
    /// The row of each slot, i32.
    pub row_of_slot: Tensor,
}

/// Checks the operands of [`permute`] and returns the specs of the permuted tokens and of the rows of slots. `tokens`
/// is `[T, H]`. `indices` holds the experts' indices, `[T]` or `[T, K]` of i32 or i64, with at most 512 choices per
/// token. If `rows` is given, only the first `rows` rows are kept.
///
/// The experts' indices must be less than 16,777,215. This is not checked, since they are on the device.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
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

/// Checks the operands of [`permute_grad`], the gradient of all permuted tokens and the rows of slots, and returns the
/// spec of its result.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
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

/// Checks the operands of [`unpermute`] and returns the spec of its result. They are all permuted tokens, the rows of
/// slots, and `probs` `[T, K]` of the tokens' dtype. Without `probs`, each token has one choice.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
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

/// Returns the tokens sorted by expert, each once for every choice.
///
/// # Errors
///
/// Returns an error if [`check_permute`] refuses the operands or a call fails.
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
            // No tokens give no rows. Tokens of width 0 still have rows, which CANN would sort.
            if indices.spec().is_empty() {
                Ok(())
            } else {
                Err(refusal)
            }
        })?;
        return Ok(output);
    }
    // CANN keeps all rows if the number is zero.
    let kept = rows.map_or(0, |rows| rows.min(indices.spec().len()) as i64);
    let (permuted, rows) = (&output.tokens, &output.row_of_slot);
    aclnn!(
        stream, moe.aclnnMoeTokenPermuteGetWorkspaceSize, aclnnMoeTokenPermute,
        tensors [tokens, indices, permuted, rows], constants [], attributes [kept],
        call(tokens, indices, kept, false, permuted, rows), output,
    )
}

/// Returns the gradient of [`permute`] for the tokens: the sum over each token's choices.
///
/// # Errors
///
/// Returns an error if [`check_permute_grad`] refuses the operands or a call fails.
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

/// Returns for each token the sum of the rows of its choices, times `probs` if there are any. Sums are in f32.
///
/// # Errors
///
/// Returns an error if [`check_unpermute`] refuses the operands or a call fails.
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

/// Checks that there is one row per slot and `k` slots per token. Returns the number of tokens.
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
