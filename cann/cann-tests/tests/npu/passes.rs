//! Passes of fused operations over CANN's operators.

use burn_cann::{Stream, Tensor};
use kernels_runtime::npu::{OnNpu, Result, Seen, Specified};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::fused::{Backward, FusedOp, Given, Made};

/// The operands of an operation, as tensors or as their specs.
type Operands<O, T> = <O as FusedOp>::Operands<Seen<T>, Seen<T>>;

/// Returns the results of a call whose gradients are all wanted, and what its backward pass needs.
pub fn forward<O: OnNpu>(stream: &Stream, operands: &Operands<O, Tensor>) -> Result<Made<Tensor>> {
    let every = O::floats(operands).into_iter().map(|_| true);
    let wanted = O::each(every, &O::lengths(operands));
    O::forward(stream, operands, Some(&wanted))
}

/// Returns the operands of the backward pass, with a flag for each float tensor whose gradient is wanted.
pub fn given<O: FusedOp, T: Specified>(
    operands: Operands<O, T>,
    dy: T,
    saved: impl IntoIterator<Item = T>,
    wanted: &[bool],
) -> std::result::Result<Backward<O, Seen<T>>, Mismatch> {
    let given = Given {
        others: Default::default(),
        dy: Seen(dy),
        saved: saved.into_iter().map(Seen).collect(),
        ints: std::iter::empty().collect(),
    };
    Backward::new(operands, given, wanted)
}
