//! The bytes that operations make, worked out before they run.
//!
//! Everything saturates: what no machine has is [`TOO_MANY`], and never a small number again.

use super::tensor::Held;
use burn::backend::ops::{ConvOptions, ConvTransposeOptions, DeformConvOptions, UnfoldOptions};
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;

/// More bytes than one allocation can have.
pub(super) const TOO_MANY: usize = usize::MAX;

/// Bytes of what holds places or statistics beside an operation's values.
const WIDEST: usize = 8;

/// The bytes that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::remote) struct Need {
    /// Bytes that it allocates, at most.
    pub(super) made: usize,
    /// Bytes that a view of memory shows, which whoever uses the view may have to copy.
    pub(super) shown: usize,
}

impl From<usize> for Need {
    fn from(made: usize) -> Self {
        Self { made, shown: 0 }
    }
}

/// The product of sizes. A size of 0 does not hide that the others are too many.
pub(in crate::remote) fn elements(sizes: &[usize]) -> usize {
    let sizes_above_0 = sizes.iter().filter(|size| **size > 0);
    let product = sizes_above_0.fold(1, |product: usize, size| product.saturating_mul(*size));
    match product {
        TOO_MANY => TOO_MANY,
        _ if sizes.contains(&0) => 0,
        product => product,
    }
}

/// Bytes of an element. Quantised values share bytes; one each is more than they take.
pub(super) fn width(dtype: DType) -> usize {
    dtype.size().max(1)
}

/// Bytes of a new tensor.
pub(in crate::remote) fn made(shape: &[usize], dtype: impl Into<DType>) -> usize {
    elements(shape).saturating_mul(width(dtype.into()))
}

/// Bytes of a tensor's elements, each once.
pub(super) fn like<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    made(&tensor.sizes(), tensor.dtype())
}

/// The same in another type.
pub(super) fn cast<T: TensorMetadata>(tensor: &Held<T>, dtype: impl Into<DType>) -> usize {
    made(&tensor.sizes(), dtype)
}

/// Half types are computed with in f32: bytes of a tensor's elements as such, or none.
pub(super) fn widened<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => cast(tensor, DType::F32),
        _ => 0,
    }
}

/// Returns the shape that two shapes become together.
fn broadcast(one: &[usize], other: &[usize]) -> Vec<usize> {
    let rank = one.len().max(other.len());
    let size = |sizes: &[usize], dim: usize| {
        let missing = rank - sizes.len();
        dim.checked_sub(missing).map_or(1, |dim| sizes[dim])
    };
    let sizes = (0..rank).map(|dim| size(one, dim).max(size(other, dim)));
    sizes.collect()
}

/// Bytes of an element-wise result of two tensors.
pub(super) fn both<A: TensorMetadata, B: TensorMetadata>(one: &Held<A>, other: &Held<B>) -> usize {
    let sizes = broadcast(&one.sizes(), &other.sizes());
    elements(&sizes).saturating_mul(width(one.dtype()).max(width(other.dtype())))
}

/// The same of three.
pub(super) fn all_three<A: TensorMetadata, B: TensorMetadata, C: TensorMetadata>(
    one: &Held<A>,
    second: &Held<B>,
    third: &Held<C>,
) -> usize {
    let sizes = broadcast(&broadcast(&one.sizes(), &second.sizes()), &third.sizes());
    elements(&sizes).saturating_mul(width(one.dtype()).max(width(third.dtype())))
}

/// A sum of bytes.
pub(super) fn sum(parts: impl IntoIterator<Item = usize>) -> usize {
    parts.into_iter().fold(0, usize::saturating_add)
}

/// Bytes of a product of matrices: their last two dimensions, those before broadcast.
pub(super) fn product<T: TensorMetadata>(lhs: &Held<T>, rhs: &Held<T>) -> usize {
    let (a, b) = (lhs.sizes(), rhs.sizes());
    let ([.., rows, _], [.., columns]) = (&a[..], &b[..]) else {
        // The operation itself says what is wrong.
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

/// Bytes of `x · w` for the last dimension of `x`, of which `features` come.
pub(super) fn projected<T: TensorMetadata>(
    x: &Held<T>,
    weight: &Held<T>,
    features: usize,
) -> usize {
    let sizes = x.sizes();
    let rows = elements(&sizes[..sizes.len().saturating_sub(1)]);
    let result = made(&[rows, features], x.dtype());
    let wide = match x.dtype() {
        DType::F16 | DType::BF16 => made(&[rows, features], DType::F32),
        _ => 0,
    };
    sum([result, wide, widened(x), widened(weight)])
}

/// The size of a dimension, 1 where there is none.
pub(super) fn size<T: TensorMetadata>(tensor: &Held<T>, dim: usize) -> usize {
    tensor.sizes().get(dim).copied().unwrap_or(1)
}

/// The size of the last dimension.
pub(super) fn last<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    tensor.sizes().last().copied().unwrap_or(1)
}

/// Bytes of values and places of a reduction along a dimension.
pub(super) fn reduced<T: TensorMetadata>(tensor: &Held<T>, dim: usize) -> usize {
    let left = elements(&tensor.sizes()) / size(tensor, dim).max(1);
    sum([left.saturating_mul(2 * WIDEST), widened(tensor)])
}

/// Bytes of a reduction of everything.
pub(super) fn reduced_to_one<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    sum([2 * WIDEST, widened(tensor)])
}

/// Bytes of sorted values, their places and what sorting needs.
pub(super) fn sorted<T: TensorMetadata>(tensor: &Held<T>) -> usize {
    elements(&tensor.sizes()).saturating_mul(4 * WIDEST)
}

/// Bytes of what the indices name, one element each.
pub(super) fn picked<A: TensorMetadata, B: TensorMetadata>(
    tensor: &Held<A>,
    indices: &Held<B>,
) -> usize {
    sum([
        made(&indices.sizes(), tensor.dtype()),
        cast(indices, DType::I64),
    ])
}

/// Bytes of what the indices name along a dimension.
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

/// Bytes of what the rows of `indices` name of `data`.
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

/// A row of a table for each index.
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

/// A reshaped tensor is another view, or a copy, which is counted with the operand. Its elements are the
/// same, which is not left to a product that may have wrapped around.
pub(super) fn reshaped<T: TensorMetadata>(tensor: &Held<T>, shape: &Shape) -> Need {
    let (found, wanted) = (tensor.sizes(), shape.as_slice());
    assert!(
        elements(&found) == elements(wanted),
        "a tensor of shape {found:?} can't have the shape {wanted:?}: it has other elements"
    );
    shown(tensor, shape)
}

/// Bytes with padding around.
pub(super) fn padded<T: TensorMetadata>(tensor: &Held<T>, padding: &[(usize, usize)]) -> usize {
    let mut sizes = tensor.sizes();
    // Padding is given for the last dimensions, or for all.
    for (size, (before, after)) in sizes.iter_mut().rev().zip(padding.iter().rev()) {
        *size = sum([*size, *before, *after]);
    }
    made(&sizes, tensor.dtype()).saturating_mul(2)
}

/// Bytes of `x`, `[batch, channels, ..]`, with other sizes behind those.
pub(super) fn planes<T: TensorMetadata>(x: &Held<T>, channels: usize, sizes: &[usize]) -> usize {
    made(&[size(x, 0), channels, elements(sizes)], x.dtype())
}

/// The same padding before and after.
pub(super) fn around<const D: usize>(padding: [usize; D]) -> [(usize, usize); D] {
    padding.map(|padding| (padding, padding))
}

/// Sizes that windows over the last dimensions of `x` leave.
pub(super) fn slid<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    window: [usize; D],
    stride: [usize; D],
    padding: [(usize, usize); D],
    dilation: [usize; D],
) -> [usize; D] {
    std::array::from_fn(|dim| {
        let length = sum([size(x, 2 + dim), padding[dim].0, padding[dim].1]);
        let reach = window[dim].saturating_sub(1).saturating_mul(dilation[dim]);
        // One more where the last window may hang over.
        length.saturating_sub(reach.saturating_add(1)) / stride[dim].max(1) + 2
    })
}

/// Sizes of the windows of a weight, `[out, in, ..]`.
pub(super) fn kernel<T: TensorMetadata, const D: usize>(weight: &Held<T>) -> [usize; D] {
    std::array::from_fn(|dim| size(weight, 2 + dim))
}

/// Bytes of a convolution's result and of operands in another order.
pub(super) fn convolved<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    weight: &Held<T>,
    options: &ConvOptions<D>,
) -> usize {
    let sizes = slid(
        x,
        kernel(weight),
        options.stride,
        options.padding,
        options.dilation,
    );
    let result = planes(x, size(weight, 0), &sizes);
    sum([
        result,
        result,
        like(x),
        like(weight),
        widened(x),
        widened(weight),
    ])
}

/// The same of one whose windows are shifted, which makes all columns at once.
pub(super) fn deformed<T: TensorMetadata>(
    x: &Held<T>,
    weight: &Held<T>,
    options: &DeformConvOptions<2>,
) -> usize {
    let window: [usize; 2] = kernel(weight);
    let padding = around(options.padding);
    let sizes = slid(x, window, options.stride, padding, options.dilation);
    let channels = size(x, 1).saturating_mul(elements(&window));
    let (result, columns) = (
        planes(x, size(weight, 0), &sizes),
        planes(x, channels, &sizes),
    );
    sum([
        result,
        result,
        columns,
        columns,
        like(x),
        like(weight),
        widened(x),
    ])
}

/// The same of a transposed one, whose columns are made before they are added.
pub(super) fn deconvolved<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    weight: &Held<T>,
    options: &ConvTransposeOptions<D>,
) -> usize {
    let window: [usize; D] = kernel(weight);
    let sizes: [usize; D] = std::array::from_fn(|dim| {
        let reach = window[dim].saturating_mul(options.dilation[dim]);
        let length = size(x, 2 + dim).saturating_mul(options.stride[dim]);
        sum([length, reach, options.padding_out[dim]])
    });
    let channels = size(weight, 1).saturating_mul(options.groups);
    let places: [usize; D] = std::array::from_fn(|dim| size(x, 2 + dim));
    let columns = planes(x, channels.saturating_mul(elements(&window)), &places);
    let result = planes(x, channels, &sizes);
    sum([
        result,
        result,
        columns,
        like(x),
        like(weight),
        widened(x),
        widened(weight),
    ])
}

/// Bytes of all windows of two dimensions, each as a column.
pub(super) fn unfolded<T: TensorMetadata>(
    x: &Held<T>,
    window: [usize; 2],
    options: &UnfoldOptions,
) -> usize {
    let padding = around(options.padding);
    let sizes = slid(x, window, options.stride, padding, options.dilation);
    let channels = size(x, 1).saturating_mul(elements(&window));
    planes(x, channels, &sizes).saturating_mul(2)
}

/// Bytes of the paths of a CTC loss: for each step of each sequence every label, and a blank between.
pub(super) fn paths<A: TensorMetadata, B: TensorMetadata>(
    log_probs: &Held<A>,
    targets: &Held<B>,
) -> usize {
    let steps = size(log_probs, 0).saturating_mul(size(log_probs, 1));
    let labels = last(targets).saturating_mul(2).saturating_add(1);
    let paths = steps.saturating_mul(labels).saturating_mul(4 * WIDEST);
    sum([paths, like(log_probs).saturating_mul(4)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_stays_too_many() {
        assert_eq!(elements(&[]), 1);
        assert_eq!(elements(&[3, 0, 5]), 0);
        assert_eq!(elements(&[1 << 32, 1 << 32]), TOO_MANY);
        // 2⁶⁴ wraps around to 0, and a 0 beside it does not excuse it.
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
