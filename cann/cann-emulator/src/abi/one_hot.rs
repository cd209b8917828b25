//! Rows that are on at one place.

use crate::abi::prelude::*;

/// Returns the axis of the classes in the result.
fn place(axis: i64, rank: usize) -> Outcome<usize> {
    let rank = rank as i64;
    ensure!((-1..=rank).contains(&axis); "axis is {axis}; it is -1 to {rank}");
    Ok(if axis == -1 { rank } else { axis } as usize)
}

/// Takes one value of the result's dtype.
fn value(operands: &mut Operands, name: &str, value: *const aclTensor) -> Outcome<Tensor> {
    let value = operands.view(name, value, USUAL)?;
    ensure!(value.count() == 1; "{name} has the shape {:?}; one element is needed", value.shape);
    Ok(value)
}

// The row of an index outside of the classes is off everywhere.
operator! { index: aclnnOneHotGetWorkspaceSize, aclnnOneHot(
    input, classes, on, off, axis, output
) |operands|
    let input = operands.view("self", input, &[ACL_INT64, ACL_INT32, ACL_UINT8])?;
    ensure!(classes >= 0; "numClasses is {classes}");
    let on = value(operands, "onValue", on)?;
    let off = value(operands, "offValue", off)?;
    ensure!(on.dtype == off.dtype; "onValue and offValue have different dtypes");
    let at = place(axis, input.rank())?;
    let mut shape = input.shape.clone();
    shape.insert(at, classes as usize);
    operands.result("out", output, on.dtype, &shape)?;
    let inner: usize = input.shape[at..].iter().product();
    let classes = classes as usize;
    Ok(by_number!(on.dtype, T => Arc::new(move |memory, operands| {
        let indices = operands[0].values::<i64>(memory)?;
        let on = operands[1].values::<T>(memory)?[0];
        let off = operands[2].values::<T>(memory)?[0];
        let mut values = vec![off; indices.len() * classes];
        for (at, index) in indices.into_iter().enumerate() {
            if let Ok(class) = usize::try_from(index) && class < classes {
                values[(at / inner * classes + class) * inner + at % inner] = on;
            }
        }
        operands[3].store_values(memory, &values)
    })))
}
