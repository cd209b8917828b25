use crate::npu::Refused;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::operands::checked;
use crate::ops::rms_norm::{self, Backward, Gradients, RmsNormKernel, Settings, Tensors, npu};
use crate::reason::Reason;
use crate::registry::{Implementation, Launch};
use crate::semantics::{Gating, Groups, RmsNormKey, Scale, SemanticsKey};
use burn_cann::DType;
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The gradient of the weight is summed in any order.
    deterministic: false,
    // The size of groups is a number of the call, which limits are not told.
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(key) if key.groups == Groups::One),
    limits: Some(|key, tensors| {
        let key: RmsNormKey = key.known();
        ask(tensors, |platform, specs| {
            let mut specs = specs.iter();
            let mut next = || specs.next().expect("as many operands as the key has");
            let tensors = npu::Tensors {
                x: next(),
                weight: (key.scale == Scale::Weight).then(&mut next),
                gate: (key.gating != Gating::None).then(&mut next),
            };
            // CANN's operators round between the norm and the gate, which no key does.
            if key.gating == Gating::AfterNorm && tensors.x.dtype != DType::F32 {
                let why = "a gate after the norm is computed in f32 alone";
                return Err(Refused::new(Reason::Dtype, why));
            }
            let settings = Settings {
                eps: 1e-6,
                group_size: None,
            };
            npu::decide(platform, &tensors, settings, key)
        })
    }),
    launch: Launch::RmsNorm(rms_norm::launch),
    ..BASE
};

fn tensors(operands: &Tensors<CannBackend>) -> npu::Tensors<burn_cann::Tensor> {
    let (x, weight, gate) = operands.as_ref().into_parts();
    let all = npu::Tensors { x, weight, gate };
    all.map(|tensor| tensor.tensor().clone())
}

impl RmsNormKernel for CannBackend {
    fn rms_norm_forward(operands: Tensors<Self>) -> (CannTensor, CannTensor) {
        checked(operands.dtype());
        let stream = operands.x().stream();
        let (settings, key) = (operands.settings(), operands.key());
        let (y, rstd) = take(npu::forward(stream, &tensors(&operands), settings, key));
        (give(Ok(y)), give(Ok(rstd)))
    }

    fn rms_norm_backward(backward: Backward<CannTensor>) -> Gradients<CannTensor> {
        let operands = backward.operands();
        let gradients = take(npu::backward(
            operands.x().stream(),
            backward.dy().tensor(),
            &tensors(operands),
            backward.rstd().tensor(),
            operands.settings(),
            operands.key(),
            backward.weight_gradient(),
        ));
        gradients.map(|tensor| give(Ok(tensor)))
    }
}
