//! The gradients of the tables. Tables are rarely trained, so the gradients use plain operations of the
//! backend instead of kernels.

use super::operands::rotary_width;
use super::{Each, Rope};
use crate::ops::compute_dtype;
use crate::ops::fused::{BackwardOn, Gradients};
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, TableLayout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, FloatDType, Shape, Slice, TensorMetadata};
use burn::tensor::DType;

/// Returns the wanted gradients of a rotation: those of the tables, and that of `x`, which the kernel computes.
pub(super) fn with_tables<B: Backend>(
    backward: BackwardOn<Rope, B>,
    kernel: impl FnOnce(BackwardOn<Rope, B>) -> Gradients<Rope, B>,
) -> Gradients<Rope, B> {
    let (operands, wanted) = (backward.operands(), backward.wanted().clone());
    let [cos, sin] = table_gradients::<B>(
        backward.dy(),
        || operands.x().clone(),
        [operands.cos(), operands.sin()],
        [wanted.cos, wanted.sin],
        operands.key(),
    );
    let of_x = Each {
        x: true,
        cos: false,
        sin: false,
    };
    let x = wanted.x.then(|| kernel(backward.wanting(of_x)).x);
    Each {
        x: x.flatten(),
        cos,
        sin,
    }
}

/// Returns the wanted gradients of the cosines and of the sines. `x` gives the tensor that was rotated.
pub(in crate::ops) fn table_gradients<B: Backend>(
    dy: &FloatTensor<B>,
    x: impl FnOnce() -> FloatTensor<B>,
    [cos, sin]: [&FloatTensor<B>; 2],
    [of_cos, of_sin]: [bool; 2],
    key: RopeKey,
) -> [Option<FloatTensor<B>>; 2] {
    if !(of_cos || of_sin) {
        return [None, None];
    }
    let table = TableGradient::<B>::new(dy, x(), cos, key);
    [
        of_cos.then(|| table.of_cos(cos.shape())),
        of_sin.then(|| table.of_sin(sin.shape())),
    ]
}

/// Returns the bytes that [`table_gradients`] needs besides operands and results: at most six tensors like the rotated one, in
/// the type of the sums.
pub(in crate::ops) fn room_of_tables(rotated: &Shape, table: DType) -> usize {
    let bytes = compute_dtype(table).size();
    rotated.num_elements().saturating_mul(6 * bytes)
}

/// The tensors from which both gradients are computed, in f32 for half types. With the pairs of `x` in
/// the order of the results and one table element for each of them, `y = x · cos + turned · sin`.
struct TableGradient<B: Backend> {
    dy: FloatTensor<B>,
    x: FloatTensor<B>,
    /// The dtype of the tables.
    dtype: FloatDType,
    key: RopeKey,
}

impl<B: Backend> TableGradient<B> {
    fn new(dy: &FloatTensor<B>, x: FloatTensor<B>, table: &FloatTensor<B>, key: RopeKey) -> Self {
        let dtype = FloatDType::from(table.dtype());
        let wide = if dtype == FloatDType::F64 {
            FloatDType::F64
        } else {
            FloatDType::F32
        };
        let rotated = rotary_width(table.shape()[2], key.table);
        let part = |tensor| B::float_cast(last_axis::<B>(tensor, 0..rotated), wide);
        let (dy, mut x) = (part(dy.clone()), part(x));
        if key.style == RopeStyle::InterleavedToHalf {
            let whole = x.shape();
            x = B::float_reshape(B::float_swap_dims(pairs::<B>(x), 3, 4), whole);
        }
        Self { dy, x, dtype, key }
    }

    /// Returns `Σ dy · x`, in the shape of the cosines.
    fn of_cos(&self, shape: Shape) -> FloatTensor<B> {
        self.sum(|x| x, shape)
    }

    /// Returns `Σ dy · turned`, in the shape of the sines.
    fn of_sin(&self, shape: Shape) -> FloatTensor<B> {
        let turned = match self.key.style {
            RopeStyle::Interleaved => turn_neighbours::<B>,
            RopeStyle::Half | RopeStyle::InterleavedToHalf => turn_halves::<B>,
        };
        self.sum(turned, shape)
    }

    /// Returns the sum of `dy · factor(x)` over the heads, over the batch if the table, `[1 or b, s, w]`, is shared, and
    /// over the results that read the same element of the table.
    fn sum(&self, factor: fn(FloatTensor<B>) -> FloatTensor<B>, table: Shape) -> FloatTensor<B> {
        // Flex does not slice a tensor without elements.
        if self.dy.shape().num_elements() == 0 {
            return B::float_zeros(table, &self.dy.device(), self.dtype);
        }
        let heads = match self.key.layout {
            HeadLayout::Bnsd => 1,
            HeadLayout::Bsnd => 2,
        };
        let mut sum =
            B::float_sum_dim(B::float_mul(self.dy.clone(), factor(self.x.clone())), heads);
        if table[0] == 1 {
            sum = B::float_sum_dim(sum, 0);
        }
        B::float_cast(B::float_reshape(self.by_table(sum), table), self.dtype)
    }

    /// Reduces one element for each result to one for each element of the table, on the last axis.
    fn by_table(&self, sum: FloatTensor<B>) -> FloatTensor<B> {
        let rotated = sum.shape()[3];
        match (self.key.style, self.key.table) {
            (RopeStyle::Interleaved, TableLayout::Neighbours) => sum,
            (RopeStyle::Interleaved, table) => {
                let sum = B::float_sum_dim(pairs::<B>(sum), 4);
                let [a, b, c, half, _] = sum.shape().dims();
                let sum = B::float_reshape(sum, Shape::new([a, b, c, half]));
                if table == TableLayout::Pairs {
                    return sum;
                }
                // The rotation does not read the second half of the table.
                let zero = B::float_zeros(sum.shape(), &sum.device(), sum.dtype().into());
                B::float_cat(vec![sum, zero], 3)
            }
            (_, TableLayout::Pairs) => B::float_add(
                last_axis::<B>(sum.clone(), 0..rotated / 2),
                last_axis::<B>(sum, rotated / 2..rotated),
            ),
            (_, _) => sum,
        }
    }
}

/// Returns a part of the last axis of a tensor of rank 4.
fn last_axis<B: Backend>(x: FloatTensor<B>, range: std::ops::Range<usize>) -> FloatTensor<B> {
    let all = Slice::new(0, None, 1);
    B::float_slice(x, &[all, all, all, Slice::from(range)])
}

/// Splits the last axis of a tensor of rank 4 into pairs of neighbours.
fn pairs<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let [a, b, c, d] = x.shape().dims();
    B::float_reshape(x, Shape::new([a, b, c, d / 2, 2]))
}

/// Turns `[x1, x2]` into `[−x2, x1]` on the last axis.
fn turn_halves<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let d = x.shape()[3];
    let x2 = B::float_neg(last_axis::<B>(x.clone(), d / 2..d));
    B::float_cat(vec![x2, last_axis::<B>(x, 0..d / 2)], 3)
}

/// Turns each pair of neighbours `(x1, x2)` into `(−x2, x1)` on the last axis.
fn turn_neighbours<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let shape = x.shape();
    let x = pairs::<B>(x);
    let all = Slice::new(0, None, 1);
    let element = |x, i| B::float_slice(x, &[all, all, all, all, Slice::from(i..i + 1)]);
    let x2 = B::float_neg(element(x.clone(), 1));
    B::float_reshape(B::float_cat(vec![x2, element(x, 0)], 4), shape)
}
