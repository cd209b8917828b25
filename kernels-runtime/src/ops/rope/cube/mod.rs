//! Rotary position embedding on GPUs: one pass over the heads. Heads may have any strides if the elements of one are
//! adjacent, as those of the transposed results of a projection are. Others are copied first.

pub(in crate::ops) mod kernels;

use super::operands::rotary_width;
use super::table_gradient::with_tables;
use super::{Each, Launch, Operands, Rope};
use crate::gpu::launch::{
    contiguous, cubes_of, element_of, uninitialised_as, units, vector_size, with_rows,
};
use crate::gpu::{BASE, Deferred, OnGpu};
use crate::ops::fused::{Backward, BackwardOn, Gradients, Made, OpLaunch};
use crate::ops::operands::array;
use crate::registry::{self, Implementation};
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, SemanticsKey, TableLayout};
use burn::backend::{Cube, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;
use kernels::{Order, Places, SizesLaunch};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Rope(Launch(OpLaunch::of::<Rope, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::Rope(_)),
    ..BASE
};

impl OnGpu for Rope {
    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        Made::new(rotate(operands, false))
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        Each::of_x(rotate(Operands::back(backward), true))
    }

    fn call_backward(backward: BackwardOn<Self, Cube>) -> Gradients<Self, Cube> {
        with_tables::<Cube>(backward, Deferred::backward::<Self>)
    }
}

fn rotate(operands: Operands<CubeTensor>, is_backward: bool) -> CubeTensor {
    let key = operands.key();
    let [x, cos, sin] = array(operands.into_tensors());
    let (x, [cos, sin]) = (with_rows(x), [cos, sin].map(contiguous));
    let y = uninitialised_as(&x, x.shape(), x.dtype);
    if x.shape().num_elements() == 0 {
        return y;
    }
    let sizes = Sizes::new(&x, &cos, &sin, key);
    let elements = [&x, &cos].map(element_of);
    let (cubes, dim) = cubes_of(&x, units(sizes.all), sizes.all);
    // SAFETY: a row of y has `pairs` vectors twice and `rest` once, by the checks of the operands. So has a row of x, whose
    // place its strides give, and whose vectors are aligned because the size of a vector divides each stride. The tables
    // have a row for each token. Units beyond the rows end at once.
    unsafe {
        kernels::rotate::launch_unchecked(
            &x.client.clone(),
            cubes,
            dim,
            sizes.size,
            x.into_tensor_arg(),
            cos.into_buffer_arg(),
            sin.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            sizes.launched(),
            Order::new(key, is_backward),
            elements,
        );
    }
    y
}

/// The sizes of a call.
struct Sizes {
    /// The number of elements of a vector.
    size: usize,
    /// The number of vectors of pairs of a head, and of the elements that stay.
    pairs: usize,
    rest: usize,
    /// The number of results of units.
    all: usize,
    axes: [usize; 2],
    /// The distances of neighbours on the first three axes.
    strides: [usize; 3],
    /// The distances of tokens in a table, and of sequences in the cosines and the sines.
    token: usize,
    sequences: [usize; 2],
}

impl Sizes {
    fn new(x: &CubeTensor, cos: &CubeTensor, sin: &CubeTensor, key: RopeKey) -> Self {
        let [_, second, third, d] = x.shape().dims();
        let [_, tokens, width] = cos.shape().dims();
        let rotated = rotary_width(width, key.table);
        let stride = |axis: usize| match x.shape()[axis] {
            1 => 0,
            _ => x.meta.strides()[axis],
        };
        let strides = [0, 1, 2].map(stride);
        let [a, b, c] = strides;
        let size = vector_size(&[rotated / 2, d, width, a, b, c]);
        let (pairs, rest) = (rotated / 2 / size, (d - rotated) / size);
        let sequences = [cos, sin].map(|table| match table.shape()[0] {
            1 => 0,
            _ => tokens * width / size,
        });
        Self {
            size,
            pairs,
            rest,
            all: x.shape().num_elements() / d * (pairs + rest),
            axes: [second, third],
            strides: strides.map(|stride| stride / size),
            token: width / size,
            sequences,
        }
    }

    /// Returns the sizes as the kernel takes them.
    fn launched(&self) -> SizesLaunch {
        let [second, third] = self.axes;
        let [cos, sin] = self.sequences;
        let strides = self.strides.iter().copied().collect();
        SizesLaunch::new(
            self.all, second, third, strides, self.pairs, self.rest, self.token, cos, sin,
        )
    }
}

impl Order {
    pub(in crate::ops) fn new(key: RopeKey, is_backward: bool) -> Self {
        let [from, to] = match key.style {
            RopeStyle::Half => [Places::Halves, Places::Halves],
            RopeStyle::Interleaved => [Places::Neighbours, Places::Neighbours],
            RopeStyle::InterleavedToHalf => [Places::Neighbours, Places::Halves],
        };
        let [read, write] = match is_backward {
            true => [to, from],
            false => [from, to],
        };
        let table = match (key.table, key.style) {
            (TableLayout::Pairs, _) | (TableLayout::Halves, RopeStyle::Interleaved) => Places::Same,
            (TableLayout::Halves, _) => Places::Halves,
            (TableLayout::Neighbours, _) => Places::Neighbours,
        };
        Self {
            read,
            write,
            table,
            is_backward,
            tokens_last: key.layout == HeadLayout::Bnsd,
        }
    }
}
