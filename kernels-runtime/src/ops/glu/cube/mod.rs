//! Gated linear units on GPUs: one unit of a cube for each vector of the result, which reads gate and up once and
//! writes once, in every layout of the projections.
//!
//! A Gaussian top-k runs as its reference, because it needs the mean and the deviation of each row.

mod activation;
mod kernels;

use super::{Each, Glu, Launch, Operands};
use crate::gpu::launch::{contiguous, cubes_of, element_of, uninitialised_as, units, vector_size};
use crate::gpu::{BASE, OnGpu};
use crate::ops::fused::{Backward, Made, OpLaunch};
use crate::registry::{self, Implementation};
use crate::semantics::{GluKey, SemanticsKey, TopK};
use burn::backend::{Cube, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;
use kernels::NumbersLaunch;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Glu(Launch(OpLaunch::of::<Glu, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::Glu(key) if key.topk == TopK::None),
    ..BASE
};

impl OnGpu for Glu {
    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        Made::new(forward(operands))
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        let mut gradients = gradients(backward).into_iter();
        Each {
            first: gradients.next(),
            up: gradients.next(),
        }
    }
}

/// A call on the thread of the device, with its tensors contiguous.
struct Unit {
    operands: Operands<CubeTensor>,
    /// The number of elements that are read at once.
    size: usize,
    /// The number of vectors of a row of the result, and of the whole result.
    vectors: usize,
    all: usize,
}

impl Unit {
    fn new(operands: Operands<CubeTensor>) -> Self {
        let operands = operands.map(contiguous);
        let shape = operands.result();
        let n = shape.last().copied().unwrap_or(1);
        let size = vector_size(&[n]);
        Self {
            size,
            vectors: n / size,
            all: shape.num_elements() / size,
            operands,
        }
    }

    fn key(&self) -> GluKey {
        self.operands.key()
    }

    /// Returns the numbers of the kernels.
    fn numbers(&self) -> NumbersLaunch {
        let limit = self.operands.settings().limit.unwrap_or(0.0);
        let offset = self.key().up_offset.value();
        NumbersLaunch::new(self.vectors, self.all, limit as f32, offset as f32)
    }
}

/// Returns the result.
pub(in crate::ops) fn forward(operands: Operands<CubeTensor>) -> CubeTensor {
    let unit = Unit::new(operands);
    let (first, key) = (unit.operands.first(), unit.key());
    let y = uninitialised_as(first, unit.operands.result(), first.dtype);
    if unit.all == 0 {
        return y;
    }
    let (cubes, dim) = cubes_of(first, units(unit.all), unit.all);
    let up = unit.operands.up().cloned().map(CubeTensor::into_buffer_arg);
    // SAFETY: y has `all` vectors, gate and up have as many each, or packed twice as many, by the checks of the operands.
    // Units beyond them end at once.
    unsafe {
        kernels::forward::launch_unchecked(
            &first.client,
            cubes,
            dim,
            unit.size,
            first.clone().into_buffer_arg(),
            up.into(),
            y.clone().into_buffer_arg(),
            unit.numbers(),
            key.projections,
            key.activation,
            key.clamp,
            element_of(first),
        );
    }
    y
}

/// Returns the gradients, as many as there are tensors.
pub(in crate::ops) fn gradients(backward: Backward<Glu, CubeTensor>) -> Vec<CubeTensor> {
    let (operands, dy, ..) = backward.into_parts();
    let (unit, dy) = (Unit::new(operands), contiguous(dy));
    let (first, key) = (unit.operands.first(), unit.key());
    let tensors = unit.operands.tensors();
    let gradients: Vec<_> = tensors
        .map(|tensor| uninitialised_as(first, tensor.shape(), first.dtype))
        .collect();
    if unit.all == 0 {
        return gradients;
    }
    let (cubes, dim) = cubes_of(first, units(unit.all), unit.all);
    let mut outputs = gradients.iter().cloned().map(CubeTensor::into_buffer_arg);
    let mut output = || outputs.next().expect("each tensor has a gradient");
    match unit.operands.up() {
        // SAFETY: as in `forward`; dy has `all` vectors, and the gradients are as large as their tensors.
        Some(up) => unsafe {
            kernels::backward::launch_unchecked(
                &first.client,
                cubes,
                dim,
                unit.size,
                dy.into_buffer_arg(),
                first.clone().into_buffer_arg(),
                up.clone().into_buffer_arg(),
                output(),
                output(),
                unit.numbers(),
                key.activation,
                key.clamp,
                element_of(first),
            );
        },
        // SAFETY: as above, for one tensor with twice as many vectors, and its gradient.
        None => unsafe {
            kernels::packed_backward::launch_unchecked(
                &first.client,
                cubes,
                dim,
                unit.size,
                dy.into_buffer_arg(),
                first.clone().into_buffer_arg(),
                output(),
                unit.numbers(),
                key.projections,
                key.activation,
                key.clamp,
                element_of(first),
            );
        },
    }
    gradients
}
