//! Views: other strides over the same memory.

use std::sync::atomic::{AtomicU64, Ordering};

use burn_backend::{Shape, Slice};

use super::error::{Declined, Native};
use super::native::sort;
use super::tensor::CannTensor;
use crate::Layout;

/// Returns a view of `tensor`'s memory with `layout`.
pub(super) fn with_layout(tensor: &CannTensor, layout: Layout) -> Native<CannTensor> {
    Ok(tensor.with(tensor.tensor.with_layout(layout)?))
}

/// Returns a view with two dimensions exchanged.
pub(super) fn swap_dims(tensor: &CannTensor, one: usize, other: usize) -> Native<CannTensor> {
    with_layout(
        tensor,
        tensor.tensor.layout().clone().transpose(one, other)?,
    )
}

/// Returns a view with the dimensions in another order.
pub(super) fn permute(tensor: &CannTensor, axes: &[usize]) -> Native<CannTensor> {
    let layout = tensor.tensor.layout();
    let pick = |of: &[usize]| axes.iter().map(|&axis| of[axis]).collect::<Vec<_>>();
    let (shape, strides) = (pick(layout.shape()), pick(layout.strides()));
    with_layout(tensor, Layout::strided(shape, strides, layout.offset())?)
}

/// Returns ranges of dimensions, with steps. CANN's strides can't be negative, so the device copies and reverses the
/// dimensions that run backwards.
pub(super) fn slice(tensor: &CannTensor, slices: &[Slice]) -> Native<CannTensor> {
    let (layout, backwards) = sliced(tensor.tensor.layout(), slices)?;
    sort::flip(&with_layout(tensor, layout)?, &backwards)
}

/// Returns the part of `layout` that `slices` describe, forwards, and the dimensions that run backwards.
pub(super) fn sliced(layout: &Layout, slices: &[Slice]) -> Native<(Layout, Vec<usize>)> {
    let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    let (mut offset, mut backwards) = (layout.offset(), Vec::new());
    for (dim, slice) in slices.iter().enumerate().take(shape.len()) {
        let range = slice.to_range(shape[dim]);
        let (length, step) = (slice.output_size(shape[dim]), slice.step.unsigned_abs());
        if length > 0 {
            let first = if slice.is_reversed() {
                range.end - 1 - (length - 1) * step
            } else {
                range.start
            };
            offset += first * strides[dim];
        }
        if slice.is_reversed() && length > 1 {
            backwards.push(dim);
        }
        shape[dim] = length;
        strides[dim] *= step;
    }
    if shape.contains(&0) {
        offset = layout.offset();
    }
    Ok((Layout::strided(shape, strides, offset)?, backwards))
}

/// Returns a view with dimensions of size 1 repeated and new ones in front, with strides of zero.
pub(super) fn expand(tensor: &CannTensor, shape: Shape) -> Native<CannTensor> {
    with_layout(tensor, expanded(tensor.tensor.layout(), shape.as_slice())?)
}

/// Returns `layout` repeated to `shape`.
pub(super) fn expanded(layout: &Layout, shape: &[usize]) -> Native<Layout> {
    let new = shape.len().checked_sub(layout.rank());
    let new = new.ok_or_else(|| Declined::because("an expansion to fewer dimensions"))?;
    let mut strides = vec![0; new];
    for ((&size, &stride), &wanted) in layout
        .shape()
        .iter()
        .zip(layout.strides())
        .zip(&shape[new..])
    {
        if size == wanted {
            strides.push(stride);
        } else if size == 1 {
            strides.push(0);
        } else {
            let reason = format!("shape {:?} can't be expanded to {shape:?}", layout.shape());
            return Err(Declined::because(reason));
        }
    }
    Ok(Layout::strided(shape, strides, layout.offset())?)
}

/// Returns windows of `size` along `dim`, `step` apart, in a new last dimension.
pub(super) fn unfold(
    tensor: &CannTensor,
    dim: usize,
    size: usize,
    step: usize,
) -> Native<CannTensor> {
    let layout = tensor.tensor.layout();
    let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    if size > shape[dim] || step == 0 || size == 0 {
        return Err(Declined::because("no window fits"));
    }
    shape[dim] = (shape[dim] - size) / step + 1;
    shape.push(size);
    strides.push(strides[dim]);
    strides[dim] *= step;
    with_layout(tensor, Layout::strided(shape, strides, layout.offset())?)
}

/// Returns the same elements in another shape: a view if strides can express it, else a copy.
pub(super) fn reshape(tensor: &CannTensor, shape: Shape) -> Native<CannTensor> {
    let layout = tensor.tensor.layout();
    match reshaped(layout, shape.as_slice()) {
        Some(layout) => with_layout(tensor, layout),
        None => {
            let copy = contiguous(tensor)?;
            let layout = copy.tensor.layout().clone().reshape(shape.as_slice())?;
            with_layout(&copy, layout)
        }
    }
}

/// Returns the tensor itself if it is contiguous, else a contiguous copy, which is counted.
pub(super) fn contiguous(tensor: &CannTensor) -> crate::Result<CannTensor> {
    if tensor.tensor.layout().is_contiguous() {
        return Ok(tensor.clone());
    }
    let copy = crate::ops::contiguous(&tensor.place.stream, &tensor.tensor)?;
    COPIES.fetch_add(1, Ordering::Relaxed);
    Ok(tensor.with(copy))
}

static COPIES: AtomicU64 = AtomicU64::new(0);

/// Returns how often the device copied elements only to make them contiguous, for a reshape that strides can't express
/// or for an operator that needs it.
pub fn copies() -> u64 {
    COPIES.load(Ordering::Relaxed)
}

/// Returns `layout` in another shape, if strides can express it.
///
/// Dimensions whose strides continue each other form a run, and each run is split into the new dimensions.
fn reshaped(layout: &Layout, shape: &[usize]) -> Option<Layout> {
    if layout.len() != shape.iter().product::<usize>() {
        return None;
    }
    if layout.is_contiguous() {
        return layout.clone().reshape(shape).ok();
    }
    let mut strides = vec![0; shape.len()];
    let mut place = shape.len();
    for (length, step) in runs(layout).into_iter().rev() {
        let (mut filled, mut stride) = (1, step);
        while filled < length {
            place = place.checked_sub(1)?;
            strides[place] = stride;
            filled *= shape[place];
            stride *= shape[place];
        }
        if filled != length {
            return None;
        }
    }
    // The rest are dimensions of size 1, whose strides don't matter.
    Layout::strided(shape, strides, layout.offset()).ok()
}

/// Returns the lengths and strides of the runs of `layout`, outermost first, without dimensions of size 1.
fn runs(layout: &Layout) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
        if size == 1 {
            continue;
        }
        match runs.last_mut() {
            Some((length, step)) if *step == size * stride => {
                *length *= size;
                *step = stride;
            }
            _ => runs.push((size, stride)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the positions of a layout's elements, in order.
    fn places(layout: &Layout) -> Vec<usize> {
        let mut places = vec![layout.offset()];
        for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
            places = places
                .iter()
                .flat_map(|place| (0..size).map(move |index| place + index * stride))
                .collect();
        }
        places
    }

    /// Returns every shape with `count` elements of up to four dimensions of sizes 1, 2, 3, 4, 6 or 12.
    fn shapes(count: usize) -> Vec<Vec<usize>> {
        let mut all = vec![vec![]];
        let mut longest = all.clone();
        for _ in 0..4 {
            longest = longest
                .iter()
                .flat_map(|shape: &Vec<usize>| {
                    [1, 2, 3, 4, 6, 12].map(|size| [shape.as_slice(), &[size]].concat())
                })
                .collect();
            all.extend(longest.clone());
        }
        all.retain(|shape| shape.iter().product::<usize>() == count);
        all
    }

    #[test]
    fn a_reshape_without_a_copy_keeps_the_order_and_none_is_missed() {
        let base = Layout::contiguous([2, 3, 4]).unwrap();
        let layouts = [
            base.clone().transpose(0, 2).unwrap(),
            base.clone().transpose(0, 1).unwrap(),
            base.clone().slice(1, 0..2).unwrap(),
            base.clone().slice(2, 1..3).unwrap(),
            base.clone().slice(0, 1..2).unwrap(),
            Layout::strided([2, 2, 3], [0, 3, 1], 1).unwrap(),
            Layout::strided([2, 6], [0, 0], 1).unwrap(),
            base,
        ];
        for layout in layouts {
            let order = places(&layout);
            for shape in shapes(layout.len()) {
                match reshaped(&layout, &shape) {
                    Some(view) => assert_eq!(places(&view), order, "{layout:?} as {shape:?}"),
                    None => assert!(!sayable(&order, &shape), "{layout:?} as {shape:?}"),
                }
            }
        }
    }

    /// Returns `true` if some strides express the positions. Such strides must be the first step along each dimension.
    fn sayable(order: &[usize], shape: &[usize]) -> bool {
        let mut step = 1;
        let mut strides = vec![0; shape.len()];
        for (stride, &size) in strides.iter_mut().zip(shape).rev() {
            if size > 1 {
                match order[step].checked_sub(order[0]) {
                    Some(found) => *stride = found,
                    None => return false,
                }
            }
            step *= size;
        }
        places(&Layout::strided(shape, strides, order[0]).unwrap()) == order
    }

    #[test]
    fn an_expansion_repeats() {
        let layout = Layout::strided([3, 1], [1, 7], 2).unwrap();
        let wide = expanded(&layout, &[2, 3, 2]).unwrap();
        assert_eq!(places(&wide), [2, 2, 3, 3, 4, 4, 2, 2, 3, 3, 4, 4]);
        assert!(expanded(&layout, &[2, 2]).is_err());
        assert!(expanded(&layout, &[3]).is_err());
    }

    #[test]
    fn slices_with_steps() {
        let layout = Layout::contiguous([7]).unwrap();
        let slice = |start, end, step| {
            let slice = Slice::new(start, end, step);
            let (layout, backwards) = sliced(&layout, &[slice]).ok().unwrap();
            (places(&layout), backwards)
        };
        assert_eq!(slice(1, Some(6), 2), (vec![1, 3, 5], vec![]));
        assert_eq!(slice(-3, None, 1), (vec![4, 5, 6], vec![]));
        assert_eq!(slice(4, Some(2), 1), (vec![], vec![]));
        assert_eq!(slice(2, Some(3), -1), (vec![2], vec![]));
        assert_eq!(slice(0, Some(4), -4), (vec![3], vec![]));
        assert_eq!(slice(0, None, -2), (vec![0, 2, 4, 6], vec![0]));
        assert_eq!(slice(0, Some(6), -2), (vec![1, 3, 5], vec![0]));
    }
}
