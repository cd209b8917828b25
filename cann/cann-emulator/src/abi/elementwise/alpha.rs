//! Sums and differences with a factor, `alpha`, of the second operand.

use super::{Gives, factor, map, two, with_scalar, zip};
use crate::abi::prelude::*;
use crate::ops::arithmetic::Arithmetic;

#[derive(Clone, Copy)]
enum Sum {
    /// `self + alpha · other`
    Plus,
    /// `self − alpha · other`
    Minus,
    /// `other − alpha · self`
    Reversed,
}

/// Takes two tensors.
fn of_tensors(
    operands: &mut Operands,
    (inputs, alpha): ([*const aclTensor; 2], *const aclScalar),
    to: To,
    (dtypes, sum): (&[aclDataType], Sum),
) -> Outcome<Work> {
    let x = two(operands, inputs, to, dtypes, Gives::Same)?;
    let alpha = factor(operands, "alpha", alpha, x)?;
    Ok(by_number!(x.of, T => {
        let alpha: T = alpha.to();
        match sum {
            Sum::Plus => zip(x, move |left: T, right: T| left.add(Arithmetic::mul(alpha, right))),
            Sum::Minus => zip(x, move |left: T, right: T| left.sub(Arithmetic::mul(alpha, right))),
            Sum::Reversed => zip(x, move |left: T, right: T| right.sub(Arithmetic::mul(alpha, left))),
        }
    }))
}

/// Takes a tensor and a scalar.
fn of_scalar(
    operands: &mut Operands,
    (input, rhs, alpha): (*const aclTensor, *const aclScalar, *const aclScalar),
    to: To,
    (dtypes, sum): (&[aclDataType], Sum),
) -> Outcome<Work> {
    let (x, rhs) = with_scalar(operands, (input, rhs), to, dtypes, Gives::Same)?;
    let alpha = factor(operands, "alpha", alpha, x)?;
    Ok(by_number!(x.of, T => {
        let (alpha, rhs) = (alpha.to::<T>(), rhs.to::<T>());
        let right = Arithmetic::mul(alpha, rhs);
        match sum {
            Sum::Plus => map(x, move |left: T| left.add(right)),
            Sum::Minus => map(x, move |left: T| left.sub(right)),
            Sum::Reversed => map(x, move |left: T| rhs.sub(Arithmetic::mul(alpha, left))),
        }
    }))
}

/// Defines a sum of tensors, one of a tensor and a scalar, and their forms in place.
macro_rules! sums {
    ($(
        $one:ident, $two:ident $(, $place_one:ident, $place_two:ident)?;
        $plural_one:ident, $plural:ident $(, $plural_place_one:ident, $plural_place:ident)?:
        $dtypes:expr, $sum:ident;
    )*) => {$(
        with_place! { elementwise: $one, $two $(; $place_one, $place_two)?
            (input, rhs, alpha) |operands, to|
            of_tensors(operands, ([input, rhs], alpha), to, ($dtypes, Sum::$sum))
        }
        with_place! { elementwise: $plural_one, $plural $(; $plural_place_one, $plural_place)?
            (input, rhs, alpha) |operands, to|
            of_scalar(operands, (input, rhs, alpha), to, ($dtypes, Sum::$sum))
        }
    )*};
}

sums! {
    aclnnAddGetWorkspaceSize, aclnnAdd, aclnnInplaceAddGetWorkspaceSize, aclnnInplaceAdd;
    aclnnAddsGetWorkspaceSize, aclnnAdds, aclnnInplaceAddsGetWorkspaceSize, aclnnInplaceAdds:
        USUAL, Plus;
    aclnnSubGetWorkspaceSize, aclnnSub, aclnnInplaceSubGetWorkspaceSize, aclnnInplaceSub;
    aclnnSubsGetWorkspaceSize, aclnnSubs, aclnnInplaceSubsGetWorkspaceSize, aclnnInplaceSubs:
        USUAL, Minus;
    aclnnRsubGetWorkspaceSize, aclnnRsub;
    aclnnRsubsGetWorkspaceSize, aclnnRsubs:
        NUMBERS, Reversed;
}
