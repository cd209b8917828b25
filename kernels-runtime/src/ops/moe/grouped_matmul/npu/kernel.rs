use crate::npu::limits::ask;
use crate::ops::moe::grouped_matmul::{Operands, npu};
use crate::reason::Reason;
use burn::backend::DispatchTensor;
use smallvec::SmallVec;

/// Checks CANN's limits on products of rows grouped by expert.
pub(crate) fn takes(operands: &Operands<DispatchTensor, DispatchTensor>) -> Result<(), Reason> {
    let tensors: SmallVec<[_; 4]> = [operands.x(), operands.counts()]
        .into_iter()
        .chain(operands.weights())
        .collect();
    ask(&tensors, |platform, mut specs| {
        let (x, counts) = (specs.one(), specs.one());
        npu::decide(
            platform,
            &Operands::new(
                x,
                specs.collect(),
                counts,
                operands.layout(),
                operands.known(),
            )?,
        )
    })
}
