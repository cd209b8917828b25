//! Quotients that are rounded by a mode: 0 does not round, 1 rounds towards zero, 2 down.

use std::ffi::c_int;

use super::{Gives, map, two, with_scalar, zip};
use crate::abi::prelude::*;
use crate::ops::arithmetic::{Arithmetic, Float};

/// Returns the dtype of a quotient by its mode.
fn gives(mode: c_int) -> Outcome<Gives> {
    ensure!((0..=2).contains(&mode);
        "mode is {mode}; 0 does not round, 1 rounds towards zero, 2 down");
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

with_place! { elementwise: aclnnDivModGetWorkspaceSize, aclnnDivMod;
    aclnnInplaceDivModGetWorkspaceSize, aclnnInplaceDivMod (input, rhs, mode) |operands, to|
    of_tensors(operands, [input, rhs], mode, to)
}

with_place! { elementwise: aclnnDivModsGetWorkspaceSize, aclnnDivMods;
    aclnnInplaceDivModsGetWorkspaceSize, aclnnInplaceDivMods (input, rhs, mode) |operands, to|
    of_scalar(operands, (input, rhs), mode, to)
}

with_place! { elementwise: aclnnFloorDivideGetWorkspaceSize, aclnnFloorDivide;
    aclnnInplaceFloorDivideGetWorkspaceSize, aclnnInplaceFloorDivide (input, rhs) |operands, to|
    of_tensors(operands, [input, rhs], 2, to)
}

with_place! { elementwise: aclnnFloorDividesGetWorkspaceSize, aclnnFloorDivides;
    aclnnInplaceFloorDividesGetWorkspaceSize, aclnnInplaceFloorDivides (input, rhs) |operands, to|
    of_scalar(operands, (input, rhs), 2, to)
}
