use crate::npu::backend::{BASE, give};
use crate::npu::limits::ask;
use crate::npu::{Refused, Result, Seen};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::ops::rope::table_gradient::with_tables;
use crate::ops::rope::{Each, Launch, Operands, Pair, Rope, npu};
use crate::registry::{self, Implementation};
use crate::semantics::{RopeKey, Sections, SemanticsKey};
use burn::backend::Remote;
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
    operators: Some(|key, _, _| {
        // Queries and keys.
        let of_one = npu::operators(key.known());
        Ok([&of_one[..], &of_one[..]].concat())
    }),
    launch: registry::Launch::Rope(Launch(OpLaunch::of::<Rope, Remote>())),
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

impl FusedKernel<Rope> for CannBackend {
    fn forward(operands: Tensors<Rope, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        Made::new(rotate(operands, npu::forward))
    }

    fn backward(backward: BackwardOn<Rope, Self>) -> Gradients<Rope, Self> {
        with_tables::<Self>(backward, |backward| {
            Each::of_x(rotate(Operands::back(backward), npu::backward))
        })
    }
}

fn rotate(
    operands: Operands<CannTensor>,
    run: fn(&Stream, &Operands<Seen<Tensor>>) -> Result<Tensor>,
) -> CannTensor {
    checked(operands.dtype());
    let stream = operands.x().stream().clone();
    give(run(&stream, &operands.map(Seen::from)))
}
