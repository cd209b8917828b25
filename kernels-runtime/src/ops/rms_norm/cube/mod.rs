//! RMSNorm on GPUs: one cube for each row, or for each group of a row; for several rows where it also sums over them.
//!
//! | pass | kernels | tensors read and written |
//! |---|---|---|
//! | forward | [`kernels::forward`] | x twice, the gate once or twice; y |
//! | backward | [`kernels::backward`] or [`kernels::gated_backward`] | dy, x and the gate twice; dx and the gate's gradient |
//! | the weight's gradient | [`kernels::weight_gradient`], then the sum of its parts | dy, x and the gate once more |
//! | both, of rows that fit into registers, without groups or a gate | [`kernels::backward_of_part`], then the sum of its parts | dy and x once; dx |
//!
//! A second read of a row comes from the cache, unless the row is long. Norms with a bias take the reference.

pub(in crate::ops) mod kernels;

use super::{Each, Launch, Operands, RmsNorm};
use crate::gpu::launch::{
    contiguous, cubes, dim, element_of, uninitialised, uninitialised_as, units, vector_size, zeros,
    zeros_as,
};
use crate::gpu::rows::{self, Parts};
use crate::gpu::{BASE, OnGpu, normalisable};
use crate::ops::fused::{Backward, Made, OpLaunch, Tensors};
use crate::ops::operands::{Mismatch, require};
use crate::registry::{self, Implementation};
use crate::semantics::{Rounding, SemanticsKey, Shift};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::{BufferArg, ElemType};
use burn_cubecl::tensor::CubeTensor;
use kernels::RowLaunch;

pub(in crate::ops) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::RmsNorm(Launch(OpLaunch::of::<RmsNorm, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(key) if key.shift == Shift::None),
    limits: Some(|_, tensors| normalisable(tensors)),
    ..BASE
};

impl OnGpu for RmsNorm {
    fn fits(operands: &Tensors<Self, Cube>, _: &[FloatTensor<Cube>]) -> Result<(), Mismatch> {
        require!(
            operands.bias().is_none(),
            "RMSNorm: GPUs have no kernel that adds a bias; use the reference"
        );
        Ok(())
    }

    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        forward(operands)
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        gradients(backward)
    }
}

/// A call on the thread of the device, with its tensors contiguous.
pub(in crate::ops) struct Norm {
    operands: Operands<CubeTensor>,
    /// The number of elements that are read at once.
    pub(in crate::ops) size: usize,
    /// The number of vectors of a row. With groups, each group is a row.
    vectors: usize,
    /// The number of groups of the last axis.
    groups: usize,
    pub(in crate::ops) rows: usize,
}

impl Norm {
    pub(in crate::ops) fn new(operands: Operands<CubeTensor>) -> Self {
        let operands = operands.map(contiguous);
        let shape = operands.x().shape();
        let n = shape.last().copied().expect("the operands have an axis");
        let width = operands.settings().group_size.unwrap_or(n);
        let size = vector_size(&[width]);
        Self {
            size,
            vectors: width / size,
            groups: n / width.max(1),
            rows: shape.num_elements() / width.max(1),
            operands,
        }
    }

    pub(in crate::ops) fn is_empty(&self) -> bool {
        self.rows == 0 || self.vectors == 0
    }

    /// Returns the number of units of a cube.
    pub(in crate::ops) fn units(&self) -> usize {
        units(self.vectors)
    }

    /// Returns the vectors of a row that each unit holds in registers, or `None` if the gradients of `x` and of the weight
    /// take a kernel each.
    fn held(&self) -> Option<usize> {
        let plain = self.groups == 1 && self.operands.gate().is_none() && !self.is_empty();
        plain.then(|| rows::held(self.vectors, self.units()))?
    }

    /// Returns the numbers of a row as the kernels take them.
    pub(in crate::ops) fn row(&self) -> RowLaunch {
        let offset = self.operands.key().offset.value();
        RowLaunch::new(self.rows, self.groups, self.vectors, offset as f32)
    }

    /// Returns the type of the elements.
    pub(in crate::ops) fn element(&self) -> ElemType {
        element_of(self.operands.x())
    }

    /// Returns `true` if values between the steps of the result are rounded. Those in f32 are not.
    pub(in crate::ops) fn is_stepped(&self) -> bool {
        self.operands.key().rounding == Rounding::Llama && self.operands.x().dtype != DType::F32
    }

    fn x(&self) -> BufferArg {
        self.operands.x().clone().into_buffer_arg()
    }

    pub(in crate::ops) fn weight(&self) -> Option<BufferArg> {
        self.operands
            .weight()
            .cloned()
            .map(CubeTensor::into_buffer_arg)
    }

    pub(in crate::ops) fn gate(&self) -> Option<BufferArg> {
        self.operands
            .gate()
            .cloned()
            .map(CubeTensor::into_buffer_arg)
    }
}

/// Returns the result and `rstd`.
fn forward(operands: Operands<CubeTensor>) -> Made<CubeTensor> {
    let (like, (per_row, _)) = (operands.x().shape(), operands.rstd());
    let norm = Norm::new(operands);
    let x = norm.operands.x();
    if norm.is_empty() {
        return Made::new(zeros_as(x, like, x.dtype)).saving([zeros(x, per_row)]);
    }
    let y = uninitialised_as(x, like, x.dtype);
    let rstd = uninitialised(x, per_row);
    let (settings, key) = (norm.operands.settings(), norm.operands.key());
    let units = norm.units();
    // SAFETY: x, the gate and y have `rows · vectors` vectors and the weight has `groups · vectors`, by the checks of the
    // operands and the division in `Norm::new`; `rstd` has a value for each row. A cube touches the vectors of its row
    // alone, and cubes beyond the rows end at once.
    unsafe {
        kernels::forward::launch_unchecked(
            &x.client,
            cubes(x, norm.rows),
            dim(units),
            norm.size,
            norm.x(),
            norm.weight().into(),
            norm.gate().into(),
            y.clone().into_buffer_arg(),
            rstd.clone().into_buffer_arg(),
            norm.row(),
            settings.eps as f32,
            key.gating,
            norm.is_stepped(),
            units,
            norm.element(),
        );
    }
    Made::new(y).saving([rstd])
}

/// Returns the gradients of `x`, of the gate and, if it is wanted, of the weight.
fn gradients(backward: Backward<RmsNorm, CubeTensor>) -> Each<Option<CubeTensor>> {
    let [rstd] = backward.saved().clone();
    let (operands, dy, .., wanted) = backward.into_parts();
    let (norm, [dy, rstd]) = (Norm::new(operands), [dy, rstd].map(contiguous));
    if let (true, Some(each)) = (wanted.weight, norm.held()) {
        let [x, weight] = both_gradients(&norm, each, dy, rstd).map(Some);
        return Each {
            x,
            weight,
            ..Each::default()
        };
    }
    let mut of_rows = row_gradients(&norm, &dy, &rstd).into_iter();
    Each {
        x: of_rows.next(),
        gate: of_rows.next(),
        weight: wanted.weight.then(|| weight_gradient(&norm, dy, rstd)),
        bias: None,
    }
}

/// Returns the gradients of `x` and of the weight. Each unit holds `each` vectors of a row.
fn both_gradients(norm: &Norm, each: usize, dy: CubeTensor, rstd: CubeTensor) -> [CubeTensor; 2] {
    let (x, units) = (norm.operands.x(), norm.units());
    let parts = Parts::for_cubes(norm.rows, units);
    let dx = uninitialised_as(x, x.shape(), x.dtype);
    let n = norm.vectors * norm.size;
    let sums = uninitialised(x, Shape::new([parts.count, n]));
    let weight = norm.weight().expect("its gradient is wanted");
    // SAFETY: dy, x and dx have `rows · vectors` vectors, the weight has `vectors`, `rstd` has a value for each row, and
    // `sums` has `vectors` vectors for each part. A cube touches those of its part alone, a part ends with the rows, cubes
    // beyond the parts end at once, and `each · units` is at least `vectors`.
    unsafe {
        kernels::backward_of_part::launch_unchecked(
            &x.client,
            cubes(x, parts.count),
            dim(units),
            norm.size,
            dy.into_buffer_arg(),
            norm.x(),
            weight,
            rstd.into_buffer_arg(),
            dx.clone().into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            norm.row(),
            parts.rows,
            each,
            units,
            norm.element(),
        );
    }
    [dx, rows::sum((sums, x.dtype))]
}

/// Returns the gradients of `x` and of the gate.
fn row_gradients(norm: &Norm, dy: &CubeTensor, rstd: &CubeTensor) -> Vec<CubeTensor> {
    let (x, gate) = (norm.operands.x(), norm.operands.gate());
    let gradients = std::iter::once(x).chain(gate).map(|tensor| tensor.shape());
    if norm.is_empty() {
        return gradients.map(|shape| zeros_as(x, shape, x.dtype)).collect();
    }
    let gradients: Vec<_> = gradients
        .map(|shape| uninitialised_as(x, shape, x.dtype))
        .collect();
    let (cubes, units) = (cubes(x, norm.rows), norm.units());
    let [dy, rstd] = [dy, rstd].map(|tensor| tensor.clone().into_buffer_arg());
    let mut outputs = gradients.iter().cloned().map(CubeTensor::into_buffer_arg);
    let mut output = || outputs.next().expect("there is one for each gradient");
    match norm.gate() {
        // SAFETY: as in `forward`; dy and the gradient have the vectors of x.
        None => unsafe {
            kernels::backward::launch_unchecked(
                &x.client,
                cubes,
                dim(units),
                norm.size,
                dy,
                norm.x(),
                norm.weight().into(),
                rstd,
                output(),
                norm.row(),
                units,
                norm.element(),
            );
        },
        // SAFETY: as in `forward`; dy and both gradients have the vectors of x.
        Some(gate) => unsafe {
            kernels::gated_backward::launch_unchecked(
                &x.client,
                cubes,
                dim(units),
                norm.size,
                dy,
                norm.x(),
                norm.weight().into(),
                gate,
                rstd,
                output(),
                output(),
                norm.row(),
                norm.operands.key().gating,
                units,
                norm.element(),
            );
        },
    }
    gradients
}

/// Returns the gradient of the weight.
fn weight_gradient(norm: &Norm, dy: CubeTensor, rstd: CubeTensor) -> CubeTensor {
    let x = norm.operands.x();
    // The columns of all groups.
    let columns = norm.groups * norm.vectors;
    let n = columns * norm.size;
    if norm.is_empty() {
        return zeros_as(x, Shape::new([n]), x.dtype);
    }
    let rows = norm.rows / norm.groups;
    let parts = Parts::of(rows);
    let sums = uninitialised(x, Shape::new([parts.count, n]));
    let (cubes, dim) = parts.cubes(columns);
    // SAFETY: dy, x and the gate have `rows · columns` vectors, `rstd` has a value for each group of each row, and `sums`
    // has `columns` vectors for each part. Units beyond the columns end at once, and a part ends with the rows.
    unsafe {
        kernels::weight_gradient::launch_unchecked(
            &x.client,
            cubes,
            dim,
            norm.size,
            dy.into_buffer_arg(),
            norm.x(),
            norm.gate().into(),
            rstd.into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            rows,
            parts.rows,
            norm.groups,
            norm.vectors,
            norm.operands.key().gating,
            norm.element(),
        );
    }
    rows::sum((sums, x.dtype))
}
