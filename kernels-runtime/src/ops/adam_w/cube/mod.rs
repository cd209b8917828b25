//! AdamW on GPUs: one pass over the four tensors of a parameter, in place if nothing else holds them.
//!
//! Each parameter is one launch, because an optimiser of Burn passes one parameter at a time, and because a kernel of WebGPU
//! has no more tensors than one parameter needs.

mod kernels;

use super::{AdamW, Each, Launch, Operands, Settings, State};
use crate::gpu::launch::{contiguous, cubes_of, element_of, uninitialised_as, units, vector_size};
use crate::gpu::{BASE, OnGpu};
use crate::ops::fused::{Made, OpLaunch};
use crate::registry::{self, Gradient, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::{Cube, TensorMetadata};
use burn_cubecl::cubecl::prelude::BufferArg;
use burn_cubecl::tensor::CubeTensor;
use kernels::NumbersLaunch;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    gradient: Gradient::None,
    launch: registry::Launch::AdamW(Launch(OpLaunch::of::<AdamW, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::AdamW(_)),
    ..BASE
};

impl OnGpu for AdamW {
    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        let [parameter, moments @ ..] = step(operands);
        Made::new(parameter).and(moments)
    }
}

/// Returns the parameter and the moments after the step.
fn step(operands: Operands<CubeTensor>) -> [CubeTensor; 3] {
    let settings = operands.settings();
    let (state, gradient) = operands.into_parts();
    let State {
        parameter,
        moment_1,
        moment_2,
    } = state;
    let count = parameter.shape().num_elements();
    if count == 0 {
        return [parameter, moment_1, moment_2];
    }
    let gradient = contiguous(gradient);
    let size = vector_size(&[count]);
    let vectors = count / size;
    let (cubes, dim) = cubes_of(&gradient, units(vectors), vectors);
    let element = element_of(&gradient);
    let [parameter, moment_1, moment_2] = [(parameter, 0), (moment_1, 1), (moment_2, 2)]
        .map(|(tensor, position)| Changed::new(tensor, position));
    // SAFETY: all tensors have `vectors` vectors, by the checks of the operands. A unit reads and writes its own alone, so a
    // result may be its operand. Units beyond them end at once.
    unsafe {
        kernels::step::launch_unchecked(
            &gradient.client.clone(),
            cubes,
            dim,
            size,
            parameter.before,
            moment_1.before,
            moment_2.before,
            gradient.into_buffer_arg(),
            parameter.after,
            moment_1.after,
            moment_2.after,
            numbers(settings, vectors),
            element,
        );
    }
    [parameter.result, moment_1.result, moment_2.result]
}

/// A tensor that the step changes, as the kernel takes it before and after.
struct Changed {
    before: BufferArg,
    after: BufferArg,
    result: CubeTensor,
}

impl Changed {
    /// Takes a tensor, the kernel's argument at `position`. The result is in its place if nothing else holds it.
    fn new(tensor: CubeTensor, position: usize) -> Self {
        let tensor = contiguous(tensor);
        if tensor.can_mut() {
            return Self {
                before: tensor.clone().into_buffer_arg(),
                after: tensor.as_tensor_alias(position).into_buffer_arg(),
                result: tensor,
            };
        }
        let result = uninitialised_as(&tensor, tensor.shape(), tensor.dtype);
        Self {
            before: tensor.into_buffer_arg(),
            after: result.clone().into_buffer_arg(),
            result,
        }
    }
}

/// Returns the numbers of a step as the kernel takes them, computed in f64.
fn numbers(settings: Settings, vectors: usize) -> NumbersLaunch {
    let Settings {
        learning_rate,
        beta_1,
        beta_2,
        epsilon,
        weight_decay,
        ..
    } = settings;
    let (correction_1, correction_2) = settings.corrections();
    NumbersLaunch::new(
        vectors,
        beta_1 as f32,
        (1.0 - beta_1) as f32,
        beta_2 as f32,
        (1.0 - beta_2) as f32,
        (1.0 - learning_rate * weight_decay) as f32,
        (learning_rate / correction_1) as f32,
        (1.0 / correction_2.sqrt()) as f32,
        epsilon as f32,
    )
}
