//! Filling a tensor.

use crate::abi::prelude::*;

/// Defines operators that fill with a number.
macro_rules! numbers {
    ($($one:ident, $two:ident: $number:literal;)*) => {$(
        operator! { create: $one, $two(target) |operands|
            operands.target("selfRef", target, USUAL)?;
            Ok(Arc::new(|memory, operands| {
                let target = &operands[0];
                target.fill(memory, $number)
            }))
        }
    )*};
}

numbers! {
    aclnnInplaceZeroGetWorkspaceSize, aclnnInplaceZero: 0_i64;
    aclnnInplaceOneGetWorkspaceSize, aclnnInplaceOne: 1_i64;
}

operator! { create: aclnnInplaceFillTensorGetWorkspaceSize, aclnnInplaceFillTensor(
    target, fill
) |operands|
    let dtypes: Vec<aclDataType> = ALL.iter().copied().filter(|own| *own != ACL_DOUBLE).collect();
    let target = operands.target("selfRef", target, &dtypes)?;
    let fill = operands.view("value", fill, &dtypes)?;
    check_castable("selfRef", fill.dtype, target.dtype)?;
    ensure!(fill.rank() <= 1 && fill.count() == 1;
        "value has the shape {:?}; one element is needed, with one axis or none", fill.shape);
    Ok(by_number!(fill.dtype, T => Arc::new(move |memory, operands| {
        let [target, fill] = taken(operands);
        let fill = fill.values::<T>(memory)?[0];
        target.fill(memory, fill)
    })))
}

operator! { create: aclnnInplaceFillScalarGetWorkspaceSize, aclnnInplaceFillScalar(
    target, fill
) |operands|
    let target = operands.target("selfRef", target, USUAL)?;
    let fill = operands.scalar("value", fill)?;
    Ok(by_number!(target.dtype, T => Arc::new(move |memory, operands| {
        let target = &operands[0];
        target.fill(memory, fill.to::<T>())
    })))
}

operator! { create: aclnnArangeGetWorkspaceSize, aclnnArange(start, end, step, output) |operands|
    let [start, end, step] = [
        operands.scalar("start", start)?,
        operands.scalar("end", end)?,
        operands.scalar("step", step)?,
    ];
    let (first, by) = (start.to::<f64>(), step.to::<f64>());
    let steps = (end.to::<f64>() - first) / by;
    ensure!(by != 0.0 && steps >= 0.0;
        "no number of steps of {by} leads from {first} to {}", end.to::<f64>());
    let output = operands.target("out", output, &[REALS, INDICES].concat())?;
    check_size("out", &output, &[steps.ceil() as usize])?;
    // Integers stay exact; floats are rounded once, from f64.
    let whole = !start.is_float() && !step.is_float();
    let (first_whole, by_whole) = (start.to::<i64>(), step.to::<i64>());
    Ok(Arc::new(move |memory, operands| {
        let (output, count) = (&operands[0], operands[0].count());
        if whole {
            let values: Vec<i64> = (0..count as i64)
                .map(|at| first_whole + at * by_whole)
                .collect();
            return output.store_values(memory, &values);
        }
        let values: Vec<f64> = (0..count).map(|at| first + at as f64 * by).collect();
        output.store_values(memory, &values)
    }))
}

/// Writes `fill`, or the value of the third operand, to the first operand where the second is true.
fn masked_fill(dtype: aclDataType, fill: Option<Scalar>) -> Work {
    by_number!(dtype, T => Arc::new(move |memory, operands| {
        let (target, mask) = (&operands[0], &operands[1]);
        let fill: T = match fill {
            Some(fill) => fill.to(),
            None => operands[2].values(memory)?[0],
        };
        let mut values = target.values::<T>(memory)?;
        let mask = mask.expanded(&target.shape).values::<i64>(memory)?;
        for (value, masked) in values.iter_mut().zip(mask) {
            if masked != 0 {
                *value = fill;
            }
        }
        target.store_values(memory, &values)
    }))
}

/// Takes the tensor to fill and its mask.
fn masked(
    operands: &mut Operands,
    target: *const aclTensor,
    mask: *const aclTensor,
) -> Outcome<Tensor> {
    let target = operands.target("selfRef", target, USUAL)?;
    let mask = operands.view("mask", mask, &[ACL_BOOL])?;
    check_size("selfRef", &target, &broadcast(&target.shape, &mask.shape)?)?;
    Ok(target)
}

operator! { create: aclnnInplaceMaskedFillScalarGetWorkspaceSize, aclnnInplaceMaskedFillScalar(
    target, mask, fill
) |operands|
    let target = masked(operands, target, mask)?;
    let fill = operands.scalar_for("value", fill, &target)?;
    Ok(masked_fill(target.dtype, Some(fill)))
}

operator! { create: aclnnInplaceMaskedFillTensorGetWorkspaceSize, aclnnInplaceMaskedFillTensor(
    target, mask, fill
) |operands|
    let target = masked(operands, target, mask)?;
    let fill = operands.view("value", fill, &[target.dtype])?;
    ensure!(fill.count() == 1; "value has the shape {:?}; one element is needed", fill.shape);
    Ok(masked_fill(target.dtype, None))
}
