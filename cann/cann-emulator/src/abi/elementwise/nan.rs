//! The replacement of NaN and of infinities.

use super::{Gives, map, one};
use crate::abi::prelude::*;

/// The floats, integers and booleans, but for f64.
const TAKEN: &[aclDataType] = &[F32, F16, BF16, I64, I32, I16, I8, U8, BOOL];

with_place! { elementwise: aclnnNanToNumGetWorkspaceSize, aclnnNanToNum;
    aclnnInplaceNanToNumGetWorkspaceSize, aclnnInplaceNanToNum
    (input, nan, positive, negative) |operands, to|
    let x = one(operands, input, to, TAKEN, Gives::Equal)?;
    Ok(if FLOATS.contains(&x.of) {
        map(x, move |value: f32| match value {
            _ if value.is_nan() => nan,
            f32::INFINITY => positive,
            f32::NEG_INFINITY => negative,
            _ => value,
        })
    } else {
        map(x, |value: i64| value)
    })
}
