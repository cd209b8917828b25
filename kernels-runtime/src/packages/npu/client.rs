//! Calls of functions on NPUs, with autodiff or without: the messages of the client.

use crate::kernel::any_rank::flat;
use crate::ops::derived;
use crate::ops::fused::packaged::ByName;
use crate::ops::fused::{Backward, Given, Internal, Made, OfDispatch, OnDispatch, Parts};
use crate::ops::operands::checked;
use crate::packages::operations::Bindable;
use crate::packages::run::Functions;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Remote,
};

/// Sends the forward pass, and records the backward pass if a tensor has autodiff enabled.
///
/// # Panics
/// Panics if the tensors are not ones that the functions take.
pub(super) fn run<O: Bindable>(
    functions: &'static Functions,
    name: &'static str,
    operands: OfDispatch<O>,
) -> Made<DispatchTensor> {
    let parts = O::into_parts(operands);
    let has_autodiff =
        |tensor: &DispatchTensor| matches!(tensor.kind, DispatchTensorKind::Autodiff(_));
    let tensors = parts.floats.iter().enumerate();
    let (parents_at, parents): (Vec<usize>, Vec<DispatchTensor>) = tensors
        .filter(|(_, tensor)| has_autodiff(tensor))
        .map(|(at, tensor)| (at, tensor.clone()))
        .unzip();
    let tracked = parts.floats.iter();
    let tracked = tracked.map(|tensor| has_autodiff(tensor) && flat(tensor).is_tracked());
    let wanted: Vec<bool> = tracked.collect();
    let parts: Parts<FloatTensor<Remote>, IntTensor<Remote>, O::Numbers> = parts.map(
        |tensor| on_server(&tensor),
        |_| unreachable!("these operations have no tensors of integers"),
    );
    let lengths = parts.lengths.clone();
    let kept = (!parents.is_empty()).then(|| parts.clone());
    let operands = O::from_parts(parts, Internal(()));
    checked(O::dtype(&operands));
    let each = (!parents.is_empty()).then(|| O::each(wanted.iter().copied(), &lengths));
    let made = <Remote as ByName<O>>::forward_by(name, operands, each.as_ref());
    let y = of_dispatch(made.y);
    let Some(kept) = kept else {
        return Made::new(y);
    };
    // Dispatch removes autodiff from the tensors before, if the gradient is that of the reference.
    assert!(
        functions.backward.is_some(),
        "{}: a tensor has autodiff enabled, but there is no gradient",
        functions.name
    );
    let saved = made.saved;
    let pullback = move |dy: DispatchTensor| {
        let given = Given::new(on_server(&dy)).saving(saved.iter().cloned());
        let operands = O::from_parts(kept.clone(), Internal(()));
        let backward = checked(Backward::<O, _, _>::new(operands, given, &wanted));
        let gradients = <Remote as ByName<O>>::backward_by(name, backward);
        let mut gradients = O::values(gradients, &lengths);
        let of = |at: &usize| gradients[*at].take().map(of_dispatch);
        parents_at.iter().map(of).collect()
    };
    Made::new(derived::record(parents, &y, O::KERNEL, pullback))
}

/// Returns a tensor without autodiff.
///
/// # Panics
/// Panics if it is not on a served device.
fn on_server(tensor: &DispatchTensor) -> FloatTensor<Remote> {
    let plain = flat(tensor).without_autodiff().into_dispatch();
    Remote::unwrap(plain.kind).float()
}

fn of_dispatch(tensor: FloatTensor<Remote>) -> DispatchTensor {
    DispatchTensor {
        kind: Remote::wrap(BackendTensor::Float(tensor)),
        autodiff: DispatchAutodiffContext::Disabled,
    }
}
