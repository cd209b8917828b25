//! The bytes that operations of layers allocate.

use super::super::tensor::Held;
use super::{elements, last, like, made, size, sum, widened};
use burn::backend::TensorMetadata;
use burn::backend::ops::{ConvOptions, ConvTransposeOptions, DeformConvOptions, UnfoldOptions};
use burn::tensor::DType;

/// The number of places of a result whose columns are made at the same time.
const TILE: usize = 512;

/// The maximum number of bytes of columns at the same time, unless a single place needs more.
const COLUMNS: usize = 8 << 20;

/// The number of keys whose scores exist at the same time, plus the other values that are kept for a query.
const KEYS: usize = 64 + 2;

/// The maximum number of scores of a head that exist at the same time.
const SCORES: usize = 256 << 10;

/// The bytes per place of a resampled axis: its source positions and their weights.
const TAPS: usize = 128;

/// Returns the bytes of `x`, `[batch, channels, ..]`, with other sizes after the first two.
pub(in super::super) fn planes<T: TensorMetadata>(
    x: &Held<T>,
    channels: usize,
    sizes: &[usize],
) -> usize {
    made(&[size(x, 0), channels, elements(sizes)], x.dtype())
}

/// Returns the bytes of [`planes`] plus those that resampling needs for each axis, even for an empty batch.
pub(in super::super) fn resampled<T: TensorMetadata>(x: &Held<T>, sizes: [usize; 2]) -> usize {
    sum([planes(x, size(x, 1), &sizes), taps(sizes), widened(x)])
}

/// Returns the bytes of a gradient with the shape of `x`, for one of these sizes.
pub(in super::super) fn resampled_back<T: TensorMetadata>(x: &Held<T>, sizes: [usize; 2]) -> usize {
    sum([like(x), taps(sizes), widened(x)])
}

fn taps(sizes: [usize; 2]) -> usize {
    sum(sizes).saturating_mul(TAPS)
}

/// Returns the same padding before and after.
pub(in super::super) fn around<const D: usize>(padding: [usize; D]) -> [(usize, usize); D] {
    padding.map(|padding| (padding, padding))
}

/// Returns the sizes of the result of windows over the last dimensions of `x`. The last window may extend beyond the
/// input.
pub(in super::super) fn slid<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    window: [usize; D],
    stride: [usize; D],
    padding: [(usize, usize); D],
    dilation: [usize; D],
) -> [usize; D] {
    let lengths = padded(x, padding);
    places(lengths, window, stride, dilation).map(|places| places.saturating_add(1))
}

/// Returns the last dimensions of `x` with padding.
fn padded<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    padding: [(usize, usize); D],
) -> [usize; D] {
    std::array::from_fn(|dim| sum([size(x, 2 + dim), padding[dim].0, padding[dim].1]))
}

/// Returns the number of places of windows in each length, which is at least one.
fn places<const D: usize>(
    lengths: [usize; D],
    window: [usize; D],
    stride: [usize; D],
    dilation: [usize; D],
) -> [usize; D] {
    std::array::from_fn(|dim| {
        let reach = window[dim].saturating_sub(1).saturating_mul(dilation[dim]);
        let first = reach.saturating_add(1);
        lengths[dim].saturating_sub(first) / stride[dim].max(1) + 1
    })
}

/// Returns the sizes of the windows of a weight, `[out, in, ..]`.
fn kernel<T: TensorMetadata, const D: usize>(weight: &Held<T>) -> [usize; D] {
    std::array::from_fn(|dim| size(weight, 2 + dim))
}

/// Returns the bytes of an element in its own type and in the type that it is computed in, if that differs.
fn worked(dtype: DType) -> usize {
    let half = matches!(dtype, DType::F16 | DType::BF16);
    super::width(dtype) + if half { 4 } else { 0 }
}

/// Returns the number of threads that have their own columns or scores.
fn threads() -> usize {
    rayon::current_num_threads()
}

/// The size of a convolution, in elements.
struct Convolution {
    batch: usize,
    /// The elements of the input, with padding.
    input: usize,
    /// The channels of the result, followed by the elements of the weight for each.
    channels: usize,
    row: usize,
    /// The places of a channel of the result.
    places: usize,
}

impl Convolution {
    /// Returns the elements of the result, of reordered operands and of the columns of each thread.
    fn elements(&self) -> usize {
        let Self {
            batch,
            input,
            channels,
            row,
            places,
        } = *self;
        let result = elements(&[batch, channels, places]);
        let weight = elements(&[channels, row]);
        let tiles = batch.saturating_mul(places.div_ceil(TILE));
        let columns = elements(&[places.min(TILE), row, tiles.min(threads())]);
        let twice = [result, input, weight].map(|part| part.saturating_mul(2));
        sum(twice.into_iter().chain([columns]))
    }
}

/// Returns the bytes of a convolution.
pub(in super::super) fn convolved<T: TensorMetadata, const D: usize>(
    x: &Held<T>,
    weight: &Held<T>,
    options: &ConvOptions<D>,
) -> usize {
    let window: [usize; D] = kernel(weight);
    let lengths = padded(x, options.padding);
    let sizes = places(lengths, window, options.stride, options.dilation);
    // Uneven padding is added to a copy.
    let lengths = match options
        .padding
        .iter()
        .all(|(before, after)| before == after)
    {
        true => padded(x, [(0, 0); D]),
        false => lengths,
    };
    let convolution = Convolution {
        batch: size(x, 0),
        input: elements(&[size(x, 0), size(x, 1), elements(&lengths)]),
        channels: size(weight, 0),
        row: elements(&[size(weight, 1), elements(&window)]),
        places: elements(&sizes),
    };
    convolution.elements().saturating_mul(worked(x.dtype()))
}

/// Returns the bytes of all windows of two dimensions, each as a column. A weight with a one for each element of a
/// window may select them.
pub(in super::super) fn unfolded<T: TensorMetadata>(
    x: &Held<T>,
    window: [usize; 2],
    options: &UnfoldOptions,
) -> usize {
    let lengths = padded(x, around(options.padding));
    let sizes = places(lengths, window, options.stride, options.dilation);
    let row = elements(&[size(x, 1), elements(&window)]);
    let convolution = Convolution {
        batch: size(x, 0),
        input: elements(&x.sizes()),
        channels: row,
        row,
        places: elements(&sizes),
    };
    let is_view = options.padding == [0, 0] && options.dilation == [1, 1];
    match is_view {
        true => planes(x, row, &sizes).saturating_mul(2),
        false => sum([
            convolution.elements().saturating_mul(worked(x.dtype())),
            made(&[row, row], DType::F32).saturating_mul(2),
        ]),
    }
}

/// Returns the bytes of a convolution with shifted windows, which makes all columns at once.
pub(in super::super) fn deformed<T: TensorMetadata>(
    x: &Held<T>,
    weight: &Held<T>,
    options: &DeformConvOptions<2>,
) -> usize {
    let window: [usize; 2] = kernel(weight);
    let lengths = padded(x, around(options.padding));
    let sizes = places(lengths, window, options.stride, options.dilation);
    let channels = size(x, 1).saturating_mul(elements(&window));
    let (result, columns) = (
        planes(x, size(weight, 0), &sizes),
        planes(x, channels, &sizes),
    );
    let bytes = [result, result, columns, columns, like(x), like(weight)];
    sum([sum(bytes), in_f32(sum(bytes), x.dtype())])
}

/// Returns the additional bytes of half types in f32, or zero for other types.
fn in_f32(bytes: usize, dtype: DType) -> usize {
    bytes.saturating_mul(worked(dtype) / super::width(dtype) - 1)
}

/// Returns the bytes of a transposed convolution, whose columns are made before they are added.
pub(in super::super) fn deconvolved<T: TensorMetadata, const D: usize>(
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
    let result = elements(&[size(x, 0), channels, elements(&sizes)]);
    let places: [usize; D] = std::array::from_fn(|dim| size(x, 2 + dim));
    let all = sum([result, elements(&x.sizes()), elements(&weight.sizes())]);
    let column = made(&[size(weight, 1), elements(&window)], DType::F64);
    let jobs = size(x, 0).saturating_mul(options.groups).min(threads());
    let columns = column
        .saturating_mul(elements(&places))
        .min(column.max(COLUMNS));
    sum([
        all.saturating_mul(2).saturating_mul(worked(x.dtype())),
        columns.saturating_mul(jobs),
    ])
}

/// Returns the bytes of attention: its result, the operands in the type they are computed in, the scores of each
/// thread, and the bias and the mask, if they have to be expanded to each query and key.
pub(in super::super) fn attended<T: TensorMetadata, M: TensorMetadata>(
    query: &Held<T>,
    key: &Held<T>,
    value: &Held<T>,
    mask: Option<&Held<M>>,
    bias: Option<&Held<T>>,
) -> usize {
    let dtype = query.dtype();
    let (heads, queries, keys) = (
        size(query, 0).saturating_mul(size(query, 1)),
        size(query, 2),
        size(key, 2),
    );
    let result = made(&[heads, queries, last(value)], dtype);
    let spread = |sizes: Vec<usize>, dtype: DType| match sizes[..] {
        [.., q, k] if (q, k) == (queries, keys) => 0,
        _ => made(&[heads, queries, keys], dtype),
    };
    let mask = mask.map_or(0, |mask| spread(mask.sizes(), mask.dtype()));
    let bias = bias.map_or(0, |bias| {
        let spread = spread(bias.sizes(), dtype);
        sum([spread, in_f32(spread, dtype), widened(bias)])
    });
    let scores = sum([
        queries.saturating_mul(KEYS),
        queries.saturating_mul(keys).min(SCORES),
    ]);
    let scores = made(&[scores, heads.min(threads())], DType::F32).saturating_mul(2);
    let operands = [query, key, value].map(widened);
    sum([
        result,
        in_f32(result, dtype),
        mask,
        bias,
        scores,
        sum(operands),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_convolution_has_columns_for_each_place_of_a_tile() {
        let convolution = Convolution {
            batch: 1,
            input: 4 << 20,
            channels: 1,
            row: 2 << 20,
            places: 512,
        };
        assert!(convolution.elements() > 512 * (2 << 20));
        let none = Convolution {
            batch: 0,
            input: 0,
            ..convolution
        };
        assert_eq!(none.elements(), 2 * (2 << 20));
        let absurd = Convolution {
            row: usize::MAX,
            ..none
        };
        assert_eq!(absurd.elements(), usize::MAX);
    }

    #[test]
    fn places_are_those_of_a_convolution() {
        assert_eq!(places([7], [3], [2], [1]), [3]);
        assert_eq!(places([3], [3], [1], [1]), [1]);
        assert_eq!(places([2], [usize::MAX], [1], [usize::MAX]), [1]);
    }
}
