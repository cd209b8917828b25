use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::glu::{self, Backward, GluKernel, Operands, Projected, Settings, Tensors, npu};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{GluKey, Projections, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Glu(key) if npu::of_key(*key).is_ok()),
    limits: Some(|key, tensors| {
        let key: GluKey = key.known();
        ask(tensors, |platform, mut specs| {
            let first = specs.one();
            let projected = match key.projections {
                Projections::Separate => Projected::Separate {
                    gate: first,
                    up: specs.one(),
                },
                Projections::Chunked | Projections::Interleaved => Projected::Packed(first),
            };
            npu::decide(
                platform,
                &Operands::new(projected, Settings::default(), key)?,
            )
        })
    }),
    launch: Launch::Glu(glu::launch),
    ..BASE
};

impl GluKernel for CannBackend {
    fn glu_forward(operands: Tensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.first().stream().clone();
        give(npu::forward(&stream, &operands.map(Seen::from)))
    }

    fn glu_backward(backward: Backward<CannTensor>) -> Projected<CannTensor> {
        let stream = backward.operands().first().stream().clone();
        let gradients = npu::backward(&stream, &backward.map(Seen::from));
        take(gradients).map(|tensor| give(Ok(tensor)))
    }
}
