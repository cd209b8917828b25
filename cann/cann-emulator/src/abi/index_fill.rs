//! Filling the slices of an axis that indices name: integers on the host, or a tensor.

use crate::abi::index::places;
use crate::abi::prelude::*;

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
        _ => fail!("the index {index} is out of range; there are {limit}"),
    };
    index.iter().map(place).collect()
}

/// Takes the operands.
fn take(
    operands: &mut Operands,
    input: *const aclTensor,
    at: i64,
    index: &Slices,
    fill: *const aclScalar,
    to: To,
) -> Outcome<Work> {
    let input = to.input(operands, input, USUAL)?;
    let at = axis(&input, at)?;
    let named = match *index {
        Slices::Host(array) => {
            let index = operands.ints("index", array)?;
            Some(checked(&index, slices(&input, at))?)
        }
        Slices::Device(tensor) => {
            let index = operands.view("index", tensor, INDICES)?;
            ensure!(index.rank() <= 1; "index has {} axes; it takes one", index.rank());
            None
        }
    };
    let fill = operands.scalar("value", fill)?;
    to.like(operands, &input)?;
    let to_other = matches!(to, To::Output(_));
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

with_place! { index: aclnnIndexFillTensorGetWorkspaceSize, aclnnIndexFillTensor;
    aclnnInplaceIndexFillTensorGetWorkspaceSize, aclnnInplaceIndexFillTensor
    (input, at, index, fill) |operands, to|
    take(operands, input, at, &Slices::Host(index), fill, to)
}

with_place! { index: aclnnIndexFillGetWorkspaceSize, aclnnIndexFill;
    aclnnInplaceIndexFillGetWorkspaceSize, aclnnInplaceIndexFill
    (input, at, index, fill) |operands, to|
    take(operands, input, at, &Slices::Device(index), fill, to)
}
