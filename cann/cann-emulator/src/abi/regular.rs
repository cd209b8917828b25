//! Tensors whose values follow a rule: equal steps, and the identity matrix.

use crate::abi::prelude::*;

/// The dtypes of equal steps.
const STEPS: &[aclDataType] = &[F32, F16, BF16, F64, U8, I8, I16, I32];
/// The dtypes of the identity matrix.
const EYE: &[aclDataType] = &[F32, F16, BF16, I64, I32, I16, I8, U8, BOOL];

/// Returns a number of elements that is not negative.
fn length(name: &str, value: i64) -> Outcome<usize> {
    ensure!(value >= 0; "{name} is {value}; it must not be negative");
    Ok(value as usize)
}

// As in PyTorch, the second half is counted from the end, so that the last value is exact.
operator! { create: aclnnLinspaceGetWorkspaceSize, aclnnLinspace(
    start, end, steps, output
) |operands|
    let start = operands.scalar("start", start)?.to::<f64>();
    let end = operands.scalar("end", end)?.to::<f64>();
    let count = length("steps", steps)?;
    let output = operands.target("out", output, STEPS)?;
    check_size("out", &output, &[count])?;
    Ok(Arc::new(move |memory, operands| {
        let step = (end - start) / (count.max(2) - 1) as f64;
        let value = |at: usize| {
            if at < count.div_ceil(2) {
                start + step * at as f64
            } else {
                end - step * (count - 1 - at) as f64
            }
        };
        let values: Vec<f64> = (0..count).map(value).collect();
        operands[0].store_values(memory, &values)
    }))
}

operator! { create: aclnnEyeGetWorkspaceSize, aclnnEye(rows, columns, output) |operands|
    let (rows, columns) = (length("n", rows)?, length("m", columns)?);
    let output = operands.target("out", output, EYE)?;
    check_size("out", &output, &[rows, columns])?;
    Ok(Arc::new(move |memory, operands| {
        let places = 0..rows * columns;
        let values: Vec<i64> = places.map(|at| i64::from(at / columns == at % columns)).collect();
        operands[0].store_values(memory, &values)
    }))
}
