//! Quotients that are rounded by a mode: 0 does not round, 1 rounds towards zero, 2 down.

use std::ffi::c_int;

use cann_sys::meta::*;

use super::{Gives, To, map, two, with_scalar, zip};
use crate::abi::checks::USUAL;
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{Operands, Work, phase_one};
use crate::number::by_number;
use crate::ops::arithmetic::{Arithmetic, Float};

/// Returns the dtype of a quotient by its mode.
fn gives(mode: c_int) -> Outcome<Gives> {
    ensure!(
        (0..=2).contains(&mode),
        ACLNN_ERR_PARAM_INVALID,
        "mode is {mode}; 0 does not round, 1 rounds towards zero, 2 down"
    );
    Ok(match mode {
        0 => Gives::Quotient,
        _ => Gives::Same,
    })
}

fn of_tensors(
    operands: &mut Operands,
    inputs: [*const aclTensor; 2],
    mode: c_int,
    to: To,
) -> Outcome<Work> {
    let x = two(operands, inputs, to, USUAL, gives(mode)?)?;
    Ok(match mode {
        1 => arithmetic!(x, div_trunc),
        2 => arithmetic!(x, div_floor),
        _ => by_float!(x.of, T => zip(x, <T as Float>::div)),
    })
}

fn of_scalar(
    operands: &mut Operands,
    inputs: (*const aclTensor, *const aclScalar),
    mode: c_int,
    to: To,
) -> Outcome<Work> {
    let (x, rhs) = with_scalar(operands, inputs, to, USUAL, gives(mode)?)?;
    Ok(match mode {
        1 => arithmetic!(x, div_trunc, rhs),
        2 => arithmetic!(x, div_floor, rhs),
        _ => by_float!(x.of, T => {
            let right: T = rhs.to();
            map(x, move |left: T| left / right)
        }),
    })
}

macro_rules! quotients {
    ($($one:ident, $two:ident; $place_one:ident, $place_two:ident: $rhs:ty, $take:ident, $pair:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const $rhs,
            mode: c_int,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                $take(operands, $pair!(input, rhs), mode, To::Output(output))
            })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $place_one(
            target: *mut aclTensor,
            rhs: *const $rhs,
            mode: c_int,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($place_two), workspace_size, executor, |operands| {
                $take(operands, $pair!(target.cast_const(), rhs), mode, To::Itself)
            })
        }
    )*
    operators! { elementwise: $($one, $two; $place_one, $place_two;)* }};
}

macro_rules! array {
    ($left:expr, $right:expr) => {
        [$left, $right]
    };
}

macro_rules! tuple {
    ($left:expr, $right:expr) => {
        ($left, $right)
    };
}

quotients! {
    aclnnDivModGetWorkspaceSize, aclnnDivMod; aclnnInplaceDivModGetWorkspaceSize, aclnnInplaceDivMod:
        aclTensor, of_tensors, array;
    aclnnDivModsGetWorkspaceSize, aclnnDivMods; aclnnInplaceDivModsGetWorkspaceSize, aclnnInplaceDivMods:
        aclScalar, of_scalar, tuple;
}

/// Defines quotients that are rounded down.
macro_rules! floors {
    ($($one:ident, $two:ident; $place_one:ident, $place_two:ident: $rhs:ty, $take:ident, $pair:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const $rhs,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                $take(operands, $pair!(input, rhs), 2, To::Output(output))
            })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $place_one(
            target: *mut aclTensor,
            rhs: *const $rhs,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($place_two), workspace_size, executor, |operands| {
                $take(operands, $pair!(target.cast_const(), rhs), 2, To::Itself)
            })
        }
    )*
    operators! { elementwise: $($one, $two; $place_one, $place_two;)* }};
}

floors! {
    aclnnFloorDivideGetWorkspaceSize, aclnnFloorDivide;
    aclnnInplaceFloorDivideGetWorkspaceSize, aclnnInplaceFloorDivide: aclTensor, of_tensors, array;
    aclnnFloorDividesGetWorkspaceSize, aclnnFloorDivides;
    aclnnInplaceFloorDividesGetWorkspaceSize, aclnnInplaceFloorDivides: aclScalar, of_scalar, tuple;
}
