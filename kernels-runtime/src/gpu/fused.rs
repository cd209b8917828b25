//! Fused operations on GPUs: each pass is one operation of Burn's fusion.

use super::deferred::{Deferred, Like, Operand, Resolve};
use super::entries;
use crate::ops::Mismatch;
use crate::ops::fused::{
    Backward, BackwardOn, FusedKernel, FusedOp, Gradients, Internal, Made, MadeOn, Parts, Pieces,
    Tensors,
};
use crate::ops::operands::checked;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, IntDType};
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use smallvec::SmallVec;

/// The GPU kernels of an operation. They run on the thread of the device, when Burn's fusion comes to them.
pub trait OnGpu: FusedOp {
    /// Returns the operands as the kernels take them. Runs where the call is made, so that Burn fuses its operations.
    ///
    /// # Panics
    /// Panics if the kernels don't take the operands, such as those of a call without a decision.
    fn prepared(operands: Tensors<Self, Cube>) -> Tensors<Self, Cube> {
        operands
    }

    /// Checks what the kernels demand of a backward pass. Runs where the call is made.
    ///
    /// # Panics
    /// Panics if the kernels don't take it.
    fn check_backward(_: &BackwardOn<Self, Cube>) {}

    /// Checks the limits of the kernels, on the thread of the caller. `saved` is what the forward pass kept, in a backward pass.
    ///
    /// # Errors
    /// Returns an error if the operands are beyond the limits.
    fn fits(_operands: &Tensors<Self, Cube>, _saved: &[FloatTensor<Cube>]) -> Result<(), Mismatch> {
        Ok(())
    }

    /// Returns integers in i32, as kernels take them. By default, those that i32 does not hold become a negative number.
    fn entries(ints: IntTensor<Cube>) -> IntTensor<Cube> {
        entries::entries(ints)
    }

    /// Returns the results and, if gradients are wanted, what the backward pass needs. Integers are in i32.
    fn forward(
        operands: Self::Operands<CubeTensor, CubeTensor>,
        wanted: Option<&Self::Each<bool>>,
    ) -> Made<CubeTensor>;

    /// Returns the wanted gradients. Others may be missing. By default, the operation has none.
    ///
    /// # Panics
    /// Panics if the operation has no gradients.
    fn backward(_backward: Backward<Self, CubeTensor>) -> Self::Each<Option<CubeTensor>> {
        panic!("{} has no gradients", Self::TITLE)
    }

    /// Runs the forward pass. By default, that is the kernel here. Operations that other ones compute in part replace it.
    fn call(operands: Tensors<Self, Cube>, wanted: Option<&Self::Each<bool>>) -> MadeOn<Cube> {
        Deferred::forward::<Self>(operands, wanted)
    }

    /// Runs the backward pass, as [`call`](Self::call) does the forward pass.
    fn call_backward(backward: BackwardOn<Self, Cube>) -> Gradients<Self, Cube> {
        Deferred::backward::<Self>(backward)
    }
}

impl<O: OnGpu> FusedKernel<O> for Cube {
    fn forward(operands: Tensors<O, Self>, wanted: Option<&O::Each<bool>>) -> MadeOn<Self> {
        checked(O::dtype(&operands));
        let operands = O::prepared(operands);
        checked(O::fits(&operands, &[]));
        O::call(operands, wanted)
    }

    fn backward(backward: BackwardOn<O, Self>) -> Gradients<O, Self> {
        O::check_backward(&backward);
        let backward = backward.with_operands(O::prepared);
        checked(O::fits(backward.operands(), backward.all_saved()));
        O::call_backward(backward)
    }
}

impl Deferred {
    /// Runs the kernel of a forward pass when Burn's fusion comes to it.
    pub(crate) fn forward<O: OnGpu>(
        operands: Tensors<O, Cube>,
        wanted: Option<&O::Each<bool>>,
    ) -> MadeOn<Cube> {
        let mut results: Vec<Like> = O::results(&operands).into_vec();
        let mut ints: SmallVec<[IntDType; 1]> = SmallVec::new();
        for (_, dtype) in &mut results[1 + O::OTHERS..] {
            ints.push(IntDType::from(std::mem::replace(dtype, DType::I32)));
        }
        if wanted.is_some() {
            results.extend(O::saved(&operands).into_iter().map(|saved| saved.like));
        }
        let parts = O::into_parts(operands).map(|tensor| tensor, O::entries);
        let wanted = wanted.map(|wanted| O::values(wanted.clone(), &parts.lengths));
        let mut deferred = Deferred::new(O::FORWARD, &parts.floats[0]);
        let parts = parts.map_all(|tensor| deferred.operand(tensor));
        let mut made = deferred.results(results, move |tensors| {
            forward::<O>(parts.clone(), wanted.clone(), tensors)
        });
        Made {
            y: made.next().expect("there is a result"),
            others: made.by_ref().take(O::OTHERS).collect(),
            ints: ints
                .into_iter()
                .zip(made.by_ref())
                .map(|(dtype, tensor)| entries::returned(tensor, dtype))
                .collect(),
            saved: made.collect(),
        }
    }

    /// Runs the kernel of a backward pass when Burn's fusion comes to it.
    pub(crate) fn backward<O: OnGpu>(backward: BackwardOn<O, Cube>) -> Gradients<O, Cube> {
        let (lengths, pieces) = (backward.lengths(), backward.pieces().map_ints(O::entries));
        let floats = &pieces.parts.floats;
        let mut deferred = Deferred::new(O::BACKWARD, &floats[0]);
        let each = floats.iter().zip(&pieces.wanted);
        let results = each
            .filter(|(_, wanted)| **wanted)
            .map(|(tensor, _)| super::like(tensor));
        let results: Vec<Like> = results.collect();
        let wanted = pieces.wanted.clone();
        let pieces = pieces.map_all(|tensor| deferred.operand(tensor));
        let mut made = deferred.results(results, move |tensors| {
            gradients::<O>(pieces.clone(), tensors)
        });
        let each = wanted.into_iter();
        O::each(
            each.map(|wanted| wanted.then(|| made.next().expect("as many as are wanted"))),
            &lengths,
        )
    }
}

fn forward<O: OnGpu>(
    parts: Parts<Operand, Operand, O::Numbers>,
    wanted: Option<SmallVec<[bool; 5]>>,
    tensors: &mut Resolve<'_>,
) -> Vec<CubeTensor> {
    let parts = parts.map_all(|operand| tensors.tensor(operand));
    let wanted = wanted.map(|wanted| O::each(wanted, &parts.lengths));
    let made = O::forward(O::from_parts(parts, Internal(())), wanted.as_ref());
    let saved = made.saved.into_iter().filter(|_| wanted.is_some());
    let results = std::iter::once(made.y).chain(made.others).chain(made.ints);
    results.chain(saved).collect()
}

fn gradients<O: OnGpu>(
    pieces: Pieces<Operand, Operand, O::Numbers>,
    tensors: &mut Resolve<'_>,
) -> Vec<CubeTensor> {
    let (lengths, wanted) = (pieces.parts.lengths.clone(), pieces.wanted.clone());
    let pieces = pieces.map_all(|operand| tensors.tensor(operand));
    let gradients = O::values(O::backward(Backward::of_pieces(pieces)), &lengths);
    let each = gradients.into_iter().zip(wanted);
    each.filter_map(|(gradient, wanted)| gradient.filter(|_| wanted))
        .collect()
}
