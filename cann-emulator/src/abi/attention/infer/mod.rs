//! Attention of an inference call, with few queries over many keys: versions 3 and 4, which has sinks.
//!
//! The layouts are BSND and BNSD, and the dtypes f16 and bf16. Tensors are contiguous, as CANN needs them. Keys may be
//! hidden by the lengths of the sequences, by padding on the left, and by a mask with the sparse modes 0 to 4. Quantised
//! tensors, shifts, pages of keys, shared prefixes and parts with rotary positions are not emulated; a call with one is
//! refused.
//!
//! A row without visible keys is NaN, because CANN does not define it, unless CANN repairs such rows or the sequence has
//! no keys at all. The logarithm of its sum is infinite. Rows behind the last query of a sequence are left as they are.

mod call;
mod lengths;
mod mask;
mod tensors;
mod work;

use std::ffi::c_char;
use std::sync::Arc;

use cann_sys::meta::*;

use self::call::{Attributes, Call};
use crate::abi::operators;
use crate::executor::phase_one;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFusedInferAttentionScoreV3GetWorkspaceSize(
    query: *const aclTensor,
    key: *const aclTensorList,
    value: *const aclTensorList,
    pse_shift_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    actual_seq_lengths_or_null: *const aclIntArray,
    actual_seq_lengths_kv_or_null: *const aclIntArray,
    deq_scale1_or_null: *const aclTensor,
    quant_scale1_or_null: *const aclTensor,
    deq_scale2_or_null: *const aclTensor,
    quant_scale2_or_null: *const aclTensor,
    quant_offset2_or_null: *const aclTensor,
    antiquant_scale_or_null: *const aclTensor,
    antiquant_offset_or_null: *const aclTensor,
    block_table_or_null: *const aclTensor,
    query_padding_size_or_null: *const aclTensor,
    kv_padding_size_or_null: *const aclTensor,
    key_antiquant_scale_or_null: *const aclTensor,
    key_antiquant_offset_or_null: *const aclTensor,
    value_antiquant_scale_or_null: *const aclTensor,
    value_antiquant_offset_or_null: *const aclTensor,
    key_shared_prefix_or_null: *const aclTensor,
    value_shared_prefix_or_null: *const aclTensor,
    actual_shared_prefix_len_or_null: *const aclIntArray,
    query_rope_or_null: *const aclTensor,
    key_rope_or_null: *const aclTensor,
    key_rope_antiquant_scale_or_null: *const aclTensor,
    num_heads: i64,
    scale_value: f64,
    pre_tokens: i64,
    next_tokens: i64,
    input_layout: *mut c_char,
    num_key_value_heads: i64,
    sparse_mode: i64,
    inner_precise: i64,
    block_size: i64,
    antiquant_mode: i64,
    softmax_lse_flag: bool,
    key_antiquant_mode: i64,
    value_antiquant_mode: i64,
    attention_out: *const aclTensor,
    softmax_lse: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let call = Call {
        query,
        key,
        value,
        absent: vec![
            ("pseShift", !pse_shift_or_null.is_null()),
            ("deqScale1", !deq_scale1_or_null.is_null()),
            ("quantScale1", !quant_scale1_or_null.is_null()),
            ("deqScale2", !deq_scale2_or_null.is_null()),
            ("quantScale2", !quant_scale2_or_null.is_null()),
            ("quantOffset2", !quant_offset2_or_null.is_null()),
            ("antiquantScale", !antiquant_scale_or_null.is_null()),
            ("antiquantOffset", !antiquant_offset_or_null.is_null()),
            ("blockTable", !block_table_or_null.is_null()),
            ("queryPaddingSize", !query_padding_size_or_null.is_null()),
            ("keyAntiquantScale", !key_antiquant_scale_or_null.is_null()),
            (
                "keyAntiquantOffset",
                !key_antiquant_offset_or_null.is_null(),
            ),
            (
                "valueAntiquantScale",
                !value_antiquant_scale_or_null.is_null(),
            ),
            (
                "valueAntiquantOffset",
                !value_antiquant_offset_or_null.is_null(),
            ),
            ("keySharedPrefix", !key_shared_prefix_or_null.is_null()),
            ("valueSharedPrefix", !value_shared_prefix_or_null.is_null()),
            (
                "actualSharedPrefixLen",
                !actual_shared_prefix_len_or_null.is_null(),
            ),
            ("queryRope", !query_rope_or_null.is_null()),
            ("keyRope", !key_rope_or_null.is_null()),
            (
                "keyRopeAntiquantScale",
                !key_rope_antiquant_scale_or_null.is_null(),
            ),
        ],
        mask: atten_mask_or_null,
        lengths: [actual_seq_lengths_or_null, actual_seq_lengths_kv_or_null],
        padding: kv_padding_size_or_null,
        sinks: None,
        output: attention_out,
        lse: softmax_lse_flag.then_some(softmax_lse),
        attributes: Attributes {
            heads: num_heads,
            groups: num_key_value_heads,
            scale: scale_value,
            before: pre_tokens,
            behind: next_tokens,
            layout: input_layout,
            mode: sparse_mode,
            precision: inner_precise,
            zeros: vec![
                ("blockSize", block_size),
                ("antiquantMode", antiquant_mode),
                ("keyAntiquantMode", key_antiquant_mode),
                ("valueAntiquantMode", value_antiquant_mode),
            ],
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        plan(
            "aclnnFusedInferAttentionScoreV3",
            &call,
            workspace_size,
            executor,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFusedInferAttentionScoreV4GetWorkspaceSize(
    query: *const aclTensor,
    key: *const aclTensorList,
    value: *const aclTensorList,
    pse_shift_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    actual_seq_lengths_or_null: *const aclIntArray,
    actual_seq_lengths_kv_or_null: *const aclIntArray,
    deq_scale1_or_null: *const aclTensor,
    quant_scale1_or_null: *const aclTensor,
    deq_scale2_or_null: *const aclTensor,
    quant_scale2_or_null: *const aclTensor,
    quant_offset2_or_null: *const aclTensor,
    antiquant_scale_or_null: *const aclTensor,
    antiquant_offset_or_null: *const aclTensor,
    block_table_or_null: *const aclTensor,
    query_padding_size_or_null: *const aclTensor,
    kv_padding_size_or_null: *const aclTensor,
    key_antiquant_scale_or_null: *const aclTensor,
    key_antiquant_offset_or_null: *const aclTensor,
    value_antiquant_scale_or_null: *const aclTensor,
    value_antiquant_offset_or_null: *const aclTensor,
    key_shared_prefix_or_null: *const aclTensor,
    value_shared_prefix_or_null: *const aclTensor,
    actual_shared_prefix_len_or_null: *const aclIntArray,
    query_rope_or_null: *const aclTensor,
    key_rope_or_null: *const aclTensor,
    key_rope_antiquant_scale_or_null: *const aclTensor,
    dequant_scale_query_or_null: *const aclTensor,
    learnable_sink_or_null: *const aclTensor,
    num_heads: i64,
    scale_value: f64,
    pre_tokens: i64,
    next_tokens: i64,
    input_layout: *mut c_char,
    num_key_value_heads: i64,
    sparse_mode: i64,
    inner_precise: i64,
    block_size: i64,
    antiquant_mode: i64,
    softmax_lse_flag: bool,
    key_antiquant_mode: i64,
    value_antiquant_mode: i64,
    query_quant_mode: i64,
    attention_out: *const aclTensor,
    softmax_lse: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let call = Call {
        query,
        key,
        value,
        absent: vec![
            ("pseShift", !pse_shift_or_null.is_null()),
            ("deqScale1", !deq_scale1_or_null.is_null()),
            ("quantScale1", !quant_scale1_or_null.is_null()),
            ("deqScale2", !deq_scale2_or_null.is_null()),
            ("quantScale2", !quant_scale2_or_null.is_null()),
            ("quantOffset2", !quant_offset2_or_null.is_null()),
            ("antiquantScale", !antiquant_scale_or_null.is_null()),
            ("antiquantOffset", !antiquant_offset_or_null.is_null()),
            ("blockTable", !block_table_or_null.is_null()),
            ("queryPaddingSize", !query_padding_size_or_null.is_null()),
            ("keyAntiquantScale", !key_antiquant_scale_or_null.is_null()),
            (
                "keyAntiquantOffset",
                !key_antiquant_offset_or_null.is_null(),
            ),
            (
                "valueAntiquantScale",
                !value_antiquant_scale_or_null.is_null(),
            ),
            (
                "valueAntiquantOffset",
                !value_antiquant_offset_or_null.is_null(),
            ),
            ("keySharedPrefix", !key_shared_prefix_or_null.is_null()),
            ("valueSharedPrefix", !value_shared_prefix_or_null.is_null()),
            (
                "actualSharedPrefixLen",
                !actual_shared_prefix_len_or_null.is_null(),
            ),
            ("queryRope", !query_rope_or_null.is_null()),
            ("keyRope", !key_rope_or_null.is_null()),
            (
                "keyRopeAntiquantScale",
                !key_rope_antiquant_scale_or_null.is_null(),
            ),
            ("dequantScaleQuery", !dequant_scale_query_or_null.is_null()),
        ],
        mask: atten_mask_or_null,
        lengths: [actual_seq_lengths_or_null, actual_seq_lengths_kv_or_null],
        padding: kv_padding_size_or_null,
        sinks: Some(learnable_sink_or_null),
        output: attention_out,
        lse: softmax_lse_flag.then_some(softmax_lse),
        attributes: Attributes {
            heads: num_heads,
            groups: num_key_value_heads,
            scale: scale_value,
            before: pre_tokens,
            behind: next_tokens,
            layout: input_layout,
            mode: sparse_mode,
            precision: inner_precise,
            zeros: vec![
                ("blockSize", block_size),
                ("antiquantMode", antiquant_mode),
                ("keyAntiquantMode", key_antiquant_mode),
                ("valueAntiquantMode", value_antiquant_mode),
                ("queryQuantMode", query_quant_mode),
            ],
        },
    };
    // SAFETY: the caller guarantees the text.
    unsafe {
        plan(
            "aclnnFusedInferAttentionScoreV4",
            &call,
            workspace_size,
            executor,
        )
    }
}

/// Runs phase one.
///
/// # Safety
///
/// The layout's text must end with a zero byte.
unsafe fn plan(
    operator: &'static str,
    call: &Call,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one(operator, workspace_size, executor, |operands| {
        // SAFETY: the caller guarantees the text.
        let plan = unsafe { call.take(operands) }?;
        Ok(Arc::new(move |memory, operands| plan.run(memory, operands)))
    })
}

operators! { attention:
    aclnnFusedInferAttentionScoreV3GetWorkspaceSize, aclnnFusedInferAttentionScoreV3;
    aclnnFusedInferAttentionScoreV4GetWorkspaceSize, aclnnFusedInferAttentionScoreV4;
}
