//! A residual sum and its RMSNorm on GPUs: the kernel of [`rms_norm`](crate::ops::rms_norm), which adds first. It
//! reads both terms once, and writes the sum once. The gradient is that of RMSNorm.

use super::record::TwoSteps;
use super::{AddRmsNorm, Each, Launch, Operands};
use crate::gpu::OnGpu;
use crate::gpu::launch::{
    contiguous, cubes, dim, uninitialised, uninitialised_as, zeros, zeros_as,
};
use crate::ops::fused::{Made, OpLaunch};
use crate::ops::rms_norm::cube::{self as rms_norm, Norm, kernels};
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::{Cube, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::AddRmsNorm(
        Launch(OpLaunch::recorded::<AddRmsNorm, Cube, TwoSteps>()),
    ),
    accepts: |key| matches!(key, SemanticsKey::AddRmsNorm(_)),
    ..rms_norm::IMPLEMENTATION
};

impl OnGpu for AddRmsNorm {
    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        forward(operands)
    }
}

/// Returns the result, the sum and `rstd`.
fn forward(operands: Operands<CubeTensor>) -> Made<CubeTensor> {
    let ((per_row, _), settings, key) = (operands.rstd(), operands.settings(), operands.key());
    let [x, residual] = [operands.x(), operands.residual()].map(|term| contiguous(term.clone()));
    let sum = uninitialised_as(&x, x.shape(), x.dtype);
    let norm = Norm::new(operands.norm_of(|_, _| sum.clone()));
    if norm.is_empty() {
        let y = zeros_as(&x, x.shape(), x.dtype);
        return Made::new(y).and([sum]).saving([zeros(&x, per_row)]);
    }
    let y = uninitialised_as(&x, x.shape(), x.dtype);
    let rstd = uninitialised(&x, per_row);
    let units = norm.units();
    // SAFETY: x, the residual, the gate, the sum and y have as many vectors as the rows together, and the weight has those
    // of its groups, by the checks of the operands and the division in `Norm::new`; `rstd` has a value for each row. A cube
    // touches the vectors of its row alone, and cubes beyond the rows end at once.
    unsafe {
        kernels::forward_of_sum::launch_unchecked(
            &x.client.clone(),
            cubes(&x, norm.rows),
            dim(units),
            norm.size,
            x.into_buffer_arg(),
            residual.into_buffer_arg(),
            norm.weight().into(),
            norm.gate().into(),
            sum.clone().into_buffer_arg(),
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
    Made::new(y).and([sum]).saving([rstd])
}
