//! Fused operations on NPUs, over CANN's operators.

use super::backend::{give, take};
use super::{Result, Seen};
use crate::ops::fused::{
    Backward, BackwardOn, FusedKernel, FusedOp, Gradients, Internal, Made, MadeOn, Tensors,
};
use crate::ops::operands::checked;
use burn_cann::backend::{CannBackend, CannTensor};
use burn_cann::{Stream, Tensor};

/// An operation over CANN's operators.
pub trait OnNpu: FusedOp {
    /// Returns the results and, if gradients are wanted, what the backward pass needs.
    ///
    /// # Errors
    /// Returns an error if the operators don't take these operands, or if CANN fails.
    fn forward(
        stream: &Stream,
        operands: &Self::Operands<Seen<Tensor>, Seen<Tensor>>,
        wanted: Option<&Self::Each<bool>>,
    ) -> Result<Made<Tensor>>;

    /// Works like [`forward`](Self::forward), for operations that write over operands which nothing else holds.
    ///
    /// # Errors
    /// Returns an error as [`forward`](Self::forward) does.
    fn forward_owned(
        stream: &Stream,
        operands: Self::Operands<Seen<Tensor>, Seen<Tensor>>,
        wanted: Option<&Self::Each<bool>>,
    ) -> Result<Made<Tensor>> {
        Self::forward(stream, &operands, wanted)
    }

    /// Returns the wanted gradients. Others may be missing. By default, the operation has none.
    ///
    /// # Errors
    /// Returns an error as [`forward`](Self::forward) does.
    ///
    /// # Panics
    /// Panics if the operation has no gradients.
    fn backward(
        _stream: &Stream,
        _backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Self::Each<Option<Tensor>>> {
        panic!("{} has no gradients", Self::TITLE)
    }
}

impl<O: OnNpu> FusedKernel<O> for CannBackend {
    fn forward(operands: Tensors<O, Self>, wanted: Option<&O::Each<bool>>) -> MadeOn<Self> {
        checked(O::dtype(&operands));
        let parts = O::into_parts(operands);
        let stream = stream(&parts.floats[0]);
        let operands = O::from_parts(parts.map_all(Seen::from), Internal(()));
        let made = take(O::forward_owned(&stream, operands, wanted));
        made.map(|tensor| give(Ok(tensor)), |ints| give(Ok(ints)))
    }

    fn backward(backward: BackwardOn<O, Self>) -> Gradients<O, Self> {
        let (lengths, pieces) = (backward.lengths(), backward.pieces());
        let stream = stream(&pieces.parts.floats[0]);
        let backward = Backward::of_pieces(pieces.map_all(Seen::from));
        let gradients = O::values(take(O::backward(&stream, &backward)), &lengths);
        let gradients = gradients.into_iter();
        O::each(
            gradients.map(|gradient| gradient.map(|tensor| give(Ok(tensor)))),
            &lengths,
        )
    }
}

fn stream(on: &CannTensor) -> Stream {
    on.stream().clone()
}
