//! Filling the slices of an axis that indices name: integers on the host, or a tensor.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{INDICES, USUAL, axis, check_size};
use crate::abi::index::places;
use crate::abi::operators;
use crate::error::{Outcome, ensure, fail};
use crate::executor::{Operands, Work, phase_one};
use crate::number::by_number;
use crate::tensor::Tensor;

/// The slices, counted from 0.
enum Slices {
    Host(*const aclIntArray),
    Device(*const aclTensor),
}

/// Returns the number of slices of an axis. A tensor without axes has one.
fn slices(tensor: &Tensor, at: usize) -> usize {
    tensor.shape.get(at).copied().unwrap_or(1)
}

/// Returns the indices on the host, each of which must be below `limit`.
fn checked(index: &[i64], limit: usize) -> Outcome<Vec<usize>> {
    let place = |index: &i64| match usize::try_from(*index) {
        Ok(place) if place < limit => Ok(place),
        _ => fail!(
            ACLNN_ERR_PARAM_INVALID,
            "the index {index} is out of range; there are {limit}"
        ),
    };
    index.iter().map(place).collect()
}

/// Takes the operands. Without an output, the input is overwritten.
fn take(
    operands: &mut Operands,
    input: *const aclTensor,
    at: i64,
    index: &Slices,
    fill: *const aclScalar,
    output: Option<*const aclTensor>,
) -> Outcome<Work> {
    let input = match output {
        Some(_) => operands.view("self", input, USUAL)?,
        None => operands.target("selfRef", input, USUAL)?,
    };
    let at = axis(&input, at)?;
    let named = match *index {
        Slices::Host(array) => {
            let index = operands.ints("index", array)?;
            Some(checked(&index, slices(&input, at))?)
        }
        Slices::Device(tensor) => {
            let index = operands.view("index", tensor, INDICES)?;
            ensure!(
                index.rank() <= 1,
                ACLNN_ERR_PARAM_INVALID,
                "index has {} axes; it takes one",
                index.rank()
            );
            None
        }
    };
    let fill = operands.scalar("value", fill)?;
    if let Some(output) = output {
        let output = operands.target("out", output, &[input.dtype])?;
        check_size("out", &output, &input.shape)?;
    }
    let to_other = output.is_some();
    Ok(
        by_number!(input.dtype, T => Arc::new(move |memory, operands| {
            let (input, mut rest) = (&operands[0], operands[1..].iter());
            let count = slices(input, at);
            let named = match &named {
                Some(named) => named.clone(),
                None => places(memory, needed(&mut rest), count)?,
            };
            if input.count() == 0 {
                return Ok(());
            }
            let inner: usize = input.shape.iter().skip(at + 1).product();
            let mut values = input.values::<T>(memory)?;
            let mut filled = vec![false; count];
            named.iter().for_each(|slice| filled[*slice] = true);
            for (place, value) in values.iter_mut().enumerate() {
                if filled[place / inner % count] {
                    *value = fill.to::<T>();
                }
            }
            let out = if to_other { needed(&mut rest) } else { input };
            out.store_values(memory, &values)
        })),
    )
}

/// Returns the next operand, which phase one took.
fn needed<'a>(operands: &mut std::slice::Iter<'a, Tensor>) -> &'a Tensor {
    let Some(operand) = operands.next() else {
        unreachable!("taken in phase one")
    };
    operand
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnIndexFillTensorGetWorkspaceSize(
    input: *const aclTensor,
    at: i64,
    index: *const aclIntArray,
    fill: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let name = "aclnnIndexFillTensor";
    phase_one(name, workspace_size, executor, |operands| {
        take(
            operands,
            input,
            at,
            &Slices::Host(index),
            fill,
            Some(output),
        )
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceIndexFillTensorGetWorkspaceSize(
    target: *mut aclTensor,
    at: i64,
    index: *const aclIntArray,
    fill: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let name = "aclnnInplaceIndexFillTensor";
    phase_one(name, workspace_size, executor, |operands| {
        take(operands, target, at, &Slices::Host(index), fill, None)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnIndexFillGetWorkspaceSize(
    input: *const aclTensor,
    at: i64,
    index: *const aclTensor,
    fill: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnIndexFill", workspace_size, executor, |operands| {
        take(
            operands,
            input,
            at,
            &Slices::Device(index),
            fill,
            Some(output),
        )
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceIndexFillGetWorkspaceSize(
    target: *mut aclTensor,
    at: i64,
    index: *const aclTensor,
    fill: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let name = "aclnnInplaceIndexFill";
    phase_one(name, workspace_size, executor, |operands| {
        take(operands, target, at, &Slices::Device(index), fill, None)
    })
}

operators! { index:
    aclnnIndexFillTensorGetWorkspaceSize, aclnnIndexFillTensor;
    aclnnInplaceIndexFillTensorGetWorkspaceSize, aclnnInplaceIndexFillTensor;
    aclnnIndexFillGetWorkspaceSize, aclnnIndexFill;
    aclnnInplaceIndexFillGetWorkspaceSize, aclnnInplaceIndexFill;
}
