use crate::npu::Result;
use crate::npu::backend::{BASE, give};
use crate::npu::limits::ask_slice;
use crate::ops::operands::checked;
use crate::ops::rope::{self, RopeKernel, Tensors, npu};
use crate::registry::{Implementation, Launch};
use crate::semantics::{RopeKey, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};
use burn_cann::{Stream, Tensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Rope(_)),
    limits: Some(|key, tensors| {
        let key: RopeKey = key.known();
        ask_slice(tensors, |platform, specs| {
            let [q, k, cos, sin] = specs else {
                unreachable!("a rotation has four operands")
            };
            npu::decide(platform, q, cos, sin, key)?;
            npu::decide(platform, k, cos, sin, key)
        })
    }),
    launch: Launch::Rope(rope::launch),
    ..BASE
};

impl RopeKernel for CannBackend {
    fn rope_forward(operands: Tensors<Self>) -> CannTensor {
        rotate(&operands, npu::forward)
    }

    fn rope_backward(operands: Tensors<Self>) -> CannTensor {
        rotate(&operands, npu::backward)
    }
}

fn rotate(
    operands: &Tensors<CannBackend>,
    run: fn(&Stream, &Tensor, &Tensor, &Tensor, RopeKey) -> Result<Tensor>,
) -> CannTensor {
    checked(operands.dtype());
    let stream = operands.x().stream();
    let (cos, sin) = (operands.cos().tensor(), operands.sin().tensor());
    give(run(stream, operands.x().tensor(), cos, sin, operands.key()))
}
