//! Operators of a tensor and a scalar on its right.

use super::{FMOD, Gives, UP_TO_U16, WIDE, map, with_scalar};
use crate::abi::prelude::*;
use crate::ops::arithmetic::{Arithmetic, clamp};

/// Defines operators of a tensor and a scalar, and their forms in place.
macro_rules! of_scalar {
    ($(
        $one:ident, $two:ident $(; $place_one:ident, $place_two:ident)?:
        $dtypes:expr, $gives:ident => |$x:ident, $rhs:ident| $work:expr;
    )*) => {$(
        with_place! { elementwise: $one, $two $(; $place_one, $place_two)? (input, rhs) |operands, to|
            let ($x, $rhs) = with_scalar(operands, (input, rhs), to, $dtypes, Gives::$gives)?;
            Ok($work)
        }
    )*};
}

of_scalar! {
    aclnnMulsGetWorkspaceSize, aclnnMuls; aclnnInplaceMulsGetWorkspaceSize, aclnnInplaceMuls:
        USUAL, Same => |x, s| arithmetic!(x, mul, s);
    aclnnDivsGetWorkspaceSize, aclnnDivs; aclnnInplaceDivsGetWorkspaceSize, aclnnInplaceDivs:
        USUAL, Quotient => |x, s| by_float!(x.of, T => {
        let right: T = s.to();
        map(x, move |left: T| left / right)
    });
    aclnnRemainderTensorScalarGetWorkspaceSize, aclnnRemainderTensorScalar;
        aclnnInplaceRemainderTensorScalarGetWorkspaceSize, aclnnInplaceRemainderTensorScalar: WIDE, Same
        => |x, s| arithmetic!(x, remainder, s);
    aclnnFmodScalarGetWorkspaceSize, aclnnFmodScalar;
        aclnnInplaceFmodScalarGetWorkspaceSize, aclnnInplaceFmodScalar: FMOD, Same => |x, s| arithmetic!(x, fmod, s);
    aclnnBitwiseAndScalarGetWorkspaceSize, aclnnBitwiseAndScalar;
        aclnnInplaceBitwiseAndScalarGetWorkspaceSize, aclnnInplaceBitwiseAndScalar: BITS, Same => |x, s| {
        let right: i64 = s.to();
        map(x, move |left: i64| left & right)
    };
    aclnnBitwiseOrScalarGetWorkspaceSize, aclnnBitwiseOrScalar;
        aclnnInplaceBitwiseOrScalarGetWorkspaceSize, aclnnInplaceBitwiseOrScalar: BITS, Same => |x, s| {
        let right: i64 = s.to();
        map(x, move |left: i64| left | right)
    };
    aclnnBitwiseXorScalarGetWorkspaceSize, aclnnBitwiseXorScalar;
        aclnnInplaceBitwiseXorScalarGetWorkspaceSize, aclnnInplaceBitwiseXorScalar: BITS, Same => |x, s| {
        let right: i64 = s.to();
        map(x, move |left: i64| left ^ right)
    };
    aclnnEqScalarGetWorkspaceSize, aclnnEqScalar;
        aclnnInplaceEqScalarGetWorkspaceSize, aclnnInplaceEqScalar: USUAL, Bool => |x, s| compared!(x, == s);
    aclnnNeScalarGetWorkspaceSize, aclnnNeScalar;
        aclnnInplaceNeScalarGetWorkspaceSize, aclnnInplaceNeScalar: USUAL, Bool => |x, s| compared!(x, != s);
    aclnnGtScalarGetWorkspaceSize, aclnnGtScalar;
        aclnnInplaceGtScalarGetWorkspaceSize, aclnnInplaceGtScalar: ALL, Bool => |x, s| compared!(x, > s);
    aclnnGeScalarGetWorkspaceSize, aclnnGeScalar;
        aclnnInplaceGeScalarGetWorkspaceSize, aclnnInplaceGeScalar: ALL, Bool => |x, s| compared!(x, >= s);
    aclnnLtScalarGetWorkspaceSize, aclnnLtScalar;
        aclnnInplaceLtScalarGetWorkspaceSize, aclnnInplaceLtScalar: ALL, Bool => |x, s| compared!(x, < s);
    aclnnLeScalarGetWorkspaceSize, aclnnLeScalar;
        aclnnInplaceLeScalarGetWorkspaceSize, aclnnInplaceLeScalar: UP_TO_U16, Bool => |x, s| compared!(x, <= s);
    aclnnClampMinGetWorkspaceSize, aclnnClampMin: NUMBERS, Same
        => |x, s| by_number!(x.of, T => {
            let low: T = s.to();
            map(x, move |x: T| clamp(x, Some(low), None))
        });
    aclnnClampMaxGetWorkspaceSize, aclnnClampMax; aclnnInplaceClampMaxGetWorkspaceSize, aclnnInplaceClampMax:
        NUMBERS, Same
        => |x, s| by_number!(x.of, T => {
            let high: T = s.to();
            map(x, move |x: T| clamp(x, None, Some(high)))
        });
}
