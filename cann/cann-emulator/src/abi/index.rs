//! Selecting and adding by indices, and embeddings.
//!
//! An index out of range breaks the stream. A device would read or write elsewhere.

use crate::abi::prelude::*;
use crate::ops::arithmetic::Arithmetic;
use crate::ops::index::{Around, named_places};

/// Returns the indices, each of which must be below `limit`.
pub(super) fn places(memory: &Memory, index: &Tensor, limit: usize) -> Outcome<Vec<usize>> {
    let place = |index: i64| match usize::try_from(index) {
        Ok(place) if place < limit => Ok(place),
        _ => fail!("the index {index} is out of range; there are {limit}"),
    };
    index
        .values::<i64>(memory)?
        .into_iter()
        .map(place)
        .collect()
}

/// Returns an axis of a tensor that has axes.
pub(super) fn own_axis(tensor: &Tensor, at: i64) -> Outcome<usize> {
    ensure!(tensor.rank() > 0; "a tensor without axes has nothing to index");
    axis(tensor, at)
}

operator! { index: aclnnIndexSelectGetWorkspaceSize, aclnnIndexSelect(
    input, at, index, output
) |operands|
    let input = operands.view("self", input, USUAL)?;
    let at = own_axis(&input, at)?;
    let index = operands.view("index", index, INDICES)?;
    ensure!(index.rank() <= 1; "index has {} axes; it takes one", index.rank());
    let mut shape = input.shape.clone();
    shape[at] = index.count();
    operands.result("out", output, input.dtype, &shape)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let [input, index, out] = taken(operands);
        let index = places(memory, index, input.shape[at])?;
        let values = Around::of(&input.shape, at).select(&input.values::<T>(memory)?, &index);
        out.store_values(memory, &values)
    })))
}

/// Fails if `inner` reaches beyond `outer` on an axis other than `free`.
pub(super) fn check_within(
    name: &str,
    inner: &Tensor,
    outer: &Tensor,
    free: Option<usize>,
) -> Outcome<()> {
    let lengths = inner.shape.iter().zip(&outer.shape).enumerate();
    let fits = inner.rank() == outer.rank()
        && lengths
            .filter(|(at, _)| Some(*at) != free)
            .all(|(_, (inner, outer))| inner <= outer);
    ensure!(fits; "{name} has the shape {:?}, which is not within {:?}", inner.shape, outer.shape);
    Ok(())
}

operator! { index: aclnnGatherGetWorkspaceSize, aclnnGather(input, at, index, output) |operands|
    let input = operands.view("self", input, USUAL)?;
    let at = own_axis(&input, at)?;
    let index = operands.view("index", index, INDICES)?;
    check_within("index", &index, &input, Some(at))?;
    operands.result("out", output, input.dtype, &index.shape)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let [input, index, out] = taken(operands);
        let named = places(memory, index, input.shape[at])?;
        let values = input.values::<T>(memory)?;
        let named = named_places(&index.shape, &input.shape, at, &named);
        let chosen: Vec<T> = named.into_iter().map(|place| values[place]).collect();
        out.store_values(memory, &chosen)
    })))
}

operator! { index: aclnnIndexAddGetWorkspaceSize, aclnnIndexAdd(
    input, at, index, source, alpha, output
) |operands|
    let input = operands.view("self", input, NUMBERS)?;
    let at = own_axis(&input, at)?;
    let index = operands.view("index", index, INDICES)?;
    ensure!(index.rank() <= 1; "index has {} axes; it takes one", index.rank());
    let source = operands.view("source", source, &[input.dtype])?;
    let mut shape = input.shape.clone();
    shape[at] = index.count();
    check_size("source", &source, &shape)?;
    let alpha = operands.scalar_for("alpha", alpha, &input)?;
    operands.result("out", output, input.dtype, &input.shape)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let [input, index, source, out] = taken(operands);
        let index = places(memory, index, input.shape[at])?;
        let (mut values, source) = (input.values::<T>(memory)?, source.values::<T>(memory)?);
        let alpha: T = alpha.to();
        Around::of(&input.shape, at).add(&mut values, &source, &index, |value, source| {
            value.add(alpha.mul(source))
        });
        out.store_values(memory, &values)
    })))
}

operator! { index: aclnnEmbeddingGetWorkspaceSize, aclnnEmbedding(
    weight, indices, output
) |operands|
    let weight = operands.view("weight", weight, USUAL)?;
    let [_, width] = weight.shape[..] else {
        fail!("weight has {} axes; it takes two", weight.rank())
    };
    let indices = operands.view("indices", indices, INDICES)?;
    let shape = [&indices.shape[..], &[width]].concat();
    operands.result("out", output, weight.dtype, &shape)?;
    Ok(by_number!(weight.dtype, T => Arc::new(|memory, operands| {
        let [weight, indices, out] = taken(operands);
        let indices = places(memory, indices, weight.shape[0])?;
        // The table is read row by row, so that the whole table is not converted.
        let mut row = Tensor { shape: vec![1, weight.shape[1]], ..weight.clone() };
        let mut values = Vec::with_capacity(out.count());
        for index in indices {
            row.offset = weight.offset + index as i64 * weight.strides[0];
            values.extend(row.values::<T>(memory)?);
        }
        out.store_values(memory, &values)
    })))
}

operator! { index: aclnnEmbeddingDenseBackwardGetWorkspaceSize, aclnnEmbeddingDenseBackward(
    gradient, indices, num_weights, padding_idx, scale_grad_by_freq, output
) |operands|
    let gradient = operands.view("grad", gradient, FLOATS)?;
    let indices = operands.view("indices", indices, INDICES)?;
    let Some((width, rows)) = gradient.shape.split_last() else {
        fail!("grad has no axes")
    };
    ensure!(rows == indices.shape;
        "grad has the shape {:?}; that of indices, {:?}, is needed before its last axis",
        gradient.shape, indices.shape);
    let (count, width) = (num_weights as usize, *width);
    operands.result("out", output, gradient.dtype, &[count, width])?;
    Ok(Arc::new(move |memory, operands| {
        let [gradient, indices, out] = taken(operands);
        let indices = places(memory, indices, count)?;
        let gradient = gradient.floats(memory)?;
        let mut uses = vec![0_u32; count];
        indices.iter().for_each(|index| uses[*index] += 1);
        let mut sums = vec![0.0; count * width];
        for (row, index) in indices.iter().enumerate() {
            if *index as u64 == padding_idx {
                continue;
            }
            let scale = if scale_grad_by_freq {
                uses[*index] as f32
            } else {
                1.0
            };
            let sums = &mut sums[index * width..][..width];
            for (sum, gradient) in sums.iter_mut().zip(&gradient[row * width..][..width]) {
                *sum += gradient / scale;
            }
        }
        out.store(memory, &sums)
    }))
}
