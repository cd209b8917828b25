//! LayerNorm on GPUs: one cube for each row, or for several where it also sums over them.
//!
//! | pass | kernels | tensors read and written |
//! |---|---|---|
//! | forward | [`kernels::forward`] | x three times; y |
//! | backward | [`kernels::backward`] | dy and x twice; dx |
//! | gradients of weight and bias | [`kernels::parameter_gradients`], then the sums of their parts | dy and x once more |
//! | all gradients, of rows that fit into registers | [`kernels::backward_of_part`], then the sums of its parts | dy and x once; dx |
//!
//! Further reads of a row come from the cache, unless the row is long. The variance is computed from the differences to the
//! mean, because the difference of two sums of squares would lose digits.

mod kernels;

use super::{Each, Launch, LayerNorm, Operands};
use crate::gpu::launch::{
    contiguous, cubes, dim, element_of, uninitialised, uninitialised_as, units, vector_size, zeros,
    zeros_as,
};
use crate::gpu::rows::{self, Parts};
use crate::gpu::{BASE, OnGpu, normalisable};
use crate::ops::fused::{Backward, Made, OpLaunch};
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::{Cube, Shape, TensorMetadata};
use burn_cubecl::cubecl::prelude::{BufferArg, ElemType};
use burn_cubecl::tensor::CubeTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::LayerNorm(Launch(OpLaunch::of::<LayerNorm, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::LayerNorm(_)),
    limits: Some(|_, tensors| normalisable(tensors)),
    ..BASE
};

impl OnGpu for LayerNorm {
    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        forward(operands)
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        gradients(backward)
    }
}

/// A call on the thread of the device, with its tensors contiguous.
struct Norm {
    operands: Operands<CubeTensor>,
    /// The number of elements that are read at once.
    size: usize,
    /// The number of vectors of a row.
    vectors: usize,
    rows: usize,
}

impl Norm {
    fn new(operands: Operands<CubeTensor>) -> Self {
        let operands = operands.map(contiguous);
        let shape = operands.x().shape();
        let n = shape.last().copied().expect("the operands have an axis");
        let size = vector_size(&[n]);
        Self {
            size,
            vectors: n / size,
            rows: shape.num_elements() / n.max(1),
            operands,
        }
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.vectors == 0
    }

    /// Returns the type of the elements.
    fn element(&self) -> ElemType {
        element_of(self.operands.x())
    }

    fn x(&self) -> BufferArg {
        self.operands.x().clone().into_buffer_arg()
    }

    fn weight(&self) -> BufferArg {
        self.operands.weight().clone().into_buffer_arg()
    }
}

/// Returns the result, the means and the `rstd`.
fn forward(operands: Operands<CubeTensor>) -> Made<CubeTensor> {
    let (per_row, _) = operands.statistic();
    let norm = Norm::new(operands);
    let x = norm.operands.x();
    if norm.is_empty() {
        let statistics = [(); 2].map(|()| zeros(x, per_row.clone()));
        let y = zeros_as(x, x.shape(), x.dtype);
        return Made::new(y).saving(statistics);
    }
    let y = uninitialised_as(x, x.shape(), x.dtype);
    let [mean, rstd] = [(); 2].map(|()| uninitialised(x, per_row.clone()));
    let bias = norm
        .operands
        .bias()
        .cloned()
        .map(CubeTensor::into_buffer_arg);
    let units = units(norm.vectors);
    // SAFETY: x and y have `rows · vectors` vectors, the weight and the bias have `vectors`, by the checks of the operands;
    // the statistics have a value for each row. A cube touches the vectors of its row alone, and cubes beyond the rows end
    // at once.
    unsafe {
        kernels::forward::launch_unchecked(
            &x.client,
            cubes(x, norm.rows),
            dim(units),
            norm.size,
            norm.x(),
            norm.weight(),
            bias.into(),
            y.clone().into_buffer_arg(),
            mean.clone().into_buffer_arg(),
            rstd.clone().into_buffer_arg(),
            norm.rows,
            norm.vectors,
            norm.operands.settings().eps as f32,
            units,
            norm.element(),
        );
    }
    Made::new(y).saving([mean, rstd])
}

/// Returns the gradients of `x` and, as far as they are wanted, of the weight and the bias.
fn gradients(backward: Backward<LayerNorm, CubeTensor>) -> Each<Option<CubeTensor>> {
    let [mean, rstd] = backward.saved().clone();
    let (operands, dy, .., wanted) = backward.into_parts();
    let (norm, [dy, mean, rstd]) = (Norm::new(operands), [dy, mean, rstd].map(contiguous));
    let x = norm.operands.x();
    if norm.is_empty() {
        let parameters = norm.operands.weight().shape();
        let zeros = |shape| zeros_as(x, shape, x.dtype);
        return with_wanted(zeros(x.shape()), &wanted, || {
            [(); 2].map(|()| zeros(parameters.clone()))
        });
    }
    let dx = uninitialised_as(x, x.shape(), x.dtype);
    let units = units(norm.vectors);
    if let (true, Some(each)) = (
        wanted.weight || wanted.bias,
        rows::held(norm.vectors, units),
    ) {
        let statistics = [mean, rstd];
        return with_wanted(dx.clone(), &wanted, || {
            all_gradients(&norm, each, dy, statistics, dx)
        });
    }
    // SAFETY: as in `forward`; dy and dx have the vectors of x.
    unsafe {
        kernels::backward::launch_unchecked(
            &x.client,
            cubes(x, norm.rows),
            dim(units),
            norm.size,
            dy.clone().into_buffer_arg(),
            norm.x(),
            norm.weight(),
            mean.clone().into_buffer_arg(),
            rstd.clone().into_buffer_arg(),
            dx.clone().into_buffer_arg(),
            norm.rows,
            norm.vectors,
            units,
            norm.element(),
        );
    }
    with_wanted(dx, &wanted, || parameter_gradients(&norm, [dy, mean, rstd]))
}

/// Returns the gradient of `x` and, if one is wanted, those of the parameters.
fn with_wanted(
    dx: CubeTensor,
    wanted: &Each<bool>,
    parameters: impl FnOnce() -> [CubeTensor; 2],
) -> Each<Option<CubeTensor>> {
    let [weight, bias] = match wanted.weight || wanted.bias {
        true => parameters().map(Some),
        false => [None, None],
    };
    Each {
        x: Some(dx),
        weight,
        bias,
    }
}

/// Writes the gradient of `x`, and returns those of the weight and of the bias. Each unit holds `each` vectors of a row.
fn all_gradients(
    norm: &Norm,
    each: usize,
    dy: CubeTensor,
    [mean, rstd]: [CubeTensor; 2],
    dx: CubeTensor,
) -> [CubeTensor; 2] {
    let (x, units) = (norm.operands.x(), units(norm.vectors));
    let parts = Parts::for_cubes(norm.rows, units);
    let sums = uninitialised(x, Shape::new([parts.count, 2 * norm.vectors * norm.size]));
    // SAFETY: dy, x and dx have `rows · vectors` vectors, the weight has `vectors`, the statistics have a value for each row,
    // and `sums` has `2 · vectors` vectors for each part. A cube touches those of its part alone, a part ends with the rows,
    // cubes beyond the parts end at once, and `each · units` is at least `vectors`.
    unsafe {
        kernels::backward_of_part::launch_unchecked(
            &x.client,
            cubes(x, parts.count),
            dim(units),
            norm.size,
            dy.into_buffer_arg(),
            norm.x(),
            norm.weight(),
            mean.into_buffer_arg(),
            rstd.into_buffer_arg(),
            dx.into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            norm.rows,
            parts.rows,
            norm.vectors,
            each,
            units,
            norm.element(),
        );
    }
    rows::sum_of_halves((sums, x.dtype))
}

/// Returns the gradients of the weight and of the bias.
fn parameter_gradients(norm: &Norm, [dy, mean, rstd]: [CubeTensor; 3]) -> [CubeTensor; 2] {
    let x = norm.operands.x();
    let parts = Parts::of(norm.rows);
    let shape = Shape::new([parts.count, norm.vectors * norm.size]);
    let sums = [(); 2].map(|()| uninitialised(x, shape.clone()));
    let (cubes, dim) = parts.cubes(norm.vectors);
    let [of_weight, of_bias] = sums.clone().map(CubeTensor::into_buffer_arg);
    // SAFETY: dy and x have `rows · vectors` vectors, the statistics have a value for each row, and both sums have `vectors`
    // vectors for each part. Units beyond the vectors end at once, and a part ends with the rows.
    unsafe {
        kernels::parameter_gradients::launch_unchecked(
            &x.client,
            cubes,
            dim,
            norm.size,
            dy.into_buffer_arg(),
            norm.x(),
            mean.into_buffer_arg(),
            rstd.into_buffer_arg(),
            of_weight,
            of_bias,
            norm.rows,
            parts.rows,
            norm.vectors,
            norm.element(),
        );
    }
    sums.map(|sums| rows::sum((sums, x.dtype)))
}
