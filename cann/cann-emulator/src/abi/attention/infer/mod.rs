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

use self::call::{Attributes, Call};
use super::call::absent;
use crate::abi::prelude::*;

operator! { attention:
    aclnnFusedInferAttentionScoreV3GetWorkspaceSize, aclnnFusedInferAttentionScoreV3(
    query, key, value, shifts, mask, q_lengths, kv_lengths, deq1, quant1, deq2, quant2,
    quant_offset2, antiquant, antiquant_offset, block_table, query_padding, padding, key_antiquant,
    key_offset, value_antiquant, value_offset, key_prefix, value_prefix, prefix_length, query_rope,
    key_rope, key_rope_antiquant, heads, scale, before, behind, layout, groups, mode, precision,
    block_size, antiquant_mode, wants_lse, key_mode, value_mode, output, lse
) |operands|
    let attributes = Attributes {
        heads, groups, scale, before, behind, layout, mode, precision,
        zeros: vec![
            ("blockSize", block_size),
            ("antiquantMode", antiquant_mode),
            ("keyAntiquantMode", key_mode),
            ("valueAntiquantMode", value_mode),
        ],
    };
    let call = Call {
        query, key, value, mask, padding, output, attributes,
        absent: absent! {
            pseShift: shifts, deqScale1: deq1, quantScale1: quant1, deqScale2: deq2,
            quantScale2: quant2, quantOffset2: quant_offset2, antiquantScale: antiquant,
            antiquantOffset: antiquant_offset, blockTable: block_table,
            queryPaddingSize: query_padding, keyAntiquantScale: key_antiquant,
            keyAntiquantOffset: key_offset, valueAntiquantScale: value_antiquant,
            valueAntiquantOffset: value_offset, keySharedPrefix: key_prefix,
            valueSharedPrefix: value_prefix, actualSharedPrefixLen: prefix_length,
            queryRope: query_rope, keyRope: key_rope, keyRopeAntiquantScale: key_rope_antiquant
        },
        lengths: [q_lengths, kv_lengths],
        sinks: None,
        lse: wants_lse.then_some(lse),
    };
    // SAFETY: the caller guarantees the text.
    unsafe { plan(operands, &call) }
}

operator! { attention:
    aclnnFusedInferAttentionScoreV4GetWorkspaceSize, aclnnFusedInferAttentionScoreV4(
    query, key, value, shifts, mask, q_lengths, kv_lengths, deq1, quant1, deq2, quant2,
    quant_offset2, antiquant, antiquant_offset, block_table, query_padding, padding, key_antiquant,
    key_offset, value_antiquant, value_offset, key_prefix, value_prefix, prefix_length, query_rope,
    key_rope, key_rope_antiquant, deq_query, sinks, heads, scale, before, behind, layout, groups,
    mode, precision, block_size, antiquant_mode, wants_lse, key_mode, value_mode, query_mode,
    output, lse
) |operands|
    let attributes = Attributes {
        heads, groups, scale, before, behind, layout, mode, precision,
        zeros: vec![
            ("blockSize", block_size),
            ("antiquantMode", antiquant_mode),
            ("keyAntiquantMode", key_mode),
            ("valueAntiquantMode", value_mode),
            ("queryQuantMode", query_mode),
        ],
    };
    let call = Call {
        query, key, value, mask, padding, output, attributes,
        absent: absent! {
            pseShift: shifts, deqScale1: deq1, quantScale1: quant1, deqScale2: deq2,
            quantScale2: quant2, quantOffset2: quant_offset2, antiquantScale: antiquant,
            antiquantOffset: antiquant_offset, blockTable: block_table,
            queryPaddingSize: query_padding, keyAntiquantScale: key_antiquant,
            keyAntiquantOffset: key_offset, valueAntiquantScale: value_antiquant,
            valueAntiquantOffset: value_offset, keySharedPrefix: key_prefix,
            valueSharedPrefix: value_prefix, actualSharedPrefixLen: prefix_length,
            queryRope: query_rope, keyRope: key_rope, keyRopeAntiquantScale: key_rope_antiquant,
            dequantScaleQuery: deq_query
        },
        lengths: [q_lengths, kv_lengths],
        sinks: Some(sinks),
        lse: wants_lse.then_some(lse),
    };
    // SAFETY: the caller guarantees the text.
    unsafe { plan(operands, &call) }
}

/// Takes the operands.
///
/// # Safety
///
/// The layout's text must end with a zero byte.
unsafe fn plan(operands: &mut Operands, call: &Call) -> Outcome<Work> {
    // SAFETY: the caller guarantees the text.
    let plan = unsafe { call.take(operands) }?;
    Ok(Arc::new(move |memory, operands| plan.run(memory, operands)))
}
