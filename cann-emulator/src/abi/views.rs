//! Operators whose result is a view of their operand, copied: other orders of axes, repetitions, parts and turns.

use std::sync::Arc;

use cann_sys::meta::*;

use super::copy::copy;
use crate::abi::checks::{ALL, USUAL, axis};
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{Operands, Work, phase_one};
use crate::number::by_number;
use crate::ops::index::Around;
use crate::tensor::Tensor;

/// Takes the output of a view, and returns the work that copies it.
fn copied(
    operands: &mut Operands,
    view: &Tensor,
    output: *const aclTensor,
    make: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static,
) -> Outcome<Work> {
    operands.result("out", output, view.dtype, &view.shape)?;
    Ok(Arc::new(move |memory, operands| {
        copy(memory, &make(&operands[0]), &operands[1])
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnPermuteGetWorkspaceSize(
    input: *const aclTensor,
    axes: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnPermute", workspace_size, executor, |operands| {
        let input = operands.view("self", input, ALL)?;
        let axes = operands.ints("dims", axes)?;
        let order: Vec<usize> = axes
            .iter()
            .map(|at| axis(&input, *at))
            .collect::<Outcome<_>>()?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        ensure!(
            sorted.iter().copied().eq(0..input.rank()),
            ACLNN_ERR_PARAM_INVALID,
            "dims is {axes:?}; each of {} axes is needed once",
            input.rank()
        );
        let view = input.permuted(&order);
        copied(operands, &view, output, move |input| input.permuted(&order))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnExpandGetWorkspaceSize(
    input: *const aclTensor,
    shape: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnExpand", workspace_size, executor, |operands| {
        let input = operands.view("self", input, USUAL)?;
        let size = operands.ints("size", shape)?;
        let missing = size.len().checked_sub(input.rank());
        let own = |at: usize| at.checked_sub(missing?).map(|own| input.shape[own]);
        // An axis of -1 keeps its length, which a new axis does not have.
        let lengths = size
            .iter()
            .enumerate()
            .map(|(at, length)| match (*length, own(at)) {
                (-1, kept) => kept,
                (length, Some(1) | None) => usize::try_from(length).ok(),
                (length, Some(kept)) => (length == kept as i64).then_some(kept),
            });
        let shape = lengths
            .collect::<Option<Vec<usize>>>()
            .filter(|_| missing.is_some());
        ensure!(
            shape.is_some(),
            ACLNN_ERR_PARAM_INVALID,
            "self has the shape {:?}, which does not expand to {size:?}",
            input.shape
        );
        let shape = shape.unwrap_or_default();
        let view = input.expanded(&shape);
        copied(operands, &view, output, move |input| input.expanded(&shape))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnSliceGetWorkspaceSize(
    input: *const aclTensor,
    at: i64,
    start: i64,
    end: i64,
    step: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnSlice", workspace_size, executor, |operands| {
        let input = operands.view("self", input, ALL)?;
        ensure!(
            input.rank() > 0,
            ACLNN_ERR_PARAM_INVALID,
            "self has no axis to slice"
        );
        let at = axis(&input, at)?;
        ensure!(
            step > 0,
            ACLNN_ERR_PARAM_INVALID,
            "step is {step}; it is positive"
        );
        // Both ends may be counted from the end, and stop at the ends of the axis.
        let length = input.shape[at] as i64;
        let place = |end: i64| if end < 0 { end + length } else { end };
        let start = place(start).clamp(0, length);
        let end = place(end).clamp(start, length);
        let count = (end - start).div_euclid(step) + i64::from((end - start) % step != 0);
        let slice = move |input: &Tensor| {
            let mut view = input.clone();
            view.shape[at] = count as usize;
            view.offset += start * view.strides[at];
            if count > 1 {
                view.strides[at] *= step;
            }
            view
        };
        copied(operands, &slice(&input), output, slice)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnRepeatGetWorkspaceSize(
    input: *const aclTensor,
    repeats: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnRepeat", workspace_size, executor, |operands| {
        let input = operands.view("self", input, USUAL)?;
        let repeats = operands.ints("repeats", repeats)?;
        ensure!(
            repeats.len() >= input.rank() && repeats.iter().all(|count| *count >= 0),
            ACLNN_ERR_PARAM_INVALID,
            "repeats is {repeats:?}; counts are needed for {} axes or more",
            input.rank()
        );
        let counts: Vec<usize> = repeats.iter().map(|count| *count as usize).collect();
        let mut whole = vec![1; counts.len() - input.rank()];
        whole.extend(&input.shape);
        let shape: Vec<usize> = whole
            .iter()
            .zip(&counts)
            .map(|(own, count)| own.saturating_mul(*count))
            .collect();
        operands.result("out", output, input.dtype, &shape)?;
        Ok(
            by_number!(input.dtype, T => Arc::new(move |memory, operands| {
                if operands[1].count() == 0 {
                    return Ok(());
                }
                let mut values = operands[0].values::<T>(memory)?;
                let mut shape = whole.clone();
                for (at, count) in counts.iter().enumerate() {
                    let around = Around::of(&shape, at);
                    let again: Vec<usize> = (0..*count).flat_map(|_| 0..around.length).collect();
                    values = around.select(&values, &again);
                    shape[at] *= count;
                }
                operands[1].store_values(memory, &values)
            })),
        )
    })
}

/// The dtypes that 8.1's header names for turns.
const TURNED: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_INT8,
    ACL_UINT8,
    ACL_INT32,
    ACL_UINT32,
    ACL_BOOL,
];

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnRollGetWorkspaceSize(
    input: *const aclTensor,
    shifts: *const aclIntArray,
    axes: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnRoll", workspace_size, executor, |operands| {
        let input = operands.view("x", input, TURNED)?;
        let (shifts, axes) = (
            operands.ints("shifts", shifts)?,
            operands.ints("dims", axes)?,
        );
        // Without axes all elements are one axis, as in PyTorch.
        let flat = axes.is_empty() && shifts.len() == 1;
        ensure!(
            flat || axes.len() == shifts.len(),
            ACLNN_ERR_PARAM_INVALID,
            "shifts is {shifts:?} and dims {axes:?}; each shift has its axis"
        );
        let axes: Vec<usize> = match flat {
            true => vec![0],
            false => axes
                .iter()
                .map(|at| axis(&input, *at))
                .collect::<Outcome<_>>()?,
        };
        let shape = match flat || input.rank() == 0 {
            true => vec![input.count()],
            false => input.shape.clone(),
        };
        operands.result("out", output, input.dtype, &input.shape)?;
        Ok(
            by_number!(input.dtype, T => Arc::new(move |memory, operands| {
                if operands[1].count() == 0 {
                    return Ok(());
                }
                let mut values = operands[0].values::<T>(memory)?;
                for (at, shift) in axes.iter().zip(shifts.iter()) {
                    let around = Around::of(&shape, *at);
                    let length = around.length as i64;
                    let turned: Vec<usize> = (0..length)
                        .map(|place| (place - shift.rem_euclid(length)).rem_euclid(length) as usize)
                        .collect();
                    values = around.select(&values, &turned);
                }
                operands[1].store_values(memory, &values)
            })),
        )
    })
}

operators! { shape:
    aclnnPermuteGetWorkspaceSize, aclnnPermute;
    aclnnExpandGetWorkspaceSize, aclnnExpand;
    aclnnSliceGetWorkspaceSize, aclnnSlice;
    aclnnRepeatGetWorkspaceSize, aclnnRepeat;
    aclnnRollGetWorkspaceSize, aclnnRoll;
}
