//! Attention of sequences of several lengths, with the layout TND.

use std::ptr::null;

use super::call::{Attributes, Call, absent};
use super::{backward, forward};
use crate::abi::prelude::*;

operator! { attention:
    aclnnFlashAttentionVarLenScoreGetWorkspaceSize, aclnnFlashAttentionVarLenScore(
    query, key, value, shifts, drop, padding, mask, prefix, q_ends, kv_ends, scale, keep, before,
    behind, heads, layout, _precision, mode, most, total, _softmax, out
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: None };
    let call = Call {
        absent: absent! { realShift: shifts, dropMask: drop, paddingMask: padding },
        mask,
        prefix,
        ends: Some([q_ends, kv_ends]),
        ..Call::forward([query, key, value], [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { forward(operands, &call) }
}

operator! { attention:
    aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize, aclnnFlashAttentionUnpaddingScoreGrad(
    query, key, value, dy, shifts, drop, padding, mask, most, total, _softmax, out, prefix, q_ends,
    kv_ends, scale, keep, before, behind, heads, layout, _precision, mode, dq, dk, dv, _d_shifts
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: None };
    let call = Call {
        absent: absent! { pseShift: shifts, dropMask: drop, paddingMask: padding },
        mask,
        prefix,
        ends: Some([q_ends, kv_ends]),
        ..Call::backward([query, key, value], dy, [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { backward(operands, &call, [dq, dk, dv, null()]) }
}
