//! Version 2 of all four: the first version with a kind of shifts and the starts of shifts, which are not emulated.

use std::ptr::null;

use super::call::{Attributes, Call, absent};
use super::{backward, forward};
use crate::abi::prelude::*;

operator! { attention: aclnnFlashAttentionScoreV2GetWorkspaceSize, aclnnFlashAttentionScoreV2(
    query, key, value, shifts, drop, padding, mask, prefix, q_start, kv_start, scale, keep, before,
    behind, heads, layout, _precision, mode, shift, most, total, _softmax, out
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: Some(shift) };
    let call = Call {
        absent: absent! {
            realShift: shifts, dropMask: drop, paddingMask: padding, qStartIdx: q_start,
            kvStartIdx: kv_start
        },
        mask,
        prefix,
        ..Call::forward([query, key, value], [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { forward(operands, &call) }
}

operator! { attention:
    aclnnFlashAttentionScoreGradV2GetWorkspaceSize, aclnnFlashAttentionScoreGradV2(
    query, key, value, dy, shifts, drop, padding, mask, most, total, _softmax, out, prefix, q_start,
    kv_start, scale, keep, before, behind, heads, layout, _precision, mode, shift, dq, dk, dv,
    _d_shifts
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: Some(shift) };
    let call = Call {
        absent: absent! {
            pseShift: shifts, dropMask: drop, paddingMask: padding, qStartIdx: q_start,
            kvStartIdx: kv_start
        },
        mask,
        prefix,
        ..Call::backward([query, key, value], dy, [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { backward(operands, &call, [dq, dk, dv, null()]) }
}

operator! { attention:
    aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize, aclnnFlashAttentionVarLenScoreV2(
    query, key, value, shifts, drop, padding, mask, prefix, q_ends, kv_ends, q_start, kv_start,
    scale, keep, before, behind, heads, layout, _precision, mode, shift, most, total, _softmax, out
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: Some(shift) };
    let call = Call {
        absent: absent! {
            realShift: shifts, dropMask: drop, paddingMask: padding, qStartIdx: q_start,
            kvStartIdx: kv_start
        },
        mask,
        prefix,
        ends: Some([q_ends, kv_ends]),
        ..Call::forward([query, key, value], [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { forward(operands, &call) }
}

operator! { attention:
    aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize, aclnnFlashAttentionUnpaddingScoreGradV2(
    query, key, value, dy, shifts, drop, padding, mask, most, total, _softmax, out, prefix, q_ends,
    kv_ends, q_start, kv_start, scale, keep, before, behind, heads, layout, _precision, mode, shift,
    dq, dk, dv, _d_shifts
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: Some(shift) };
    let call = Call {
        absent: absent! {
            pseShift: shifts, dropMask: drop, paddingMask: padding, qStartIdx: q_start,
            kvStartIdx: kv_start
        },
        mask,
        prefix,
        ends: Some([q_ends, kv_ends]),
        ..Call::backward([query, key, value], dy, [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { backward(operands, &call, [dq, dk, dv, null()]) }
}
