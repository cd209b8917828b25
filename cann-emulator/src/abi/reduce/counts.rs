//! Counts of values: histograms, and the number of times that each small integer occurs.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::check_size;
use crate::abi::operators;
use crate::abi::promotion::promoted;
use crate::error::{Outcome, ensure, fail};
use crate::executor::phase_one;
use crate::number::{Number, by_number};
use crate::ops::arithmetic::Arithmetic;
use crate::ops::reduce::{Range, histogram, range};

/// The dtypes of a histogram's values and counts.
const HISTOGRAM: &[aclDataType] = &[
    ACL_FLOAT16,
    ACL_FLOAT,
    ACL_INT32,
    ACL_INT64,
    ACL_INT16,
    ACL_INT8,
    ACL_UINT8,
];
/// The dtypes of integers that are counted.
const COUNTED: &[aclDataType] = &[ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8];
/// The dtypes of weights of integers that are counted.
const WEIGHTS: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_DOUBLE,
    ACL_INT8,
    ACL_INT16,
    ACL_INT32,
    ACL_INT64,
    ACL_UINT8,
    ACL_BOOL,
];
/// The dtypes of sums of weights.
const SUMS: &[aclDataType] = &[ACL_INT32, ACL_INT64, ACL_FLOAT, ACL_DOUBLE];

// Values are compared in f32, to which CANN converts the limits. With equal limits, those of the values count. CANN does
// not say what happens if these are equal, too; here the range then reaches one further on both sides, as PyTorch's
// does. NaN is in no bin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnHistcGetWorkspaceSize(
    input: *const aclTensor,
    bins: i64,
    low: *const aclScalar,
    high: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnHistc", workspace_size, executor, |operands| {
        let input = operands.view("self", input, HISTOGRAM)?;
        let (low, high): (f32, f32) = (
            operands.scalar("min", low)?.to(),
            operands.scalar("max", high)?.to(),
        );
        let output = operands.target("out", output, HISTOGRAM)?;
        promoted(input.dtype, output.dtype)?;
        ensure!(
            bins > 0 && low <= high,
            ACLNN_ERR_PARAM_INVALID,
            "{bins} bins from {low} to {high}; there is at least one bin, and min is at most max"
        );
        check_size("out", &output, &[bins as usize])?;
        Ok(Arc::new(move |memory, operands| {
            let [input, out] = operands else {
                unreachable!("taken above")
            };
            let values = input.values::<f32>(memory)?;
            let Range { low, high } = range(&values, low, high);
            ensure!(
                (high - low).is_finite(),
                ACLNN_ERR_PARAM_INVALID,
                "the values reach from {low} to {high}, which has no bins"
            );
            let counts = histogram(&values, bins as usize, Range { low, high });
            out.store_values(memory, &counts)
        }))
    })
}

// Weights are converted to the result's dtype before they are added, because CANN does not say how else they meet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnBincountGetWorkspaceSize(
    input: *const aclTensor,
    weights: *const aclTensor,
    minlength: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnBincount", workspace_size, executor, |operands| {
        let input = operands.view("self", input, COUNTED)?;
        let weighted = !weights.is_null();
        if weighted {
            let weights = operands.view("weights", weights, WEIGHTS)?;
            check_size("weights", &weights, &input.shape)?;
        }
        let output = operands.target("out", output, SUMS)?;
        for (name, tensor) in [("self", &input), ("out", &output)] {
            ensure!(
                tensor.rank() == 1,
                ACLNN_ERR_PARAM_INVALID,
                "{name} has {} axes; it takes one",
                tensor.rank()
            );
        }
        let least = usize::try_from(minlength).unwrap_or(0);
        ensure!(
            output.count() >= least,
            ACLNN_ERR_PARAM_INVALID,
            "out has {} elements; minlength is {minlength}",
            output.count()
        );
        let dtype = output.dtype;
        Ok(by_number!(dtype, T => Arc::new(move |memory, operands| {
            let [input, weights @ .., out] = operands else { unreachable!("taken above") };
            let values = input.values::<i64>(memory)?;
            let weights = weights.first().map(|weights| weights.values::<T>(memory)).transpose()?;
            check_size("out", out, &[length(&values, least)?])?;
            let sums = counted(&values, weights.as_deref(), out.count(), dtype);
            out.store_values(memory, &sums)
        })))
    })
}

/// Returns the number of results: one for each integer from 0 to the greatest, and at least `least`.
fn length(values: &[i64], least: usize) -> Outcome<usize> {
    if let Some(wrong) = values.iter().find(|value| **value < 0) {
        fail!(
            ACLNN_ERR_PARAM_INVALID,
            "self has {wrong}; only integers that are not negative are counted"
        );
    }
    let most = values.iter().copied().max().unwrap_or(-1);
    let length = most
        .checked_add(1)
        .and_then(|length| usize::try_from(length).ok());
    match length.filter(|length| *length < LONGEST) {
        Some(length) => Ok(length.max(least)),
        None => fail!(
            ACLNN_ERR_PARAM_INVALID,
            "self has {most}, too large to be counted"
        ),
    }
}

/// Returns the number or the weight of each integer, as many as `length`.
fn counted<T: Number + Arithmetic>(
    values: &[i64],
    weights: Option<&[T]>,
    length: usize,
    dtype: aclDataType,
) -> Vec<T> {
    let mut sums = vec![T::from_i64(0); length];
    for (at, value) in values.iter().enumerate() {
        let weight = weights.map_or(T::from_i64(1), |weights| weights[at].held_as(dtype));
        let sum = &mut sums[*value as usize];
        *sum = sum.add(weight).held_as(dtype);
    }
    sums
}

/// The most results, more than fit on a device.
const LONGEST: usize = 1 << 34;

operators! { reduce:
    aclnnHistcGetWorkspaceSize, aclnnHistc;
    aclnnBincountGetWorkspaceSize, aclnnBincount;
}
