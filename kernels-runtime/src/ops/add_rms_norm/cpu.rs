//! The sum and its RMSNorm on Flex: [`kernels_simd::rms_norm`] with a residual. A row of the sum is normalised while it is
//! in the first-level cache.

use super::record::TwoSteps;
use super::{AddRmsNorm, Each, Launch};
use crate::cpu::BASE;
use crate::ops::fused::{FusedKernel, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::ops::rms_norm::cpu;
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::AddRmsNorm(
        Launch(OpLaunch::recorded::<AddRmsNorm, Flex, TwoSteps>()),
    ),
    accepts: |key| matches!(key, SemanticsKey::AddRmsNorm(_)),
    ..BASE
};

impl FusedKernel<AddRmsNorm> for Flex {
    fn forward(operands: Tensors<AddRmsNorm, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let norm = operands.clone().norm_of(|x, _| x);
        let found = cpu::forward(&norm, Some(operands.residual()));
        Made::new(found.y).and(found.sum).saving([found.rstd])
    }
}
