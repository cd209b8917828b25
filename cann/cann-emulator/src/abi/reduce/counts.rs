//! Counts of values: histograms, and the number of times that each small integer occurs.

use crate::abi::prelude::*;
use crate::ops::arithmetic::Arithmetic;
use crate::ops::reduce::{Range, histogram, range};

/// The dtypes of a histogram's values and counts.
const HISTOGRAM: &[aclDataType] = &[F16, F32, I32, I64, I16, I8, U8];
/// The dtypes of integers that are counted.
const COUNTED: &[aclDataType] = &[ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8];
/// The dtypes of weights of integers that are counted.
const WEIGHTS: &[aclDataType] = &[F32, F16, F64, I8, I16, I32, I64, U8, BOOL];
/// The dtypes of sums of weights.
const SUMS: &[aclDataType] = &[ACL_INT32, ACL_INT64, ACL_FLOAT, ACL_DOUBLE];

// Values are compared in f32, to which CANN converts the limits. With equal limits, those of the values count. CANN does
// not say what happens if these are equal, too; here the range then reaches one further on both sides, as PyTorch's
// does. NaN is in no bin.
operator! { reduce: aclnnHistcGetWorkspaceSize, aclnnHistc(
    input, bins, low, high, output
) |operands|
    let input = operands.view("self", input, HISTOGRAM)?;
    let (low, high): (f32, f32) = (
        operands.scalar("min", low)?.to(),
        operands.scalar("max", high)?.to(),
    );
    let output = operands.target("out", output, HISTOGRAM)?;
    promoted(input.dtype, output.dtype)?;
    ensure!(bins > 0 && low <= high;
        "{bins} bins from {low} to {high}; there is at least one bin, and min is at most max");
    check_size("out", &output, &[bins as usize])?;
    Ok(Arc::new(move |memory, operands| {
        let [input, out] = taken(operands);
        let values = input.values::<f32>(memory)?;
        let Range { low, high } = range(&values, low, high);
        ensure!((high - low).is_finite();
            "the values reach from {low} to {high}, which has no bins");
        let counts = histogram(&values, bins as usize, Range { low, high });
        out.store_values(memory, &counts)
    }))
}

// Weights are converted to the result's dtype before they are added, because CANN does not say how else they meet.
operator! { reduce: aclnnBincountGetWorkspaceSize, aclnnBincount(
    input, weights, minlength, output
) |operands|
    let input = operands.view("self", input, COUNTED)?;
    let weighted = !weights.is_null();
    if weighted {
        let weights = operands.view("weights", weights, WEIGHTS)?;
        check_size("weights", &weights, &input.shape)?;
    }
    let output = operands.target("out", output, SUMS)?;
    for (name, tensor) in [("self", &input), ("out", &output)] {
        ensure!(tensor.rank() == 1; "{name} has {} axes; it takes one", tensor.rank());
    }
    let least = usize::try_from(minlength).unwrap_or(0);
    ensure!(output.count() >= least;
        "out has {} elements; minlength is {minlength}", output.count());
    let dtype = output.dtype;
    Ok(by_number!(dtype, T => Arc::new(move |memory, operands| {
        let [input, weights @ .., out] = operands else { unreachable!("taken above") };
        let values = input.values::<i64>(memory)?;
        let weights = weights.first().map(|weights| weights.values::<T>(memory)).transpose()?;
        check_size("out", out, &[length(&values, least)?])?;
        let sums = counted(&values, weights.as_deref(), out.count(), dtype);
        out.store_values(memory, &sums)
    })))
}

/// Returns the number of results: one for each integer from 0 to the greatest, and at least `least`.
fn length(values: &[i64], least: usize) -> Outcome<usize> {
    if let Some(wrong) = values.iter().find(|value| **value < 0) {
        fail!("self has {wrong}; only integers that are not negative are counted");
    }
    let most = values.iter().copied().max().unwrap_or(-1);
    let length = most
        .checked_add(1)
        .and_then(|length| usize::try_from(length).ok());
    match length.filter(|length| *length < LONGEST) {
        Some(length) => Ok(length.max(least)),
        None => fail!("self has {most}, too large to be counted"),
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
