//! Soft capping on GPUs: one unit of a cube for each vector, which is read once and written once.

mod kernels;

use super::{Each, Launch, Operands, Softcap};
use crate::gpu::launch::{contiguous, cubes_of, element_of, uninitialised_as, units, vector_size};
use crate::gpu::{BASE, OnGpu};
use crate::ops::fused::{Backward, Made, OpLaunch};
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::{Cube, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Softcap(Launch(OpLaunch::of::<Softcap, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::Softcap(_)),
    ..BASE
};

impl OnGpu for Softcap {
    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        Made::new(launch(&operands, None))
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        let (operands, dy, ..) = backward.into_parts();
        Each {
            x: Some(launch(&operands, Some(dy))),
        }
    }
}

/// Returns the result, or the gradient of `x` from that of the result.
fn launch(operands: &Operands<CubeTensor>, dy: Option<CubeTensor>) -> CubeTensor {
    let (x, cap) = (contiguous(operands.x().clone()), operands.cap() as f32);
    let written = uninitialised_as(&x, x.shape(), x.dtype);
    let elements = x.shape().num_elements();
    let size = vector_size(&[elements]);
    let all = elements / size;
    if all == 0 {
        return written;
    }
    let (cubes, dim) = cubes_of(&x, units(all), all);
    let (client, element) = (x.client.clone(), element_of(&x));
    let result = written.clone().into_buffer_arg();
    match dy {
        // SAFETY: x and the result have `all` vectors, and units beyond them end at once.
        None => unsafe {
            kernels::forward::launch_unchecked(
                &client,
                cubes,
                dim,
                size,
                x.into_buffer_arg(),
                result,
                all,
                cap,
                element,
            );
        },
        // SAFETY: as above; dy is like x, by the checks of the operands.
        Some(dy) => unsafe {
            kernels::backward::launch_unchecked(
                &client,
                cubes,
                dim,
                size,
                contiguous(dy).into_buffer_arg(),
                x.into_buffer_arg(),
                result,
                all,
                cap,
                element,
            );
        },
    }
    written
}
