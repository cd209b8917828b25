//! Version 2 of all four: the first version with a kind of shifts and the starts of shifts, which are not emulated.

use std::ffi::c_char;
use std::ptr::null;

use cann_sys::meta::*;

use super::call::{Attributes, Call};
use super::{backward, forward};
use crate::abi::checks::FLOATS;
use crate::abi::operators;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreV2GetWorkspaceSize(
    query: *const aclTensor,
    key: *const aclTensor,
    fill: *const aclTensor,
    real_shift_or_null: *const aclTensor,
    drop_mask_or_null: *const aclTensor,
    padding_mask_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
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
            shift: Some(pse_type),
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        forward(
            "aclnnFlashAttentionScoreV2",
            &call,
            workspace_size,
            executor,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreGradV2GetWorkspaceSize(
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
            ("qStartIdx", !q_start_idx_or_null.is_null()),
            ("kvStartIdx", !kv_start_idx_or_null.is_null()),
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
            shift: Some(pse_type),
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        backward(
            "aclnnFlashAttentionScoreGradV2",
            &call,
            [dq_out, dk_out, dv_out, null()],
            workspace_size,
            executor,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize(
    query: *const aclTensor,
    key: *const aclTensor,
    fill: *const aclTensor,
    real_shift_or_null: *const aclTensor,
    drop_mask_or_null: *const aclTensor,
    padding_mask_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    prefix_or_null: *const aclIntArray,
    actual_seq_qlen_or_null: *const aclIntArray,
    actual_seq_kv_len_or_null: *const aclIntArray,
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
        sinks: None,
        ends: Some([actual_seq_qlen_or_null, actual_seq_kv_len_or_null]),
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
            "aclnnFlashAttentionVarLenScoreV2",
            &call,
            workspace_size,
            executor,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
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
    actual_seq_qlen_or_null: *const aclIntArray,
    actual_seq_kv_len_or_null: *const aclIntArray,
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
            ("qStartIdx", !q_start_idx_or_null.is_null()),
            ("kvStartIdx", !kv_start_idx_or_null.is_null()),
        ],
        mask: atten_mask_or_null,
        prefix: prefix_or_null,
        sinks: None,
        ends: Some([actual_seq_qlen_or_null, actual_seq_kv_len_or_null]),
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
            "aclnnFlashAttentionUnpaddingScoreGradV2",
            &call,
            [dq_out, dk_out, dv_out, null()],
            workspace_size,
            executor,
        )
    }
}

operators! { attention:
    aclnnFlashAttentionScoreV2GetWorkspaceSize, aclnnFlashAttentionScoreV2;
    aclnnFlashAttentionScoreGradV2GetWorkspaceSize, aclnnFlashAttentionScoreGradV2;
    aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize, aclnnFlashAttentionVarLenScoreV2;
    aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize, aclnnFlashAttentionUnpaddingScoreGradV2;
}
