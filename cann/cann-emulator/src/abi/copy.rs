//! Copies and conversions: of dtypes, of layouts, and of several tensors into one.

use crate::abi::prelude::*;

/// Writes the values of `from`, broadcast, to `to`.
pub(super) fn copy(memory: &mut Memory, from: &Tensor, to: &Tensor) -> Outcome<()> {
    by_number!(from.dtype, T => {
        let values = from.expanded(&to.shape).values::<T>(memory)?;
        to.store_values(memory, &values)
    })
}

operator! { shape: aclnnCastGetWorkspaceSize, aclnnCast(input, to_dtype, output) |operands|
    let input = operands.view("self", input, ALL)?;
    let output = operands.result("out", output, to_dtype, &input.shape)?;
    check_dtype("out", &output, ALL)?;
    Ok(Arc::new(|memory, operands| {
        copy(memory, &operands[0], &operands[1])
    }))
}

operator! { shape: aclnnInplaceCopyGetWorkspaceSize, aclnnInplaceCopy(target, src) |operands|
    let target = operands.target("selfRef", target, ALL)?;
    let src = operands.view("src", src, ALL)?;
    check_size("selfRef", &target, &broadcast(&target.shape, &src.shape)?)?;
    Ok(Arc::new(|memory, operands| {
        copy(memory, &operands[1], &operands[0])
    }))
}

/// Returns the axis and the shape of concatenated tensors. Tensors with one axis and no elements don't count.
fn side_by_side(tensors: &[Tensor], at: i64) -> Outcome<(usize, Vec<usize>)> {
    let counted = |tensor: &&Tensor| tensor.shape != [0];
    let first = tensors.iter().find(counted).or(tensors.first());
    ensure!(first.is_some(); "no tensors are given");
    let first = first.expect("checked above");
    ensure!(first.rank() > 0; "a tensor has no axis to put another beside it");
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
        ensure!(fits && expected == tensor.shape;
            "tensors of shapes {:?} and {:?} do not fit beside each other on axis {at}",
            first.shape, tensor.shape);
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

operator! { shape: aclnnStackGetWorkspaceSize, aclnnStack(tensors, at, output) |operands|
    let tensors = operands.list("tensors", tensors, false)?;
    ensure!(!tensors.is_empty(); "no tensors are given");
    let dtype = common_dtype(&tensors)?;
    for tensor in &tensors {
        check_size("a tensor", tensor, &tensors[0].shape)?;
    }
    // The new axis may be behind the last one.
    let axes = tensors[0].rank() as i64 + 1;
    ensure!((-axes..axes).contains(&at); "a tensor of {axes} axes has no axis {at}");
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
}

operator! { shape: aclnnCatGetWorkspaceSize, aclnnCat(tensors, at, output) |operands|
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
}
