//! Operators whose result is a view of their operand, copied: other orders of axes, repetitions, parts and turns.

use super::copy::copy;
use crate::abi::prelude::*;
use crate::ops::index::Around;

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

operator! { shape: aclnnPermuteGetWorkspaceSize, aclnnPermute(input, axes, output) |operands|
    let input = operands.view("self", input, ALL)?;
    let axes = operands.ints("dims", axes)?;
    let order: Vec<usize> = axes.iter().map(|at| axis(&input, *at)).collect::<Outcome<_>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    ensure!(sorted.iter().copied().eq(0..input.rank());
        "dims is {axes:?}; each of {} axes is needed once", input.rank());
    let view = input.permuted(&order);
    copied(operands, &view, output, move |input| input.permuted(&order))
}

operator! { shape: aclnnExpandGetWorkspaceSize, aclnnExpand(input, shape, output) |operands|
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
    let shape = lengths.collect::<Option<Vec<usize>>>().filter(|_| missing.is_some());
    ensure!(shape.is_some();
        "self has the shape {:?}, which does not expand to {size:?}", input.shape);
    let shape = shape.unwrap_or_default();
    let view = input.expanded(&shape);
    copied(operands, &view, output, move |input| input.expanded(&shape))
}

operator! { shape: aclnnSliceGetWorkspaceSize, aclnnSlice(
    input, at, start, end, step, output
) |operands|
    let input = operands.view("self", input, ALL)?;
    ensure!(input.rank() > 0; "self has no axis to slice");
    let at = axis(&input, at)?;
    ensure!(step > 0; "step is {step}; it is positive");
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
}

operator! { shape: aclnnRepeatGetWorkspaceSize, aclnnRepeat(input, repeats, output) |operands|
    let input = operands.view("self", input, USUAL)?;
    let repeats = operands.ints("repeats", repeats)?;
    ensure!(repeats.len() >= input.rank() && repeats.iter().all(|count| *count >= 0);
        "repeats is {repeats:?}; counts are needed for {} axes or more", input.rank());
    let counts: Vec<usize> = repeats.iter().map(|count| *count as usize).collect();
    let mut whole = vec![1; counts.len() - input.rank()];
    whole.extend(&input.shape);
    let shape: Vec<usize> = whole
        .iter()
        .zip(&counts)
        .map(|(own, count)| own.saturating_mul(*count))
        .collect();
    operands.result("out", output, input.dtype, &shape)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
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
    })))
}

/// The dtypes that 8.1's header names for turns.
const TURNED: &[aclDataType] = &[F32, F16, BF16, I8, U8, I32, U32, BOOL];

operator! { shape: aclnnRollGetWorkspaceSize, aclnnRoll(input, shifts, axes, output) |operands|
    let input = operands.view("x", input, TURNED)?;
    let shifts = operands.ints("shifts", shifts)?;
    let axes = operands.ints("dims", axes)?;
    // Without axes all elements are one axis, as in PyTorch.
    let flat = axes.is_empty() && shifts.len() == 1;
    ensure!(flat || axes.len() == shifts.len();
        "shifts is {shifts:?} and dims {axes:?}; each shift has its axis");
    let axes: Vec<usize> = match flat {
        true => vec![0],
        false => axes.iter().map(|at| axis(&input, *at)).collect::<Outcome<_>>()?,
    };
    let shape = match flat || input.rank() == 0 {
        true => vec![input.count()],
        false => input.shape.clone(),
    };
    operands.result("out", output, input.dtype, &input.shape)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
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
    })))
}
