//! The launches of the kernels that move rows, for tensors that are contiguous.

use super::kernels::{self, NumbersLaunch};
use crate::gpu::launch::{
    cubes, cubes_of, dim, element_of, uninitialised_as, units, vector_size, zeros_as,
};
use crate::ops::moe::cube::sort::inverse;
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::BufferArg;
use burn_cubecl::tensor::CubeTensor;

/// The sizes of a call.
struct Sizes {
    /// The number of elements that are read at once.
    size: usize,
    /// The number of vectors of a row.
    vectors: usize,
    choices: usize,
    rows: usize,
}

impl Sizes {
    fn new(width: usize, row_map: &CubeTensor, rows: usize) -> Self {
        let size = vector_size(&[width]);
        Self {
            size,
            vectors: width / size,
            choices: row_map.shape()[1],
            rows,
        }
    }

    fn numbers(&self, all: usize) -> NumbersLaunch {
        NumbersLaunch::new(self.vectors, all, self.choices, self.rows, f32::NAN)
    }
}

fn arg(tensor: &CubeTensor) -> BufferArg {
    tensor.clone().into_buffer_arg()
}

/// Returns the tokens in the rows of their slots, `[rows, H]`, times the slots' probabilities if these are given. Other rows
/// are zeros.
pub(in crate::ops::moe) fn spread(
    tokens: &CubeTensor,
    row_map: &CubeTensor,
    probs: Option<&CubeTensor>,
    rows: usize,
) -> CubeTensor {
    let width = tokens.shape()[1];
    let sizes = Sizes::new(width, row_map, rows);
    let all = rows * sizes.vectors;
    let shape = Shape::new([rows, width]);
    if all == 0 {
        return uninitialised_as(tokens, shape, tokens.dtype);
    }
    if row_map.shape().num_elements() == 0 {
        return zeros_as(tokens, shape, tokens.dtype);
    }
    let y = uninitialised_as(tokens, shape, tokens.dtype);
    let slots_of = inverse(row_map, rows);
    let (cubes, dim) = cubes_of(tokens, units(all), all);
    // SAFETY: the result has `vectors` vectors for each row, and the inverse has a number for each, which may be more than there
    // are slots. A slot of the inverse is one of the map, so that its token is one of the tokens, which have `vectors` vectors
    // each, and its probability is there. Units beyond the result end at once.
    unsafe {
        kernels::spread::launch_unchecked(
            &tokens.client,
            cubes,
            dim,
            sizes.size,
            arg(tokens),
            slots_of.into_buffer_arg(),
            probs.map(arg).into(),
            arg(&y),
            sizes.numbers(all),
            [tokens, probs.unwrap_or(tokens)].map(element_of),
        );
    }
    y
}

/// Returns the sums of the rows of each token, `[tokens, H]`, times the slots' probabilities if these are given, in f32 and
/// rounded once to a dtype.
pub(in crate::ops::moe) fn sum(
    rows: &CubeTensor,
    row_map: &CubeTensor,
    probs: Option<&CubeTensor>,
    dtype: DType,
) -> CubeTensor {
    let ([count, width], tokens) = (rows.shape().dims(), row_map.shape()[0]);
    let sizes = Sizes::new(width, row_map, count);
    let (shape, all) = (Shape::new([tokens, width]), tokens * sizes.vectors);
    if all == 0 {
        return uninitialised_as(rows, shape, dtype);
    }
    if sizes.choices == 0 || count == 0 {
        return zeros_as(rows, shape, dtype);
    }
    let y = uninitialised_as(rows, shape, dtype);
    let (cubes, dim) = cubes_of(rows, units(all), all);
    // SAFETY: the result has `vectors` vectors for each token, the map and the probabilities have `choices` numbers for each,
    // and only entries that are numbers of rows are used as places. Units beyond the result end at once.
    unsafe {
        kernels::sum::launch_unchecked(
            &rows.client,
            cubes,
            dim,
            sizes.size,
            arg(rows),
            arg(row_map),
            probs.map(arg).into(),
            arg(&y),
            sizes.numbers(all),
            [rows, probs.unwrap_or(rows), &y].map(element_of),
        );
    }
    y
}

/// Returns the product of each slot's row and its token's gradient, with the shape of the map, rounded to a dtype. It is zero
/// for a slot without a row.
pub(super) fn products(
    dy: &CubeTensor,
    rows: &CubeTensor,
    row_map: &CubeTensor,
    dtype: DType,
) -> CubeTensor {
    let [count, width] = rows.shape().dims();
    let sizes = Sizes::new(width, row_map, count);
    let (shape, slots) = (row_map.shape(), row_map.shape().num_elements());
    if slots == 0 {
        return uninitialised_as(rows, shape, dtype);
    }
    if count == 0 || sizes.vectors == 0 {
        return zeros_as(rows, shape, dtype);
    }
    let products = uninitialised_as(rows, shape, dtype);
    let units = units(sizes.vectors);
    // SAFETY: there is an entry and a product for each slot, and `dy` and the rows have `vectors` vectors for each token and
    // each row. Only entries that are numbers of rows are used as places, and cubes beyond the slots end at once.
    unsafe {
        kernels::product::launch_unchecked(
            &rows.client,
            cubes(rows, slots),
            dim(units),
            sizes.size,
            arg(dy),
            arg(rows),
            arg(row_map),
            arg(&products),
            slots,
            sizes.numbers(0),
            units,
            [rows, &products].map(element_of),
        );
    }
    products
}
