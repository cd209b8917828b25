//! Matrices on the device: views, and products of Burn, whose results are in f32.

use super::kernels;
use crate::gpu::launch::{cubes_of, uninitialised, units, vector_size};
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::kernel::{into_contiguous, slice};
use burn_cubecl::tensor::CubeTensor;
use std::ops::Range;

/// Bindings of kernels begin at multiples of so many bytes on WebGPU.
const ALIGNMENT: usize = 256;

/// Parts of a matrix in f32 begin at a multiple of so many rows or columns.
pub(super) const MULTIPLE: usize = 64;

/// Returns the matrix in a layout whose products need no copy: by rows or by columns, without gaps.
pub(super) fn dense(matrix: CubeTensor) -> CubeTensor {
    match turned(matrix.clone()).is_contiguous() {
        true => matrix,
        false => into_contiguous(matrix),
    }
}

/// Returns a view with both axes exchanged.
pub(super) fn turned(mut matrix: CubeTensor) -> CubeTensor {
    matrix.meta.swap(0, 1);
    matrix
}

/// Returns a view of a part of an axis of a matrix.
///
/// # Panics
/// Panics if kernels can't bind the part: in f32 it begins at no multiple of [`MULTIPLE`].
pub(super) fn part(matrix: &CubeTensor, axis: usize, range: Range<usize>) -> CubeTensor {
    let start = start_of(matrix, axis, &range);
    assert!(
        start.is_multiple_of(ALIGNMENT),
        "a part of a matrix begins where kernels can bind it"
    );
    let mut view = matrix.clone();
    view.handle = view.handle.offset_start(start as u64);
    let mut shape = matrix.shape();
    shape[axis] = range.len();
    *view.meta.shape_mut() = shape;
    view
}

/// Returns the rows of a matrix: a view, or a copy where kernels can't bind the view.
pub(super) fn rows_of(matrix: &CubeTensor, range: Range<usize>) -> CubeTensor {
    match start_of(matrix, 0, &range).is_multiple_of(ALIGNMENT) {
        true => part(matrix, 0, range),
        false => slice(matrix.clone(), &[range, 0..matrix.shape()[1]]),
    }
}

/// Returns the byte at which a part of an axis of a matrix begins.
fn start_of(matrix: &CubeTensor, axis: usize, range: &Range<usize>) -> usize {
    range.start * matrix.meta.strides()[axis] * matrix.elem_size()
}

/// Returns the product of two matrices of one type.
pub(super) fn product(left: CubeTensor, right: CubeTensor) -> CubeTensor {
    let shape = Shape::new([left.shape()[0], right.shape()[1]]);
    let result = uninitialised(&left, shape);
    write_product(left, right, result.clone());
    result
}

/// Writes the product of two matrices of one type. Burn multiplies half types as numbers in f32, and adds up in f32.
///
/// # Panics
/// Panics if Burn has no product for the device, as with too little memory in a cube: the layer's own would panic there too.
pub(super) fn write_product(left: CubeTensor, right: CubeTensor, to: CubeTensor) {
    let (strategy, dtype, device) = (MatmulStrategy::default(), left.dtype, left.device.clone());
    if let Err(error) = matmul(left, right, Some(to), strategy, DType::F32) {
        panic!("Burn can't multiply matrices in {dtype:?} on {device:?}: {error:?}");
    }
}

/// Adds the product of two matrices to the contiguous matrix `sum`. At most `block` elements of the product are in memory at
/// a time, or [`MULTIPLE`] rows of it.
pub(super) fn add_product(left: &CubeTensor, right: &CubeTensor, sum: &CubeTensor, block: usize) {
    let [rows, columns] = sum.shape().dims();
    let each = (block / columns.max(1) / MULTIPLE).max(1) * MULTIPLE;
    for start in (0..rows).step_by(each) {
        let range = start..(start + each).min(rows);
        let more = product(part(left, 0, range.clone()), right.clone());
        add(&part(sum, 0, range), more);
    }
}

/// Adds to a contiguous tensor.
pub(super) fn add(sum: &CubeTensor, more: CubeTensor) {
    let count = more.shape().num_elements();
    let size = vector_size(&[count]);
    let vectors = count / size;
    let (cubes, dim) = cubes_of(sum, units(vectors), vectors);
    // SAFETY: both tensors are contiguous and have `vectors` vectors. A unit reads and writes its own alone, and units beyond
    // them end at once.
    unsafe {
        kernels::add::launch_unchecked(
            &sum.client,
            cubes,
            dim,
            size,
            sum.clone().into_buffer_arg(),
            more.into_buffer_arg(),
            vectors,
        );
    }
}
