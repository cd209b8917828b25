//! Operators whose result has as many rows as are found. The output has room for all of them, and its descriptor gets
//! the shape of those that were found when the stream comes to the operator.

use std::sync::PoisonError;

use crate::abi::prelude::*;
use crate::object;

/// Gives the descriptor a contiguous shape, if it is still there.
pub(super) fn reshape(handle: usize, shape: &[usize]) {
    if let Ok(tensor) = object::tensor(handle) {
        let mut tensor = tensor.lock().unwrap_or_else(PoisonError::into_inner);
        tensor.strides = contiguous(shape);
        tensor.shape = shape.to_vec();
    }
}

/// Returns the part of an output that the rows found fill.
pub(super) fn part(output: &Tensor, shape: Vec<usize>) -> Outcome<Tensor> {
    ensure!(shape[0] <= output.shape[0];
        "{} rows were found, and out has room for {}", shape[0], output.shape[0]);
    Ok(Tensor {
        strides: contiguous(&shape),
        shape,
        ..output.clone()
    })
}

operator! { index: aclnnMaskedSelectGetWorkspaceSize, aclnnMaskedSelect(
    input, mask, output
) |operands|
    let input = operands.view("self", input, USUAL)?;
    let mask = operands.view("mask", mask, &[ACL_BOOL, ACL_UINT8])?;
    let shape = broadcast(&input.shape, &mask.shape)?;
    let handle = output as usize;
    let output = operands.target("out", output, &[input.dtype])?;
    ensure!(output.rank() == 1 && output.is_contiguous();
        "out has the shape {:?}; one contiguous axis is needed", output.shape);
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let [input, mask, out] = taken(operands);
        let values = input.expanded(&shape).values::<T>(memory)?;
        let mask = mask.expanded(&shape).values::<i64>(memory)?;
        let kept = values.into_iter().zip(mask).filter(|(_, kept)| *kept != 0);
        let chosen: Vec<T> = kept.map(|(value, _)| value).collect();
        part(out, vec![chosen.len()])?.store_values(memory, &chosen)?;
        reshape(handle, &[chosen.len()]);
        Ok(())
    })))
}

/// The places of an output's coordinates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// A row for each element found.
    Rows,
    /// A row for each axis.
    Columns,
}

impl Layout {
    /// Returns the shape of the coordinates of elements on axes.
    fn shape(self, found: usize, axes: usize) -> [usize; 2] {
        match self {
            Self::Rows => [found, axes],
            Self::Columns => [axes, found],
        }
    }
}

/// Returns the coordinates of places in a shape.
fn coordinates(shape: &[usize], found: &[i64], layout: Layout) -> Vec<i64> {
    let axes: Vec<(i64, i64)> = contiguous(shape)
        .into_iter()
        .zip(shape.iter().map(|length| *length as i64))
        .collect();
    let of = |place: &i64, (stride, length): &(i64, i64)| place / stride % length;
    match layout {
        Layout::Rows => found
            .iter()
            .flat_map(|place| axes.iter().map(move |axis| of(place, axis)))
            .collect(),
        Layout::Columns => axes
            .iter()
            .flat_map(|axis| found.iter().map(move |place| of(place, axis)))
            .collect(),
    }
}

/// Takes a tensor and the coordinates of its elements that are not zero.
fn nonzero(
    operands: &mut Operands,
    (input, output): (*const aclTensor, *const aclTensor),
    layout: Layout,
) -> Outcome<Work> {
    let input = operands.view("self", input, USUAL)?;
    let handle = output as usize;
    let output = operands.target("out", output, &[ACL_INT64])?;
    ensure!(output.rank() == 2 && output.is_contiguous();
        "out has the shape {:?}; two contiguous axes are needed", output.shape);
    let room = output.shape[usize::from(layout == Layout::Columns)];
    check_size("out", &output, &layout.shape(room, input.rank()))?;
    Ok(
        by_number!(input.dtype, T => Arc::new(move |memory, operands| {
            let [input, out] = taken(operands);
            let values = input.values::<T>(memory)?;
            let found: Vec<i64> = (0..values.len())
                .filter(|place| values[*place].is_true())
                .map(|place| place as i64)
                .collect();
            ensure!(found.len() <= room;
                "{} elements were found, and out has room for {room}", found.len());
            let shape = layout.shape(found.len(), input.rank());
            let values = coordinates(&input.shape, &found, layout);
            part(out, shape.to_vec())?.store_values(memory, &values)?;
            reshape(handle, &shape);
            Ok(())
        })),
    )
}

/// Defines searches for elements that are not zero.
macro_rules! nonzeros {
    ($($one:ident, $two:ident: $layout:expr;)*) => {$(
        operator! { index: $one, $two(input, output) |operands|
            nonzero(operands, (input, output), $layout)
        }
    )*};
}

nonzeros! {
    aclnnNonzeroGetWorkspaceSize, aclnnNonzero: Layout::Rows;
    aclnnNonzeroV2GetWorkspaceSize, aclnnNonzeroV2: Layout::Columns;
}
