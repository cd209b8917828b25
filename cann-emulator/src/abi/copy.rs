//! Copies and conversions: of dtypes, of layouts, and of several tensors into one.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{ALL, USUAL, axis, broadcast, check_axes, check_size};
use crate::abi::operators;
use crate::abi::promotion::{check_castable, promoted};
use crate::error::{Outcome, ensure};
use crate::executor::{check_dtype, phase_one};
use crate::memory::Memory;
use crate::number::by_number;
use crate::tensor::Tensor;

/// Writes the values of `from`, broadcast, to `to`.
pub(super) fn copy(memory: &mut Memory, from: &Tensor, to: &Tensor) -> Outcome<()> {
    by_number!(from.dtype, T => {
        let values = from.expanded(&to.shape).values::<T>(memory)?;
        to.store_values(memory, &values)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnCastGetWorkspaceSize(
    input: *const aclTensor,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnCast", workspace_size, executor, |operands| {
        let input = operands.view("self", input, ALL)?;
        let output = operands.result("out", output, to_dtype, &input.shape)?;
        check_dtype("out", &output, ALL)?;
        Ok(Arc::new(|memory, operands| {
            copy(memory, &operands[0], &operands[1])
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceCopyGetWorkspaceSize(
    target: *mut aclTensor,
    src: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnInplaceCopy", workspace_size, executor, |operands| {
        let target = operands.target("selfRef", target, ALL)?;
        let src = operands.view("src", src, ALL)?;
        check_size("selfRef", &target, &broadcast(&target.shape, &src.shape)?)?;
        Ok(Arc::new(|memory, operands| {
            copy(memory, &operands[1], &operands[0])
        }))
    })
}

/// Returns the axis and the shape of concatenated tensors. Tensors with one axis and no elements don't count.
fn side_by_side(tensors: &[Tensor], at: i64) -> Outcome<(usize, Vec<usize>)> {
    let counted = |tensor: &&Tensor| tensor.shape != [0];
    let first = tensors.iter().find(counted).or(tensors.first());
    ensure!(
        first.is_some(),
        ACLNN_ERR_PARAM_INVALID,
        "there are no tensors"
    );
    let first = first.expect("checked above");
    ensure!(
        first.rank() > 0,
        ACLNN_ERR_PARAM_INVALID,
        "a tensor has no axis to put another beside it"
    );
    let at = axis(first, at)?;
    let mut shape = first.shape.clone();
    shape[at] = 0;
    for tensor in tensors.iter().filter(counted) {
        let mut expected = first.shape.clone();
        let fits = tensor.rank() == first.rank();
        if fits {
            expected[at] = tensor.shape[at];
            shape[at] += tensor.shape[at];
        }
        ensure!(
            fits && expected == tensor.shape,
            ACLNN_ERR_PARAM_INVALID,
            "tensors of shapes {:?} and {:?} do not fit beside each other on axis {at}",
            first.shape,
            tensor.shape
        );
    }
    Ok((at, shape))
}

/// Returns the dtype in which tensors meet.
fn common_dtype(tensors: &[Tensor]) -> Outcome<aclDataType> {
    let mut dtype = tensors[0].dtype;
    for tensor in tensors {
        check_dtype("a tensor", tensor, USUAL)?;
        check_axes("a tensor", tensor)?;
        dtype = promoted(dtype, tensor.dtype)?;
    }
    Ok(dtype)
}

/// Writes the values of `from`, after a conversion to `dtype`, to `to`.
fn convert(memory: &mut Memory, from: &Tensor, dtype: aclDataType, to: &Tensor) -> Outcome<()> {
    by_number!(dtype, T => {
        let values = from.values_as::<T>(memory, dtype)?;
        to.store_values(memory, &values)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnStackGetWorkspaceSize(
    tensors: *const aclTensorList,
    at: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnStack", workspace_size, executor, |operands| {
        let tensors = operands.list("tensors", tensors, false)?;
        ensure!(
            !tensors.is_empty(),
            ACLNN_ERR_PARAM_INVALID,
            "there are no tensors"
        );
        let dtype = common_dtype(&tensors)?;
        for tensor in &tensors {
            check_size("a tensor", tensor, &tensors[0].shape)?;
        }
        // The new axis may be behind the last one.
        let axes = tensors[0].rank() as i64 + 1;
        ensure!(
            (-axes..axes).contains(&at),
            ACLNN_ERR_PARAM_INVALID,
            "a tensor of {axes} axes has no axis {at}"
        );
        let at = at.rem_euclid(axes) as usize;
        let mut shape = tensors[0].shape.clone();
        shape.insert(at, tensors.len());
        let output = operands.target("out", output, USUAL)?;
        check_castable("out", dtype, output.dtype)?;
        check_size("out", &output, &shape)?;
        Ok(Arc::new(move |memory, operands| {
            let Some((output, tensors)) = operands.split_last() else {
                unreachable!("taken above")
            };
            let mut part = output.clone();
            part.shape.remove(at);
            let step = part.strides.remove(at);
            for tensor in tensors.iter().filter(|tensor| tensor.count() > 0) {
                convert(memory, tensor, dtype, &part)?;
                part.offset += step;
            }
            Ok(())
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnCatGetWorkspaceSize(
    tensors: *const aclTensorList,
    at: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnCat", workspace_size, executor, |operands| {
        let tensors = operands.list("tensors", tensors, false)?;
        let (at, shape) = side_by_side(&tensors, at)?;
        let dtype = common_dtype(&tensors)?;
        let output = operands.target("out", output, USUAL)?;
        check_castable("out", dtype, output.dtype)?;
        check_size("out", &output, &shape)?;
        Ok(Arc::new(move |memory, operands| {
            let Some((output, tensors)) = operands.split_last() else {
                unreachable!("taken above")
            };
            let mut part = output.clone();
            for tensor in tensors.iter().filter(|tensor| tensor.count() > 0) {
                part.shape[at] = tensor.shape[at];
                convert(memory, tensor, dtype, &part)?;
                part.offset += tensor.shape[at] as i64 * part.strides[at];
            }
            Ok(())
        }))
    })
}

operators! { shape:
    aclnnCastGetWorkspaceSize, aclnnCast;
    aclnnInplaceCopyGetWorkspaceSize, aclnnInplaceCopy;
    aclnnCatGetWorkspaceSize, aclnnCat;
    aclnnStackGetWorkspaceSize, aclnnStack;
}
