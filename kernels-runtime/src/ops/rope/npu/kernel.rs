use crate::npu::backend::{BASE, give};
use crate::npu::limits::ask;
use crate::npu::{Result, Seen};
use crate::ops::operands::checked;
use crate::ops::rope::{self, Operands, Pair, RopeKernel, Tensors, npu};
use crate::registry::{Implementation, Launch};
use crate::semantics::{RopeKey, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};
use burn_cann::{Stream, Tensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Rope(_)),
    limits: Some(|key, tensors| {
        let key: RopeKey = key.known();
        ask(tensors, |platform, mut specs| {
            let [q, k, cos, sin] = std::array::from_fn(|_| specs.one());
            let [q, k] = Pair::new(q, k, cos, sin, key)?.split();
            npu::decide(platform, &q)?;
            npu::decide(platform, &k)
        })
    }),
    launch: Launch::Rope(rope::launch),
    ..BASE
};

impl RopeKernel for CannBackend {
    fn rope_forward(operands: Tensors<Self>) -> CannTensor {
        rotate(operands, npu::forward)
    }

    fn rope_backward(operands: Tensors<Self>) -> CannTensor {
        rotate(operands, npu::backward)
    }
}

fn rotate(
    operands: Tensors<CannBackend>,
    run: fn(&Stream, &Operands<Seen<Tensor>>) -> Result<Tensor>,
) -> CannTensor {
    checked(operands.dtype());
    let stream = operands.x().stream().clone();
    give(run(&stream, &operands.map(Seen::from)))
}
