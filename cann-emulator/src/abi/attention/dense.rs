//! Attention of sequences of one length: the first version, and version 3, which has sinks.

use std::ffi::c_char;
use std::ptr::null;

use cann_sys::meta::*;

use super::call::{Attributes, Call};
use super::{backward, forward};
use crate::abi::checks::FLOATS;
use crate::abi::operators;

/// The dtypes of the third gradient.
const HALVES: &[aclDataType] = &[ACL_FLOAT16, ACL_BF16];

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreGetWorkspaceSize(
    query: *const aclTensor,
    key: *const aclTensor,
    fill: *const aclTensor,
    real_shift_or_null: *const aclTensor,
    drop_mask_or_null: *const aclTensor,
    padding_mask_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    prefix_or_null: *const aclIntArray,
    scale_value: f64,
    keep_prob: f64,
    pre_tokens: i64,
    next_tokens: i64,
    head_num: i64,
    input_layout: *mut c_char,
    _inner_precise: i64,
    sparse_mode: i64,
    softmax_max_out: *const aclTensor,
    softmax_sum_out: *const aclTensor,
    _softmax_out_out: *const aclTensor,
    attention_out_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let call = Call {
        inputs: [query, key, fill],
        dtypes: FLOATS,
        dy: None,
        absent: vec![
            ("realShift", !real_shift_or_null.is_null()),
            ("dropMask", !drop_mask_or_null.is_null()),
            ("paddingMask", !padding_mask_or_null.is_null()),
        ],
        mask: atten_mask_or_null,
        prefix: prefix_or_null,
        sinks: None,
        ends: None,
        attended: [
            ("softmaxMax", softmax_max_out),
            ("softmaxSum", softmax_sum_out),
            ("attentionOut", attention_out_out),
        ],
        attributes: Attributes {
            scale: scale_value,
            keep: keep_prob,
            before: pre_tokens,
            behind: next_tokens,
            heads: head_num,
            layout: input_layout,
            mode: sparse_mode,
            shift: None,
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe { forward("aclnnFlashAttentionScore", &call, workspace_size, executor) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreGradGetWorkspaceSize(
    query: *const aclTensor,
    key_in: *const aclTensor,
    fill: *const aclTensor,
    dy: *const aclTensor,
    pse_shift_or_null: *const aclTensor,
    drop_mask_or_null: *const aclTensor,
    padding_mask_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    softmax_max_or_null: *const aclTensor,
    softmax_sum_or_null: *const aclTensor,
    _softmax_in_or_null: *const aclTensor,
    attention_in_or_null: *const aclTensor,
    prefix_or_null: *const aclIntArray,
    scale_value: f64,
    keep_prob: f64,
    pre_tokens: i64,
    next_tokens: i64,
    head_num: i64,
    input_layout: *mut c_char,
    _inner_precise: i64,
    sparse_mode: i64,
    dq_out: *const aclTensor,
    dk_out: *const aclTensor,
    dv_out: *const aclTensor,
    _dpse_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let call = Call {
        inputs: [query, key_in, fill],
        dtypes: FLOATS,
        dy: Some(dy),
        absent: vec![
            ("pseShift", !pse_shift_or_null.is_null()),
            ("dropMask", !drop_mask_or_null.is_null()),
            ("paddingMask", !padding_mask_or_null.is_null()),
        ],
        mask: atten_mask_or_null,
        prefix: prefix_or_null,
        sinks: None,
        ends: None,
        attended: [
            ("softmaxMax", softmax_max_or_null),
            ("softmaxSum", softmax_sum_or_null),
            ("attentionIn", attention_in_or_null),
        ],
        attributes: Attributes {
            scale: scale_value,
            keep: keep_prob,
            before: pre_tokens,
            behind: next_tokens,
            heads: head_num,
            layout: input_layout,
            mode: sparse_mode,
            shift: None,
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        backward(
            "aclnnFlashAttentionScoreGrad",
            &call,
            [dq_out, dk_out, dv_out, null()],
            workspace_size,
            executor,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreV3GetWorkspaceSize(
    query: *const aclTensor,
    key: *const aclTensor,
    fill: *const aclTensor,
    real_shift_or_null: *const aclTensor,
    drop_mask_or_null: *const aclTensor,
    padding_mask_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    sink_or_null: *const aclTensor,
    prefix_or_null: *const aclIntArray,
    q_start_idx_or_null: *const aclIntArray,
    kv_start_idx_or_null: *const aclIntArray,
    scale_value: f64,
    keep_prob: f64,
    pre_tokens: i64,
    next_tokens: i64,
    head_num: i64,
    input_layout: *mut c_char,
    _inner_precise: i64,
    sparse_mode: i64,
    pse_type: i64,
    softmax_max_out: *const aclTensor,
    softmax_sum_out: *const aclTensor,
    _softmax_out_out: *const aclTensor,
    attention_out_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let call = Call {
        inputs: [query, key, fill],
        dtypes: FLOATS,
        dy: None,
        absent: vec![
            ("realShift", !real_shift_or_null.is_null()),
            ("dropMask", !drop_mask_or_null.is_null()),
            ("paddingMask", !padding_mask_or_null.is_null()),
            ("qStartIdx", !q_start_idx_or_null.is_null()),
            ("kvStartIdx", !kv_start_idx_or_null.is_null()),
        ],
        mask: atten_mask_or_null,
        prefix: prefix_or_null,
        sinks: Some(sink_or_null),
        ends: None,
        attended: [
            ("softmaxMax", softmax_max_out),
            ("softmaxSum", softmax_sum_out),
            ("attentionOut", attention_out_out),
        ],
        attributes: Attributes {
            scale: scale_value,
            keep: keep_prob,
            before: pre_tokens,
            behind: next_tokens,
            heads: head_num,
            layout: input_layout,
            mode: sparse_mode,
            shift: Some(pse_type),
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        forward(
            "aclnnFlashAttentionScoreV3",
            &call,
            workspace_size,
            executor,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreGradV3GetWorkspaceSize(
    query: *const aclTensor,
    key_in: *const aclTensor,
    fill: *const aclTensor,
    dy: *const aclTensor,
    pse_shift_or_null: *const aclTensor,
    drop_mask_or_null: *const aclTensor,
    padding_mask_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    softmax_max_or_null: *const aclTensor,
    softmax_sum_or_null: *const aclTensor,
    _softmax_in_or_null: *const aclTensor,
    attention_in_or_null: *const aclTensor,
    sink_in_or_null: *const aclTensor,
    prefix_or_null: *const aclIntArray,
    q_start_idx_or_null: *const aclIntArray,
    kv_start_idx_or_null: *const aclIntArray,
    scale_value: f64,
    keep_prob: f64,
    pre_tokens: i64,
    next_tokens: i64,
    head_num: i64,
    input_layout: *mut c_char,
    _inner_precise: i64,
    sparse_mode: i64,
    pse_type: i64,
    dq_out: *const aclTensor,
    dk_out: *const aclTensor,
    dv_out: *const aclTensor,
    _dpse_out: *const aclTensor,
    dsink_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let call = Call {
        inputs: [query, key_in, fill],
        dtypes: HALVES,
        dy: Some(dy),
        absent: vec![
            ("pseShift", !pse_shift_or_null.is_null()),
            ("dropMask", !drop_mask_or_null.is_null()),
            ("paddingMask", !padding_mask_or_null.is_null()),
            ("qStartIdx", !q_start_idx_or_null.is_null()),
            ("kvStartIdx", !kv_start_idx_or_null.is_null()),
        ],
        mask: atten_mask_or_null,
        prefix: prefix_or_null,
        sinks: Some(sink_in_or_null),
        ends: None,
        attended: [
            ("softmaxMax", softmax_max_or_null),
            ("softmaxSum", softmax_sum_or_null),
            ("attentionIn", attention_in_or_null),
        ],
        attributes: Attributes {
            scale: scale_value,
            keep: keep_prob,
            before: pre_tokens,
            behind: next_tokens,
            heads: head_num,
            layout: input_layout,
            mode: sparse_mode,
            shift: Some(pse_type),
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        backward(
            "aclnnFlashAttentionScoreGradV3",
            &call,
            [dq_out, dk_out, dv_out, dsink_out],
            workspace_size,
            executor,
        )
    }
}

operators! { attention:
    aclnnFlashAttentionScoreGetWorkspaceSize, aclnnFlashAttentionScore;
    aclnnFlashAttentionScoreGradGetWorkspaceSize, aclnnFlashAttentionScoreGrad;
    aclnnFlashAttentionScoreV3GetWorkspaceSize, aclnnFlashAttentionScoreV3;
    aclnnFlashAttentionScoreGradV3GetWorkspaceSize, aclnnFlashAttentionScoreGradV3;
}
