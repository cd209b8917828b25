use crate::npu::backend::{BASE, give};
use crate::npu::limits::ask;
use crate::npu::{Refused, Result, Seen};
use crate::ops::operands::checked;
use crate::ops::rope::{self, Operands, Pair, RopeKernel, Tensors, npu};
use crate::registry::{Implementation, Launch};
use crate::semantics::{RopeKey, Sections, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};
use burn_cann::{Spec, Stream, Tensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Rope(_)),
    limits: Some(|key, tensors| {
        let key: RopeKey = key.known();
        ask(tensors, |platform, mut specs| {
            let [q, k] = std::array::from_fn(|_| specs.one());
            let [cos, sin] = [rows(specs.one(), key)?, rows(specs.one(), key)?];
            let [q, k] = Pair::new(q, k, cos, sin, key)?.split();
            npu::decide(platform, &q)?;
            npu::decide(platform, &k)
        })
    }),
    launch: Launch::Rope(rope::launch),
    ..BASE
};

/// Returns the table that a kernel reads. Sites merge the three positions of a table into one.
fn rows(table: Seen<Spec>, key: RopeKey) -> Result<Seen<Spec>, Refused> {
    match (key.sections, table.shape()) {
        (Sections::Chunked | Sections::Interleaved, [3, merged @ ..]) => {
            Ok(Seen(Spec::contiguous(table.dtype, merged)?))
        }
        _ => Ok(table),
    }
}

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
