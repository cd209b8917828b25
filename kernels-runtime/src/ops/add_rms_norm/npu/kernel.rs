use super::{decide, forward, is_computed};
use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::add_rms_norm::{self, AddRmsNormKernel, Normalised, Operands, Settings, Tensors};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{AddRmsNormKey, Scale, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradient of the weight is summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::AddRmsNorm(key) if is_computed(*key)),
    limits: Some(|key, tensors| {
        let key: AddRmsNormKey = key.known();
        let settings = Settings {
            eps: 1e-6,
            group_size: None,
        };
        ask(tensors, |platform, mut specs| {
            let (x, residual) = (specs.one(), specs.one());
            let weight = specs.one_if(key.scale == Scale::Weight);
            let operands = Operands::new(x, residual, weight, None, settings, key)?;
            decide(platform, &operands)
        })
    }),
    launch: Launch::AddRmsNorm(add_rms_norm::launch),
    ..BASE
};

impl AddRmsNormKernel for CannBackend {
    fn add_rms_norm_forward(operands: Tensors<Self>) -> Normalised<CannTensor> {
        checked(operands.dtype());
        let stream = operands.x().stream().clone();
        let Normalised { y, sum, rstd } = take(forward(&stream, &operands.map(Seen::from)));
        let [y, sum, rstd] = [y, sum, rstd].map(|tensor| give(Ok(tensor)));
        Normalised { y, sum, rstd }
    }
}
