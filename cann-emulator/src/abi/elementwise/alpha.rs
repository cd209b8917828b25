//! Sums and differences with a factor, `alpha`, of the second operand.

use cann_sys::meta::*;

use super::{Gives, To, factor, map, two, with_scalar, zip};
use crate::abi::checks::{NUMBERS, USUAL};
use crate::abi::operators;
use crate::error::Outcome;
use crate::executor::{Operands, Work, phase_one};
use crate::number::by_number;
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
        $one:ident, $two:ident $(, $target:ident $place_one:ident, $place_two:ident)?;
        $plural_one:ident, $plural:ident $(, $plural_target:ident $plural_place_one:ident, $plural_place:ident)?:
        $dtypes:expr, $sum:ident;
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const aclTensor,
            alpha: *const aclScalar,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let (inputs, to) = (([input, rhs], alpha), To::Output(output));
                of_tensors(operands, inputs, to, ($dtypes, Sum::$sum))
            })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $plural_one(
            input: *const aclTensor,
            rhs: *const aclScalar,
            alpha: *const aclScalar,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($plural), workspace_size, executor, |operands| {
                let (inputs, to) = ((input, rhs, alpha), To::Output(output));
                of_scalar(operands, inputs, to, ($dtypes, Sum::$sum))
            })
        }

        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $place_one(
                target: *$target aclTensor,
                rhs: *const aclTensor,
                alpha: *const aclScalar,
                workspace_size: *mut u64,
                executor: *mut *mut aclOpExecutor,
            ) -> aclnnStatus {
                phase_one(stringify!($place_two), workspace_size, executor, |operands| {
                    let inputs = ([target as *const aclTensor, rhs], alpha);
                    of_tensors(operands, inputs, To::Itself, ($dtypes, Sum::$sum))
                })
            }
        )?

        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $plural_place_one(
                target: *$plural_target aclTensor,
                rhs: *const aclScalar,
                alpha: *const aclScalar,
                workspace_size: *mut u64,
                executor: *mut *mut aclOpExecutor,
            ) -> aclnnStatus {
                phase_one(stringify!($plural_place), workspace_size, executor, |operands| {
                    let inputs = (target as *const aclTensor, rhs, alpha);
                    of_scalar(operands, inputs, To::Itself, ($dtypes, Sum::$sum))
                })
            }
        )?
    )*
    operators! { elementwise: $(
        $one, $two;
        $plural_one, $plural;
        $($place_one, $place_two;)?
        $($plural_place_one, $plural_place;)?
    )* }};
}

sums! {
    aclnnAddGetWorkspaceSize, aclnnAdd, const aclnnInplaceAddGetWorkspaceSize, aclnnInplaceAdd;
    aclnnAddsGetWorkspaceSize, aclnnAdds, const aclnnInplaceAddsGetWorkspaceSize, aclnnInplaceAdds:
        USUAL, Plus;
    aclnnSubGetWorkspaceSize, aclnnSub, mut aclnnInplaceSubGetWorkspaceSize, aclnnInplaceSub;
    aclnnSubsGetWorkspaceSize, aclnnSubs, mut aclnnInplaceSubsGetWorkspaceSize, aclnnInplaceSubs:
        USUAL, Minus;
    aclnnRsubGetWorkspaceSize, aclnnRsub;
    aclnnRsubsGetWorkspaceSize, aclnnRsubs:
        NUMBERS, Reversed;
}
