//! The norm and rotation of queries and keys on GPUs: one cube for each normalised row, a head or all heads of a
//! token.
//!
//! | pass | kernels | tensors read and written |
//! |---|---|---|
//! | forward | [`kernels::forward`] | x twice; y |
//! | backward | [`kernels::backward`] | dy and x twice; dx |
//! | the weight's gradient | [`kernels::weight_gradient`], then the sum of its parts | dy and x once more |
//!
//! A second read of a row comes from the cache, unless the row is long. Without a norm, the rotation's own kernel does all:
//! it reads heads of any strides, if the elements of each are adjacent.

mod kernels;

use super::{Each, Launch, Operands, QkNormRope, composed};
use crate::gpu::launch::{
    contiguous, cubes, dim, element_of, uninitialised, uninitialised_as, units, vector_size,
    zeros_as,
};
use crate::gpu::rows::{self, Parts};
use crate::gpu::{BASE, Deferred, OnGpu, columns, indexable};
use crate::ops::fused::{Backward, BackwardOn, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::rope::cube::kernels::Order;
use crate::ops::rope::rotary_width;
use crate::registry::{self, Implementation};
use crate::semantics::{QkNorm, Rounding, SemanticsKey};
use burn::backend::{Cube, Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::{BufferArg, ElemType};
use burn_cubecl::tensor::CubeTensor;
use kernels::{Rounded, SizesLaunch};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::QkNormRope(Launch(OpLaunch::of::<QkNormRope, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::QkNormRope(_)),
    limits: Some(|_, tensors| {
        indexable(tensors)?;
        // Queries and keys have four axes. All heads of a token are the widest row.
        let shapes = tensors.iter().map(|tensor| tensor.shape());
        let heads = shapes.filter(|shape| shape.num_dims() == 4);
        heads
            .map(|shape| shape[2].saturating_mul(shape[3]))
            .try_for_each(columns)
    }),
    ..BASE
};

impl OnGpu for QkNormRope {
    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        Made::new(forward(operands))
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        gradients(backward)
    }

    fn call(operands: Tensors<Self, Cube>, wanted: Option<&Each<bool>>) -> MadeOn<Cube> {
        match operands.key().norm {
            QkNorm::None => composed::forward::<Cube>(operands),
            QkNorm::Head | QkNorm::Row => Deferred::forward::<Self>(operands, wanted),
        }
    }

    fn call_backward(backward: BackwardOn<Self, Cube>) -> Gradients<Self, Cube> {
        let of_heads = match backward.operands().key().norm {
            QkNorm::None => composed::backward::<Cube>,
            QkNorm::Head | QkNorm::Row => Deferred::backward::<Self>,
        };
        composed::with_tables::<Cube>(backward, of_heads)
    }
}

/// A call with a norm on the thread of the device, with its tensors contiguous.
struct Heads {
    operands: Operands<CubeTensor>,
    /// The number of elements that are read at once.
    size: usize,
    /// The number of normalised rows, and of heads in each.
    rows: usize,
    of_row: usize,
    heads: usize,
    tokens: usize,
    /// The number of vectors of pairs of a head, and of the elements that stay.
    pairs: usize,
    rest: usize,
    /// The distances of tokens in a table, and of sequences in the cosines and the sines.
    token: usize,
    sequences: [usize; 2],
}

impl Heads {
    fn new(operands: Operands<CubeTensor>) -> Self {
        let operands = operands.map(contiguous);
        let [b, tokens, heads, d] = operands.x().shape().dims();
        let [_, _, width] = operands.cos().shape().dims();
        let rotated = rotary_width(width, operands.key().table);
        let size = vector_size(&[rotated / 2, d, width]);
        let of_row = match operands.key().norm {
            QkNorm::Row => heads,
            QkNorm::Head | QkNorm::None => 1,
        };
        let sequences = [operands.cos(), operands.sin()].map(|table| match table.shape()[0] {
            1 => 0,
            _ => tokens * width / size,
        });
        Self {
            size,
            rows: b * tokens * heads / of_row.max(1),
            of_row,
            heads,
            tokens,
            pairs: rotated / 2 / size,
            rest: (d - rotated) / size,
            token: width / size,
            sequences,
            operands,
        }
    }

    fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the number of vectors of a row.
    fn vectors(&self) -> usize {
        self.of_row * (2 * self.pairs + self.rest)
    }

    /// Returns the number of items of a row.
    fn items(&self) -> usize {
        self.of_row * (self.pairs + self.rest)
    }

    /// Returns the sizes as the kernels take them.
    fn sizes(&self) -> SizesLaunch {
        let [cos, sin] = self.sequences;
        SizesLaunch::new(
            self.rows,
            self.of_row,
            self.heads,
            self.tokens,
            self.pairs,
            self.rest,
            self.token,
            cos,
            sin,
        )
    }

    fn eps(&self) -> f32 {
        let eps = self.operands.settings().eps;
        eps.expect("a norm has an epsilon") as f32
    }

    fn offset(&self) -> f32 {
        self.operands.key().offset.value() as f32
    }

    fn order(&self, is_backward: bool) -> Order {
        Order::new(self.operands.key().rope(), is_backward)
    }

    /// Returns the types of the elements of heads and of tables.
    fn elements(&self) -> [ElemType; 2] {
        [self.operands.x(), self.operands.cos()].map(element_of)
    }

    fn rounded(&self) -> Rounded {
        match (self.operands.x().dtype, self.operands.key().rounding) {
            (DType::F32, _) => Rounded::Never,
            (_, Rounding::Gemma) => Rounded::Result,
            (_, Rounding::Llama) => Rounded::Steps,
        }
    }

    /// Returns x, the cosines and the sines.
    fn tensors(&self) -> [BufferArg; 3] {
        let Self { operands, .. } = self;
        [operands.x(), operands.cos(), operands.sin()]
            .map(|tensor| tensor.clone().into_buffer_arg())
    }

    fn weight(&self) -> &CubeTensor {
        self.operands.weight().expect("a norm has a weight")
    }
}

fn forward(operands: Operands<CubeTensor>) -> CubeTensor {
    let (shape, _) = operands.result();
    let call = Heads::new(operands);
    let x = call.operands.x();
    let y = uninitialised_as(x, shape, x.dtype);
    if call.is_empty() {
        return y;
    }
    let (client, [x, cos, sin]) = (&call.operands.x().client, call.tensors());
    let units = units(call.items());
    // SAFETY: x and y have `vectors` vectors for each row, in which the heads have `pairs` twice and `rest` once, the weight
    // has those of a head or of a row, and the tables have a row for each token, by the checks of the operands. The size of
    // a vector divides each part. Cubes beyond the rows end at once.
    unsafe {
        kernels::forward::launch_unchecked(
            client,
            cubes(&y, call.rows),
            dim(units),
            call.size,
            x,
            call.weight().clone().into_buffer_arg(),
            cos,
            sin,
            y.clone().into_buffer_arg(),
            call.sizes(),
            call.eps(),
            call.offset(),
            call.order(false),
            call.rounded(),
            units,
            call.elements(),
        );
    }
    y
}

/// Returns the gradients of `x` and, if it is wanted, of the weight.
fn gradients(backward: Backward<QkNormRope, CubeTensor>) -> Each<Option<CubeTensor>> {
    let is_wanted = backward.wanted().weight;
    let (operands, dy, ..) = backward.into_parts();
    let (call, dy) = (Heads::new(operands), contiguous(dy));
    let dx = uninitialised_as(&dy, call.operands.x().shape(), dy.dtype);
    if call.is_empty() {
        let weight = is_wanted.then(|| zeros_as(&dy, call.weight().shape(), dy.dtype));
        return Each::of_heads(Some(dx), weight);
    }
    let rstd = uninitialised(&dy, Shape::new([call.rows]));
    let [x, cos, sin] = call.tensors();
    let units = units(call.items());
    // SAFETY: as in `forward`; dy is like y, dx is like x, and `rstd` has a value for each row.
    unsafe {
        kernels::backward::launch_unchecked(
            &dy.client,
            cubes(&dy, call.rows),
            dim(units),
            call.size,
            dy.clone().into_buffer_arg(),
            x,
            call.weight().clone().into_buffer_arg(),
            cos,
            sin,
            dx.clone().into_buffer_arg(),
            rstd.clone().into_buffer_arg(),
            call.sizes(),
            call.eps(),
            call.offset(),
            call.order(true),
            units,
            call.elements(),
        );
    }
    let weight = is_wanted.then(|| weight_gradient(&call, dy, rstd));
    Each::of_heads(Some(dx), weight)
}

/// Returns the gradient of the weight.
fn weight_gradient(call: &Heads, dy: CubeTensor, rstd: CubeTensor) -> CubeTensor {
    let (parts, dtype) = (Parts::of(call.rows), dy.dtype);
    let n = call.vectors() * call.size;
    let sums = uninitialised(&dy, Shape::new([parts.count, n]));
    let (cubes, dim) = parts.cubes(call.items());
    let [x, cos, sin] = call.tensors();
    // SAFETY: as in `gradients`; `sums` has a row for each part. Units beyond the items of a row end at once, and a part ends
    // with the rows.
    unsafe {
        kernels::weight_gradient::launch_unchecked(
            &dy.client.clone(),
            cubes,
            dim,
            call.size,
            dy.into_buffer_arg(),
            x,
            cos,
            sin,
            rstd.into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            call.sizes(),
            parts.rows,
            call.order(true),
            call.elements(),
        );
    }
    rows::sum((sums, dtype))
}
