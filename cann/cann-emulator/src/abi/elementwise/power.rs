//! Powers, and bounds given as scalars.

use super::{Dtypes, Gives, factor, map, one, with_scalar};
use crate::abi::prelude::*;
use crate::ops::arithmetic::{Arithmetic, clamp};

/// Checks that a power is not one of two booleans.
pub(super) fn check_power(dtypes: Dtypes) -> Outcome<()> {
    ensure!(dtypes.of != ACL_BOOL; "a boolean to the power of another is not computed");
    Ok(())
}

with_place! { elementwise: aclnnPowTensorScalarGetWorkspaceSize, aclnnPowTensorScalar;
    aclnnInplacePowTensorScalarGetWorkspaceSize, aclnnInplacePowTensorScalar
    (input, exponent) |operands, to|
    let (x, exponent) = with_scalar(operands, (input, exponent), to, USUAL, Gives::Same)?;
    check_power(x)?;
    Ok(arithmetic!(x, power, exponent))
}

operator! { elementwise: aclnnPowScalarTensorGetWorkspaceSize, aclnnPowScalarTensor(
    input, exponent, output
) |operands|
    let (to, gives) = (To::Output(output), Gives::Same);
    let (x, base) = with_scalar(operands, (exponent, input), to, USUAL, gives)?;
    check_power(x)?;
    Ok(by_number!(x.of, T => {
        let base: T = base.to();
        map(x, move |exponent: T| base.power(exponent))
    }))
}

operator! { elementwise: aclnnClampGetWorkspaceSize, aclnnClamp(input, low, high, output) |operands|
    let x = one(operands, input, To::Output(output), NUMBERS, Gives::Same)?;
    ensure!(!(low.is_null() && high.is_null()), ACLNN_ERR_PARAM_NULLPTR;
        "clipValueMin and clipValueMax are both NULL");
    let bound = |name, scalar: *const aclScalar| match scalar.is_null() {
        true => Ok(None),
        false => factor(operands, name, scalar, x).map(Some),
    };
    let (low, high) = (bound("clipValueMin", low)?, bound("clipValueMax", high)?);
    Ok(by_number!(x.of, T => {
        let (low, high) = (low.map(|low| low.to::<T>()), high.map(|high| high.to::<T>()));
        map(x, move |x: T| clamp(x, low, high))
    }))
}
