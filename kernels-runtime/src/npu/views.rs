//! Views in the form that operators take.

use super::Result;
use burn_cann::{Layout, LayoutError, Spec, Stream, Tensor};

/// Returns the tensor itself if it is contiguous, otherwise a contiguous copy.
pub(crate) fn contiguous(stream: &Stream, tensor: &Tensor) -> Result<Tensor> {
    Ok(burn_cann::ops::contiguous(stream, tensor)?)
}

/// Returns a contiguous tensor, or a contiguous copy of another one, in a new shape.
pub(crate) fn reshaped(
    stream: &Stream,
    tensor: &Tensor,
    shape: impl AsRef<[usize]>,
) -> Result<Tensor> {
    Ok(contiguous(stream, tensor)?.reshape(shape)?)
}

/// Returns the layout for an operator over rows: the matrix `[rows, n]` if the tensor is contiguous, otherwise the
/// tensor's own layout. A vector gets a first axis of length 1.
pub(crate) fn as_rows(spec: &Spec) -> Result<Layout, LayoutError> {
    let layout = spec.layout.clone();
    let n = layout.shape().last().copied().unwrap_or(1);
    if layout.is_contiguous() {
        let rows = rows(spec);
        return layout.reshape([rows, n]);
    }
    if layout.rank() > 1 {
        return Ok(layout);
    }
    Layout::strided([1, n], [n, layout.strides()[0]], layout.offset())
}

/// Returns a tensor over the same rows in the shape of another one, in which an operator takes both.
pub(crate) fn in_shape_of(stream: &Stream, tensor: &Tensor, other: &Tensor) -> Result<Tensor> {
    if tensor.shape() == other.shape() {
        return Ok(tensor.clone());
    }
    reshaped(stream, tensor, other.shape())
}

/// Reshapes values, one for each row of `x`, to the shape of `x` with a last axis of length 1.
pub(crate) fn one_per_row(x: &Tensor, values: &Tensor) -> Result<Tensor> {
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = 1;
    }
    Ok(values.reshape(shape)?)
}

/// Returns the number of rows, which are slices along the last axis.
pub(crate) fn rows(spec: &Spec) -> usize {
    let kept = spec.rank().saturating_sub(1);
    spec.shape()[..kept].iter().product()
}

/// Returns the last axis, of `2 n`, as pairs of neighbours in two axes, `[.., 2, n]`: all first elements, then all
/// second elements.
pub(crate) fn neighbours(layout: &Layout) -> Result<Layout, LayoutError> {
    split_last(layout, |n, step| ([2, n], [step, 2 * step]))
}

/// Returns the last axis, of `2 n`, as halves in two axes, `[.., n, 2]`, with elements of the two halves in turn.
pub(crate) fn halves_by_turns(layout: &Layout) -> Result<Layout, LayoutError> {
    split_last(layout, |n, step| ([n, 2], [step, n * step]))
}

fn split_last(
    layout: &Layout,
    parts: impl Fn(usize, usize) -> ([usize; 2], [usize; 2]),
) -> Result<Layout, LayoutError> {
    let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    let (size, step) = (shape.pop().unwrap_or(0), strides.pop().unwrap_or(1));
    let (sizes, steps) = parts(size / 2, step);
    shape.extend(sizes);
    strides.extend(steps);
    Layout::strided(shape, strides, layout.offset())
}

/// Returns the layout of the rows `[.., 2n]` of one buffer, if `first` and `second` are their halves, side by side.
pub(crate) fn joined(first: &Layout, second: &Layout) -> Option<Layout> {
    let n = *first.shape().last()?;
    let neighbours = first.shape() == second.shape()
        && first.strides() == second.strides()
        && second.offset() == first.offset() + n
        && (n == 1 || first.strides().last() == Some(&1));
    if !neighbours || first.is_empty() {
        return None;
    }
    let (mut shape, mut strides) = (first.shape().to_vec(), first.strides().to_vec());
    let last = shape.len() - 1;
    shape[last] = 2 * n;
    strides[last] = 1;
    Layout::strided(shape, strides, first.offset()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_one_buffer_are_joined() {
        let packed = Layout::contiguous([3, 8]).unwrap();
        let gate = packed.clone().slice(1, 0..4).unwrap();
        let up = packed.clone().slice(1, 4..8).unwrap();
        assert_eq!(joined(&gate, &up), Some(packed.clone()));
        assert_eq!(joined(&up, &gate), None);
        let apart = Layout::contiguous([3, 4]).unwrap();
        assert_eq!(joined(&apart, &apart), None);
        // The rows of one tensor follow all rows of the other, and do not alternate with them.
        let second = Layout::strided([3, 4], [4, 1], 12).unwrap();
        assert_eq!(joined(&apart, &second), None);
        // One row is the first half of two rows.
        let one = Layout::contiguous([1, 4]).unwrap();
        let next = Layout::strided([1, 4], [4, 1], 4).unwrap();
        assert_eq!(joined(&one, &next).unwrap().shape(), [1, 8]);
    }

    #[test]
    fn neighbours_and_halves_undo_each_other() {
        let x = Layout::contiguous([2, 6]).unwrap();
        let pairs = neighbours(&x).unwrap();
        assert_eq!(
            (pairs.shape(), pairs.strides()),
            (&[2, 2, 3][..], &[6, 1, 2][..])
        );
        let back = halves_by_turns(&x).unwrap();
        assert_eq!(
            (back.shape(), back.strides()),
            (&[2, 3, 2][..], &[6, 1, 3][..])
        );
    }
}
