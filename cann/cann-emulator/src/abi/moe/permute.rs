//! Moving tokens to the rows of their experts and back, with gradients.

use super::FLOATS;
use crate::abi::prelude::*;
use crate::ops::moe;

/// The largest index of an expert, because f32 must hold the indices for comparison.
const MOST_EXPERTS: i64 = 16_777_215;

fn refuse_padding(padded: bool) -> Outcome<()> {
    ensure!(!padded, ACLNN_ERR_INNER_TILING_ERROR; "paddedMode is not supported; pass false");
    Ok(())
}

fn check_matrix(name: &str, tensor: &Tensor) -> Outcome<()> {
    check_dtype(name, tensor, &FLOATS)?;
    ensure!(tensor.rank() == 2, ACLNN_ERR_INNER_TILING_ERROR;
        "{name} has {} axes; it takes 2", tensor.rank());
    Ok(())
}

fn check_choices(choices: usize) -> Outcome<()> {
    ensure!((1..=512).contains(&choices), ACLNN_ERR_INNER_TILING_ERROR;
        "{choices} experts a token; 1 to 512 are supported");
    Ok(())
}

/// Checks that no row occurs twice or is negative. Rows beyond the end count as zero: programs mark dropped tokens
/// with them, and published examples pass the bits of floats.
fn check_rows(rows: &[i64]) -> Outcome<()> {
    let mut seen = vec![false; rows.len()];
    for row in rows {
        ensure!(*row >= 0; "sortedIndices has {row}; rows count from 0");
        if let Some(seen) = seen.get_mut(*row as usize) {
            ensure!(!std::mem::replace(seen, true);
                "sortedIndices must be a permutation of {} rows, but has {row} twice", rows.len());
        }
    }
    Ok(())
}

/// Returns the number of rows that `numOutTokens` keeps of `slots`. A negative number drops that many.
fn kept(wanted: i64, slots: usize) -> usize {
    match usize::try_from(wanted) {
        Ok(wanted) if wanted > 0 => wanted.min(slots),
        _ => slots.saturating_sub(wanted.unsigned_abs() as usize),
    }
}

/// Returns the number of choices per token. Indices are one list, or have a column for each choice.
fn check_indices(indices: &Tensor, tokens: usize) -> Outcome<usize> {
    if indices.rank() != 2 {
        check_shape("indices", indices, &[tokens])?;
        return Ok(1);
    }
    let choices = indices.shape[1];
    check_choices(choices)?;
    check_shape("indices", indices, &[tokens, choices])?;
    Ok(choices)
}

operator! { moe: aclnnMoeTokenPermuteGetWorkspaceSize, aclnnMoeTokenPermute(
    tokens, indices, num_out_tokens, padded_mode, permuted, sorted_indices
) |operands|
    let tokens = operands.input("tokens", tokens)?;
    let indices = operands.input("indices", indices)?;
    let permuted = operands.output("permuteTokensOut", permuted)?;
    let sorted = operands.output("sortedIndicesOut", sorted_indices)?;
    refuse_padding(padded_mode)?;
    check_dtype("tokens", &tokens, &FLOATS)?;
    check_dtype("indices", &indices, &[ACL_INT32, ACL_INT64])?;
    check_dtype("permuteTokensOut", &permuted, &[tokens.dtype])?;
    check_dtype("sortedIndicesOut", &sorted, &[ACL_INT32])?;
    ensure!(tokens.rank() >= 2, ACLNN_ERR_INNER_TILING_ERROR;
        "tokens has {} axes; it takes 2 or more", tokens.rank());
    let (count, width) = (tokens.shape[0], tokens.shape[1..].iter().product());
    let choices = check_indices(&indices, count)?;
    let rows = kept(num_out_tokens, count * choices);
    // The other axes may be divided differently.
    let rest: usize = permuted.shape.iter().skip(1).product();
    ensure!(
        permuted.rank() >= 2 && permuted.shape[0] == rows && rest == width,
        ACLNN_ERR_INNER_TILING_ERROR;
        "permuteTokensOut has the shape {:?}; {rows} rows of {width} values are needed",
        permuted.shape
    );
    check_shape("sortedIndicesOut", &sorted, &[count * choices])?;
    check_contiguous("permuteTokensOut", &permuted)?;
    check_contiguous("sortedIndicesOut", &sorted)?;
    Ok(Arc::new(move |memory, operands| {
        let [tokens, indices, permuted, sorted] = taken(operands);
        let experts = indices.integers(memory)?;
        ensure!(experts.iter().all(|expert| (0..MOST_EXPERTS).contains(expert));
            "an expert's number is negative or not less than {MOST_EXPERTS}");
        let of_slots = moe::rows_of_slots(&experts);
        let values = moe::permute(&tokens.floats(memory)?, width, &of_slots, choices, rows);
        permuted.store(memory, &values)?;
        sorted.store_integers(memory, &of_slots)
    }))
}

operator! { moe: aclnnMoeTokenPermuteGradGetWorkspaceSize, aclnnMoeTokenPermuteGrad(
    dpermuted, sorted_indices, choices, padded_mode, output
) |operands|
    let dpermuted = operands.input("permutedOutputGrad", dpermuted)?;
    let sorted = operands.input("sortedIndices", sorted_indices)?;
    let output = operands.output("out", output)?;
    refuse_padding(padded_mode)?;
    check_matrix("permutedOutputGrad", &dpermuted)?;
    check_dtype("sortedIndices", &sorted, &[ACL_INT32])?;
    check_dtype("out", &output, &[dpermuted.dtype])?;
    let choices = usize::try_from(choices).unwrap_or(0);
    check_choices(choices)?;
    check_shape("sortedIndices", &sorted, &[sorted.count() / choices * choices])?;
    let width = dpermuted.shape[1];
    check_shape("out", &output, &[sorted.count() / choices, width])?;
    check_contiguous("out", &output)?;
    Ok(Arc::new(move |memory, operands| {
        let [dpermuted, sorted, output] = taken(operands);
        let rows = sorted.integers(memory)?;
        check_rows(&rows)?;
        let values = moe::unpermute(&dpermuted.floats(memory)?, width, &rows, None, choices);
        output.store(memory, &values)
    }))
}

/// Checks the operands that the way back and its gradient share. Returns the number of choices per token.
fn check_unpermute(rows: &Tensor, probs: Option<&Tensor>, dtype: aclDataType) -> Outcome<usize> {
    check_dtype("sortedIndices", rows, &[ACL_INT32])?;
    let Some(probs) = probs else {
        check_shape("sortedIndices", rows, &[rows.count()])?;
        return Ok(1);
    };
    check_dtype("probs", probs, &[dtype])?;
    ensure!(probs.rank() == 2, ACLNN_ERR_INNER_TILING_ERROR;
        "probs has {} axes; it takes 2", probs.rank());
    check_choices(probs.shape[1])?;
    check_shape("sortedIndices", rows, &[probs.count()])?;
    Ok(probs.shape[1])
}

operator! { moe: aclnnMoeTokenUnpermuteGetWorkspaceSize, aclnnMoeTokenUnpermute(
    permuted, sorted_indices, probs, padded_mode, _restore_shape, output
) |operands|
    let permuted = operands.input("permutedTokens", permuted)?;
    let rows = operands.input("sortedIndices", sorted_indices)?;
    let probs = operands.optional("probs", probs)?;
    let output = operands.output("out", output)?;
    refuse_padding(padded_mode)?;
    check_matrix("permutedTokens", &permuted)?;
    let choices = check_unpermute(&rows, probs.as_ref(), permuted.dtype)?;
    check_dtype("out", &output, &[permuted.dtype])?;
    let width = permuted.shape[1];
    check_shape("out", &output, &[rows.count() / choices, width])?;
    check_contiguous("out", &output)?;
    Ok(Arc::new(move |memory, operands| {
        let (permuted, rows, probs, output) = match operands {
            [permuted, rows, probs, output] => (permuted, rows, Some(probs), output),
            [permuted, rows, output] => (permuted, rows, None, output),
            _ => unreachable!("taken above"),
        };
        let rows = rows.integers(memory)?;
        check_rows(&rows)?;
        let probs = probs.map(|probs| probs.floats(memory)).transpose()?;
        let values = moe::unpermute(
            &permuted.floats(memory)?,
            width,
            &rows,
            probs.as_deref(),
            choices,
        );
        output.store(memory, &values)
    }))
}

operator! { moe: aclnnMoeTokenUnpermuteGradGetWorkspaceSize, aclnnMoeTokenUnpermuteGrad(
    permuted, dout, sorted_indices, probs, padded_mode, _restore_shape, dpermuted, dprobs
) |operands|
    let permuted = operands.input("permutedTokens", permuted)?;
    let dout = operands.input("unpermutedTokensGrad", dout)?;
    let rows = operands.input("sortedIndices", sorted_indices)?;
    let probs = operands.optional("probs", probs)?;
    let dpermuted = operands.output("permutedTokensGradOut", dpermuted)?;
    let dprobs = operands.output("probsGradOut", dprobs)?;
    refuse_padding(padded_mode)?;
    check_matrix("permutedTokens", &permuted)?;
    check_dtype("unpermutedTokensGrad", &dout, &[permuted.dtype])?;
    check_dtype("permutedTokensGradOut", &dpermuted, &[permuted.dtype])?;
    let choices = check_unpermute(&rows, probs.as_ref(), permuted.dtype)?;
    let [count, width] = permuted.shape[..] else {
        unreachable!("two axes")
    };
    check_shape("unpermutedTokensGrad", &dout, &[rows.count() / choices, width])?;
    check_shape("permutedTokensGradOut", &dpermuted, &permuted.shape)?;
    check_contiguous("permutedTokensGradOut", &dpermuted)?;
    if let Some(probs) = &probs {
        check_dtype("probsGradOut", &dprobs, &[probs.dtype])?;
        check_shape("probsGradOut", &dprobs, &probs.shape)?;
        check_contiguous("probsGradOut", &dprobs)?;
    }
    Ok(Arc::new(move |memory, operands| {
        unpermute_grad(memory, operands, [count, width], choices)
    }))
}

fn unpermute_grad(
    memory: &mut Memory,
    operands: &[Tensor],
    [count, width]: [usize; 2],
    choices: usize,
) -> Outcome<()> {
    let (permuted, dout, rows, probs, dpermuted, dprobs) = match operands {
        [permuted, dout, rows, probs, dpermuted, dprobs] => {
            (permuted, dout, rows, Some(probs), dpermuted, dprobs)
        }
        [permuted, dout, rows, dpermuted, dprobs] => {
            (permuted, dout, rows, None, dpermuted, dprobs)
        }
        _ => unreachable!("taken in phase one"),
    };
    let rows = rows.integers(memory)?;
    check_rows(&rows)?;
    let probs = probs.map(|probs| probs.floats(memory)).transpose()?;
    let (permuted, dout) = (permuted.floats(memory)?, dout.floats(memory)?);
    let (by_rows, by_probs) = moe::unpermute_grad(
        &permuted,
        &dout,
        width,
        &rows,
        probs.as_deref(),
        choices,
        count,
    );
    dpermuted.store(memory, &by_rows)?;
    if probs.is_some() {
        dprobs.store(memory, &by_probs)?;
    }
    Ok(())
}
