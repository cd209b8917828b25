//! Attention of sequences of several lengths, with the layout TND.

use std::ffi::c_char;
use std::ptr::null;

use cann_sys::meta::*;

use super::call::{Attributes, Call};
use super::{backward, forward};
use crate::abi::checks::FLOATS;
use crate::abi::operators;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
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
            shift: None,
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        forward(
            "aclnnFlashAttentionVarLenScore",
            &call,
            workspace_size,
            executor,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
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
            shift: None,
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        backward(
            "aclnnFlashAttentionUnpaddingScoreGrad",
            &call,
            [dq_out, dk_out, dv_out, null()],
            workspace_size,
            executor,
        )
    }
}

operators! { attention:
    aclnnFlashAttentionVarLenScoreGetWorkspaceSize, aclnnFlashAttentionVarLenScore;
    aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize, aclnnFlashAttentionUnpaddingScoreGrad;
}
