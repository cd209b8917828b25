//! Attention of sequences of one length: the first version, and version 3, which has sinks.

use std::ptr::null;

use super::call::{Attributes, Call, absent};
use super::{backward, forward};
use crate::abi::prelude::*;

/// The dtypes of the third gradient.
const HALVES: &[aclDataType] = &[ACL_FLOAT16, ACL_BF16];

operator! { attention: aclnnFlashAttentionScoreGetWorkspaceSize, aclnnFlashAttentionScore(
    query, key, value, shifts, drop, padding, mask, prefix, scale, keep, before, behind, heads,
    layout, _precision, mode, most, total, _softmax, out
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: None };
    let call = Call {
        absent: absent! { realShift: shifts, dropMask: drop, paddingMask: padding },
        mask,
        prefix,
        ..Call::forward([query, key, value], [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { forward(operands, &call) }
}

operator! { attention: aclnnFlashAttentionScoreGradGetWorkspaceSize, aclnnFlashAttentionScoreGrad(
    query, key, value, dy, shifts, drop, padding, mask, most, total, _softmax, out, prefix, scale,
    keep, before, behind, heads, layout, _precision, mode, dq, dk, dv, _d_shifts
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: None };
    let call = Call {
        absent: absent! { pseShift: shifts, dropMask: drop, paddingMask: padding },
        mask,
        prefix,
        ..Call::backward([query, key, value], dy, [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { backward(operands, &call, [dq, dk, dv, null()]) }
}

operator! { attention: aclnnFlashAttentionScoreV3GetWorkspaceSize, aclnnFlashAttentionScoreV3(
    query, key, value, shifts, drop, padding, mask, sinks, prefix, q_start, kv_start, scale, keep,
    before, behind, heads, layout, _precision, mode, shift, most, total, _softmax, out
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: Some(shift) };
    let call = Call {
        absent: absent! {
            realShift: shifts, dropMask: drop, paddingMask: padding, qStartIdx: q_start,
            kvStartIdx: kv_start
        },
        mask,
        prefix,
        sinks: Some(sinks),
        ..Call::forward([query, key, value], [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { forward(operands, &call) }
}

operator! { attention:
    aclnnFlashAttentionScoreGradV3GetWorkspaceSize, aclnnFlashAttentionScoreGradV3(
    query, key, value, dy, shifts, drop, padding, mask, most, total, _softmax, out, sinks, prefix,
    q_start, kv_start, scale, keep, before, behind, heads, layout, _precision, mode, shift, dq, dk,
    dv, _d_shifts, d_sinks
) |operands|
    let attributes = Attributes { scale, keep, before, behind, heads, layout, mode, shift: Some(shift) };
    let call = Call {
        absent: absent! {
            pseShift: shifts, dropMask: drop, paddingMask: padding, qStartIdx: q_start,
            kvStartIdx: kv_start
        },
        mask,
        prefix,
        dtypes: HALVES,
        sinks: Some(sinks),
        ..Call::backward([query, key, value], dy, [most, total, out], attributes)
    };
    // SAFETY: the caller guarantees the text.
    unsafe { backward(operands, &call, [dq, dk, dv, d_sinks]) }
}
