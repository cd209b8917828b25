//! The bytes that operations allocate, computed before they run.
//!
//! All arithmetic saturates. A size that no machine has is [`TOO_MANY`], and never wraps around to a small number.

mod layers;

pub(super) use layers::*;

use super::tensor::Held;
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use kernels_runtime::__serving::elements;

/// More bytes than one allocation can have.
pub(super) const TOO_MANY: usize = usize::MAX;

/// The bytes of an element that holds a place or a statistic next to an operation's values.
const WIDEST: usize = 8;

/// The bytes that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::remote) struct Need {
    /// The maximum number of bytes that it allocates.
    pub(super) made: usize,
    /// The bytes that a view of memory shows. An operation on the view may have to copy them.
    pub(super) shown: usize,
}

impl From<usize> for Need {
    fn from(made: usize) -> Self {
        Self { made, shown: 0 }
    }
}

/// Returns the bytes of an element. Quantised values share bytes, so one byte for each is an upper bound.
pub(super) fn width(dtype: DType) -> usize {
    dtype.size().max(1)
}

/// Returns the bytes of a new tensor.
pub(in crate::remote) fn made(shape: &[usize], dtype: impl Into<DType>) -> usize {
    elements(shape).saturating_mul(width(dtype.into()))
}

/// Returns the bytes of a tensor's elements, each counted once.
pub(super) fn like<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    made(&tensor.sizes(), tensor.dtype())
}

/// Returns the bytes of a tensor's elements in another type.
pub(super) fn cast<T: TensorMetadata>(tensor: &Held<T>, dtype: impl Into<DType>) -> usize {
    made(&tensor.sizes(), dtype)
}

/// Returns the bytes of a tensor's elements in f32 for half types, which are computed in f32. Returns zero for other
/// types.
pub(super) fn widened<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => cast(tensor, DType::F32),
        _ => 0,
    }
}

/// Returns the shape that two shapes broadcast to.
fn broadcast(one: &[usize], other: &[usize]) -> Vec<usize> {
    let rank = one.len().max(other.len());
    let size = |sizes: &[usize], dim: usize| {
        let missing = rank - sizes.len();
        dim.checked_sub(missing).map_or(1, |dim| sizes[dim])
    };
    let sizes = (0..rank).map(|dim| size(one, dim).max(size(other, dim)));
    sizes.collect()
}

/// Returns the bytes of an element-wise result of two tensors.
pub(super) fn both<A: TensorMetadata, B: TensorMetadata>(one: &Held<A>, other: &Held<B>) -> usize {
    let sizes = broadcast(&one.sizes(), &other.sizes());
    elements(&sizes).saturating_mul(width(one.dtype()).max(width(other.dtype())))
}

/// Returns the bytes of an element-wise result of three tensors.
pub(super) fn all_three<A: TensorMetadata, B: TensorMetadata, C: TensorMetadata>(
    one: &Held<A>,
    second: &Held<B>,
    third: &Held<C>,
) -> usize {
    let sizes = broadcast(&broadcast(&one.sizes(), &second.sizes()), &third.sizes());
    elements(&sizes).saturating_mul(width(one.dtype()).max(width(third.dtype())))
}

/// Returns a sum of bytes.
pub(super) fn sum(parts: impl IntoIterator<Item = usize>) -> usize {
    parts.into_iter().fold(0, usize::saturating_add)
}

/// Returns the bytes of a product of matrices, which are the last two dimensions. The dimensions before them are
/// broadcast.
pub(super) fn product<T: TensorMetadata>(lhs: &Held<T>, rhs: &Held<T>) -> usize {
    let (a, b) = (lhs.sizes(), rhs.sizes());
    let ([.., rows, _], [.., columns]) = (&a[..], &b[..]) else {
        // The operation itself reports the error.
        return both(lhs, rhs);
    };
    let mut sizes = broadcast(&a[..a.len() - 2], &b[..b.len().saturating_sub(2)]);
    sizes.extend([*rows, *columns]);
    let result = made(&sizes, lhs.dtype());
    let wide = match lhs.dtype() {
        DType::F16 | DType::BF16 => made(&sizes, DType::F32),
        _ => 0,
    };
    sum([result, wide, widened(lhs), widened(rhs)])
}

/// Returns the size of a dimension, or 1 if it does not exist.
pub(super) fn size<T: TensorMetadata>(tensor: &Held<T>, dim: usize) -> usize {
    tensor.sizes().get(dim).copied().unwrap_or(1)
}

/// Returns the size of the last dimension.
pub(super) fn last<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    tensor.sizes().last().copied().unwrap_or(1)
}

/// Returns the bytes of values and places of a reduction along a dimension.
pub(super) fn reduced<T: TensorMetadata>(tensor: &Held<T>, dim: usize) -> usize {
    reduced_along(tensor, &[dim])
}

/// Returns the bytes of a reduction along several dimensions. Dimensions of size 0 are also reduced to one, so an empty
/// tensor may have a result with elements.
pub(super) fn reduced_along<T: TensorMetadata>(tensor: &Held<T>, dims: &[usize]) -> usize {
    let mut sizes = tensor.sizes();
    for dim in dims {
        if let Some(size) = sizes.get_mut(*dim) {
            *size = 1;
        }
    }
    let left = elements(&sizes).saturating_mul(2 * WIDEST);
    sum([left, widened(tensor)])
}

/// Returns the bytes of a reduction of all elements.
pub(super) fn reduced_to_one<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    sum([2 * WIDEST, widened(tensor)])
}

/// Returns the bytes of sorted values, their places and the memory that sorting needs.
pub(super) fn sorted<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    elements(&tensor.sizes()).saturating_mul(4 * WIDEST)
}

/// Returns the bytes of the elements that the indices name, one element for each.
pub(super) fn picked<A: TensorMetadata, B: TensorMetadata>(
    tensor: &Held<A>,
    indices: &Held<B>,
) -> usize {
    sum([
        made(&indices.sizes(), tensor.dtype()),
        cast(indices, DType::I64),
    ])
}

/// Returns the bytes of the slices that the indices name along a dimension.
pub(super) fn selected<A: TensorMetadata, B: TensorMetadata>(
    tensor: &Held<A>,
    dim: usize,
    indices: &Held<B>,
) -> usize {
    let mut sizes = tensor.sizes();
    if let Some(size) = sizes.get_mut(dim) {
        *size = elements(&indices.sizes());
    }
    sum([made(&sizes, tensor.dtype()), cast(indices, DType::I64)])
}

/// Returns the bytes of the slices of `data` that the rows of `indices` name.
pub(super) fn selected_nd<A: TensorMetadata, B: TensorMetadata>(
    data: &Held<A>,
    indices: &Held<B>,
) -> usize {
    let (of_data, of_indices) = (data.sizes(), indices.sizes());
    let Some((named, rows)) = of_indices.split_last() else {
        return like(data);
    };
    let slice = of_data.get(*named..).unwrap_or(&[]);
    let result = made(&[elements(rows), elements(slice)], data.dtype());
    sum([result, cast(indices, DType::I64)])
}

/// Returns the bytes of a row of a table for each index.
pub(super) fn embedded<A: TensorMetadata, B: TensorMetadata>(
    table: &Held<A>,
    indices: &Held<B>,
) -> usize {
    let rows = elements(&indices.sizes());
    sum([
        made(&[rows, last(table)], table.dtype()),
        cast(indices, DType::I64),
    ])
}

/// Returns the need of a view of another shape.
pub(super) fn shown<T: TensorMetadata>(tensor: &Held<T>, shape: &Shape) -> Need {
    let shown = made(shape.as_slice(), tensor.dtype());
    Need { made: 0, shown }
}

/// Returns the need of windows along a dimension.
pub(super) fn windows<T: TensorMetadata>(
    tensor: &Held<T>,
    dim: usize,
    size: usize,
    step: usize,
) -> Need {
    let mut sizes = tensor.sizes();
    if let Some(length) = sizes.get_mut(dim) {
        *length = length.saturating_sub(size) / step.max(1) + 1;
    }
    sizes.push(size);
    let shown = made(&sizes, tensor.dtype());
    Need { made: 0, shown }
}

/// Returns the bytes of a tensor with padding.
pub(super) fn padded<T: TensorMetadata>(tensor: &Held<T>, padding: &[(usize, usize)]) -> usize {
    let mut sizes = tensor.sizes();
    // Padding is given for the last dimensions, or for all of them.
    for (size, (before, after)) in sizes.iter_mut().rev().zip(padding.iter().rev()) {
        *size = sum([*size, *before, *after]);
    }
    made(&sizes, tensor.dtype()).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_stays_too_many() {
        assert_eq!(elements(&[]), 1);
        assert_eq!(elements(&[3, 0, 5]), 0);
        assert_eq!(elements(&[1 << 32, 1 << 32]), TOO_MANY);
        // 2⁶⁴ would wrap around to 0, and a size of 0 next to it does not hide this.
        assert_eq!(elements(&[1 << 63, 2, 0]), TOO_MANY);
        assert_eq!(made(&[usize::MAX / 2], DType::F64), TOO_MANY);
        assert_eq!(made(&[5], DType::BF16), 10);
    }

    #[test]
    fn shapes_broadcast_from_the_end() {
        assert_eq!(broadcast(&[2, 1, 4], &[3, 1]), [2, 3, 4]);
        assert_eq!(broadcast(&[], &[7]), [7]);
    }
}
