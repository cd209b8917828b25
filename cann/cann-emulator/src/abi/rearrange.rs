//! Triangles, reversed axes, repeated rows, and sorting.

use std::ops::Range;

use crate::abi::prelude::*;
use crate::ops::index::{Around, order};
use crate::tensor::Source;

/// Returns the work that writes zeros on one side of a diagonal of the last two axes: below it if the upper triangle is
/// kept.
fn triangle(input: &Tensor, diagonal: i64, upper: bool) -> Outcome<Work> {
    ensure!(input.rank() >= 2; "self has {} axes; it takes two or more", input.rank());
    Ok(Arc::new(move |memory, operands| {
        let [input, rest @ ..] = operands else {
            unreachable!("taken before")
        };
        let output = rest.first().unwrap_or(input);
        let zeros = |row: usize, columns: usize| {
            let end = |column: i64| column.clamp(0, columns as i64) as usize;
            let first = diagonal.saturating_add(row as i64);
            match upper {
                true => 0..end(first),
                false => end(first.saturating_add(1))..columns,
            }
        };
        // Elements are copied as they are: zero has the same bytes in all types of a size.
        match tensor::size_of(input.dtype) {
            Some(1) => copy_triangle::<1>(memory, input, output, zeros),
            Some(2) => copy_triangle::<2>(memory, input, output, zeros),
            Some(4) => copy_triangle::<4>(memory, input, output, zeros),
            _ => copy_triangle::<8>(memory, input, output, zeros),
        }
    }))
}

/// Copies elements of `N` bytes, but zeros to some columns of each row.
fn copy_triangle<const N: usize>(
    memory: &mut Memory,
    input: &Tensor,
    output: &Tensor,
    zeros: impl Fn(usize, usize) -> Range<usize>,
) -> Outcome<()> {
    let [.., rows, columns] = input.shape[..] else {
        unreachable!("has two axes, as was checked")
    };
    let mut elements = input.read(memory, |bytes: [u8; N]| bytes)?;
    for (row, elements) in elements.chunks_exact_mut(columns.max(1)).enumerate() {
        elements[zeros(row % rows, columns)].fill([0; N]);
    }
    output.write(memory, Source::Each(&elements), |bytes| bytes)
}

/// Defines triangles and their forms in place.
macro_rules! triangles {
    ($($one:ident, $two:ident; $place_one:ident, $place_two:ident: $upper:literal;)*) => {$(
        with_place! { shape: $one, $two; $place_one, $place_two (input, diagonal) |operands, to|
            let input = to.input(operands, input, USUAL)?;
            to.like(operands, &input)?;
            triangle(&input, diagonal, $upper)
        }
    )*};
}

triangles! {
    aclnnTriuGetWorkspaceSize, aclnnTriu; aclnnInplaceTriuGetWorkspaceSize, aclnnInplaceTriu: true;
    aclnnTrilGetWorkspaceSize, aclnnTril; aclnnInplaceTrilGetWorkspaceSize, aclnnInplaceTril: false;
}

operator! { shape: aclnnFlipGetWorkspaceSize, aclnnFlip(input, axes, output) |operands|
    let input = operands.view("self", input, USUAL)?;
    let axes = operands.ints("dims", axes)?;
    let axes = axes.iter().map(|at| axis(&input, *at)).collect::<Outcome<Vec<_>>>()?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    ensure!(sorted.is_sorted_by(|left, right| left < right); "an axis is named twice in {axes:?}");
    operands.result("out", output, input.dtype, &input.shape)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        if operands[1].count() == 0 {
            return Ok(());
        }
        let mut values = operands[0].values::<T>(memory)?;
        for at in axes.iter().filter(|at| **at < operands[0].rank()) {
            let around = Around::of(&operands[0].shape, *at);
            let backwards: Vec<usize> = (0..around.length).rev().collect();
            values = around.select(&values, &backwards);
        }
        operands[1].store_values(memory, &values)
    })))
}

operator! { shape: aclnnRepeatInterleaveIntWithDimGetWorkspaceSize, aclnnRepeatInterleaveIntWithDim(
    input, repeats, at, output_size, output
) |operands|
    let input = operands.view("self", input, USUAL)?;
    ensure!(input.rank() > 0; "self has no axis to repeat along");
    let at = axis(&input, at)?;
    let count = usize::try_from(repeats).unwrap_or(0);
    let mut shape = input.shape.clone();
    shape[at] = shape[at].saturating_mul(count);
    ensure!(repeats >= 0 && usize::try_from(output_size) == Ok(shape[at]);
        "{repeats} repeats of {} make no outputSize of {output_size}", input.shape[at]);
    operands.result("out", output, input.dtype, &shape)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        if operands[1].count() == 0 {
            return Ok(());
        }
        let around = Around::of(&operands[0].shape, at);
        let rows: Vec<usize> =
            (0..around.length).flat_map(|row| std::iter::repeat_n(row, count)).collect();
        let values = around.select(&operands[0].values::<T>(memory)?, &rows);
        operands[1].store_values(memory, &values)
    })))
}

/// Sorts each run along an axis. Stores the first `kept` indices, and their values if requested.
fn sorted(input: &Tensor, at: usize, descending: bool, kept: usize, with_values: bool) -> Work {
    let mut axes: Vec<usize> = (0..input.rank()).collect();
    if !axes.is_empty() {
        axes.remove(at);
        axes.push(at);
    }
    by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let input = operands[0].permuted(&axes);
        let length = input.shape.last().copied().unwrap_or(1);
        let values = input.values::<T>(memory)?;
        let (mut chosen, mut places): (Vec<T>, Vec<i64>) = (Vec::new(), Vec::new());
        for run in values.chunks_exact(length.max(1)) {
            for place in order(run, descending).into_iter().take(kept) {
                chosen.push(run[place]);
                places.push(place as i64);
            }
        }
        let Some(indices) = operands.last() else { unreachable!("taken before") };
        if with_values {
            operands[1].permuted(&axes).store_values(memory, &chosen)?;
        }
        indices.permuted(&axes).store_values(memory, &places)
    }))
}

/// Takes an input and its axis.
fn input(operands: &mut Operands, input: *const aclTensor, at: i64) -> Outcome<(Tensor, usize)> {
    let input = operands.view("self", input, NUMBERS)?;
    let at = axis(&input, at)?;
    Ok((input, at))
}

operator! { reduce: aclnnSortGetWorkspaceSize, aclnnSort(
    tensor, _stable, at, descending, values_out, indices_out
) |operands|
    let (tensor, at) = input(operands, tensor, at)?;
    operands.result("valuesOut", values_out, tensor.dtype, &tensor.shape)?;
    operands.result("indicesOut", indices_out, ACL_INT64, &tensor.shape)?;
    Ok(sorted(&tensor, at, descending, usize::MAX, true))
}

operator! { reduce: aclnnArgsortGetWorkspaceSize, aclnnArgsort(
    tensor, at, descending, output
) |operands|
    let (tensor, at) = input(operands, tensor, at)?;
    operands.result("out", output, ACL_INT64, &tensor.shape)?;
    Ok(sorted(&tensor, at, descending, usize::MAX, false))
}

operator! { reduce: aclnnTopkGetWorkspaceSize, aclnnTopk(
    tensor, k, at, largest, _sorted, values_out, indices_out
) |operands|
    let (tensor, at) = input(operands, tensor, at)?;
    let length = tensor.shape.get(at).copied().unwrap_or(1);
    let kept = usize::try_from(k).unwrap_or(usize::MAX);
    ensure!(kept <= length; "k is {k}; the axis has {length} elements");
    let mut shape = tensor.shape.clone();
    if let Some(length) = shape.get_mut(at) {
        *length = kept;
    }
    operands.result("valuesOut", values_out, tensor.dtype, &shape)?;
    operands.result("indicesOut", indices_out, ACL_INT64, &shape)?;
    Ok(sorted(&tensor, at, largest, kept, true))
}
