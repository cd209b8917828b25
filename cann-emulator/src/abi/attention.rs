//! Flash attention, forward: the layout BNSD, a mask of all scores (sparse mode 0), no shift, no dropout.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::FLOATS;
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{Operands, check_dtype, check_shape, phase_one};
use crate::ops::attention::{Head, Sizes, head};
use crate::tensor::Tensor;

/// Batch, heads, length, width.
fn axes(name: &str, tensor: &Tensor) -> Outcome<[usize; 4]> {
    let [batch, heads, length, width] = tensor.shape[..] else {
        crate::error::fail!(
            ACLNN_ERR_PARAM_INVALID,
            "{name} has {} axes; BNSD has 4",
            tensor.rank()
        )
    };
    Ok([batch, heads, length, width])
}

/// What the operator says of sizes.
fn check_sizes([batch, heads, length, width]: [usize; 4]) -> Outcome<()> {
    for (name, size, most) in [
        ("B", batch, 2 << 20),
        ("N", heads, 256),
        ("S", length, 1 << 20),
        ("D", width, 768),
    ] {
        ensure!(
            (1..=most).contains(&size),
            ACLNN_ERR_INNER_TILING_ERROR,
            "{name} is {size}; it takes 1 to {most}"
        );
    }
    Ok(())
}

/// The mask of all scores, by broadcasting.
fn take_mask(
    operands: &mut Operands,
    mask: *const aclTensor,
    [batch, heads, queries, keys]: [usize; 4],
) -> Outcome<bool> {
    let Some(mask) = operands.optional("attenMaskOptional", mask)? else {
        return Ok(false);
    };
    check_dtype("attenMaskOptional", &mask, &[ACL_BOOL, ACL_UINT8])?;
    let shapes: [&[usize]; 4] = [
        &[batch, heads, queries, keys],
        &[batch, 1, queries, keys],
        &[1, 1, queries, keys],
        &[queries, keys],
    ];
    ensure!(
        shapes.contains(&&mask.shape[..]),
        ACLNN_ERR_INNER_TILING_ERROR,
        "attenMaskOptional has the shape {:?}; one of {shapes:?} is needed",
        mask.shape
    );
    Ok(true)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreGetWorkspaceSize(
    query: *const aclTensor,
    key: *const aclTensor,
    value: *const aclTensor,
    shift: *const aclTensor,
    drop_mask: *const aclTensor,
    padding_mask: *const aclTensor,
    mask: *const aclTensor,
    prefix: *const aclIntArray,
    scale: f64,
    keep: f64,
    before: i64,
    after: i64,
    head_count: i64,
    layout: *mut c_char,
    inner_precise: i64,
    sparse_mode: i64,
    greatest: *const aclTensor,
    sums: *const aclTensor,
    reserved: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let operator = "aclnnFlashAttentionScore";
    phase_one(operator, workspace_size, executor, |operands| {
        ensure!(
            !layout.is_null(),
            ACLNN_ERR_PARAM_NULLPTR,
            "inputLayout is NULL"
        );
        // SAFETY: not NULL, so a string, as CANN asks.
        let layout = unsafe { CStr::from_ptr(layout) };
        let plain = shift.is_null() && drop_mask.is_null() && padding_mask.is_null();
        let whole = prefix.is_null() && reserved.is_null() && sparse_mode == 0 && keep == 1.0;
        ensure!(
            layout == c"BNSD" && plain && whole,
            ACLNN_ERR_PARAM_INVALID,
            "only the layout BNSD is emulated, without shift, dropout, padding and prefix, in sparse mode 0"
        );
        let query = operands.view("query", query, FLOATS)?;
        let key = operands.view("key", key, &[query.dtype])?;
        let value = operands.view("value", value, &[query.dtype])?;
        let [batch, heads, queries, width] = axes("query", &query)?;
        let [_, key_heads, keys, _] = axes("key", &key)?;
        check_sizes([batch, heads, queries, width])?;
        check_sizes([batch, key_heads, keys, width])?;
        ensure!(
            head_count == heads as i64 && heads % key_heads == 0,
            ACLNN_ERR_PARAM_INVALID,
            "headNum is {head_count} for {heads} heads of the query and {key_heads} of the key"
        );
        for (name, tensor) in [("key", &key), ("value", &value)] {
            check_shape(name, tensor, &[batch, key_heads, keys, width])?;
        }
        let masked = take_mask(operands, mask, [batch, heads, queries, keys])?;
        ensure!(
            !masked || before >= queries as i64 && after >= keys as i64,
            ACLNN_ERR_PARAM_INVALID,
            "preTokens {before} and nextTokens {after} leave out scores, which is not emulated"
        );
        for (name, tensor) in [("softmaxMaxOut", greatest), ("softmaxSumOut", sums)] {
            operands.result(name, tensor, ACL_FLOAT, &[batch, heads, queries, 8])?;
        }
        operands.result("attentionOutOut", output, query.dtype, &query.shape)?;
        let sizes = Sizes {
            queries,
            keys,
            width,
        };
        Ok(Arc::new(move |memory, operands| {
            let [query, key, value, mask @ .., greatest, sums, output] = operands else {
                unreachable!("taken above")
            };
            let [query, key, value] = [query, key, value].map(|tensor| tensor.floats(memory));
            let (query, key, value) = (query?, key?, value?);
            let mask = match mask {
                [mask] => Some(
                    mask.expanded(&[batch, heads, queries, keys])
                        .integers(memory)?,
                ),
                _ => None,
            };
            let mask: Option<Vec<bool>> =
                mask.map(|mask| mask.into_iter().map(|place| place != 0).collect());
            let found = (0..batch * heads).map(|at| {
                let (own, shared) = (queries * width, keys * width);
                // Neighbouring heads of the query share one of the key.
                let other = at / heads * key_heads + at % heads / (heads / key_heads);
                let mask = mask
                    .as_ref()
                    .map(|mask| &mask[at * queries * keys..][..queries * keys]);
                head(
                    [
                        &query[at * own..][..own],
                        &key[other * shared..][..shared],
                        &value[other * shared..][..shared],
                    ],
                    mask,
                    sizes,
                    scale as f32,
                    inner_precise == 2,
                )
            });
            let found: Vec<Head> = found.collect();
            let eight = |of: fn(&Head) -> &[f32]| -> Vec<f32> {
                let rows = found.iter().flat_map(of);
                rows.flat_map(|value| [*value; 8]).collect()
            };
            greatest.store(memory, &eight(|head| &head.greatest))?;
            sums.store(memory, &eight(|head| &head.sums))?;
            let values: Vec<f32> = found
                .iter()
                .flat_map(|head| &head.output)
                .copied()
                .collect();
            output.store(memory, &values)
        }))
    })
}

operators! { attention:
    aclnnFlashAttentionScoreGetWorkspaceSize, aclnnFlashAttentionScore;
}
