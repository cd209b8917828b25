//! The choice of a block's router while the block's experts run.
//!
//! A router that chooses from more experts than there are would name one past the last, which stands for an expert
//! elsewhere and adds nothing. Experts that take the indices of the router itself must therefore be as many as its logits.
//! Experts that take others, such as those of one device, may be fewer.

use crate::device::DeviceKind;
#[cfg(any(feature = "cpu", feature = "gpu", feature = "remote"))]
use burn::backend::BackendTensor;
use burn::backend::DispatchTensorKind;
use burn::tensor::{Int, Tensor};
use std::cell::RefCell;

/// A router's indices, and the number of logits that they were chosen from.
struct Chosen {
    indices: Tensor<2, Int>,
    logits: usize,
}

thread_local! {
    static CHOSEN: RefCell<Option<Chosen>> = const { RefCell::new(None) };
}

/// Runs the experts of a block with the choice of its router.
pub(in crate::ops::moe) fn with<R>(
    indices: Tensor<2, Int>,
    logits: usize,
    experts: impl FnOnce(Tensor<2, Int>) -> R,
) -> R {
    /// Puts back the choice of the block around this one, after a panic too.
    struct Before(Option<Chosen>);

    impl Drop for Before {
        fn drop(&mut self) {
            CHOSEN.set(self.0.take());
        }
    }

    let chosen = Chosen {
        indices: indices.clone(),
        logits,
    };
    let _before = Before(CHOSEN.replace(Some(chosen)));
    experts(indices)
}

/// Checks that there are as many experts as the router has logits, if the indices are its own.
///
/// # Panics
/// Panics if there are more or fewer.
#[track_caller]
pub(in crate::ops::moe) fn check(indices: &Tensor<2, Int>, experts: usize) {
    let logits = CHOSEN.with_borrow(|chosen| {
        let chosen = chosen.as_ref()?;
        is_same(indices, &chosen.indices).then_some(chosen.logits)
    });
    if let Some(logits) = logits {
        assert!(
            logits == experts,
            "npu_fused_moe: the router gives {logits} logits a token, but there are {experts} experts"
        );
    }
}

/// Returns whether two tensors are one, as clones of a tensor are. On devices other than the CPU, one that was moved to
/// another stream is not known again.
fn is_same(one: &Tensor<2, Int>, other: &Tensor<2, Int>) -> bool {
    let [one, other] = [one, other].map(|tensor| tensor.clone().into_dispatch().kind);
    DeviceKind::id_of_tensor(&one) == DeviceKind::id_of_tensor(&other) && are_one(&one, &other)
}

/// Returns whether two tensors of one device are one.
fn are_one(one: &DispatchTensorKind, other: &DispatchTensorKind) -> bool {
    match (one, other) {
        (DispatchTensorKind::Autodiff(one), other) => are_one(one, other),
        (one, DispatchTensorKind::Autodiff(other)) => are_one(one, other),
        #[cfg(feature = "cpu")]
        (
            DispatchTensorKind::Flex(BackendTensor::Int(one)),
            DispatchTensorKind::Flex(BackendTensor::Int(other)),
        ) => std::ptr::eq(one.bytes().as_ptr(), other.bytes().as_ptr()),
        #[cfg(feature = "gpu")]
        (
            DispatchTensorKind::Cube(BackendTensor::Int(one)),
            DispatchTensorKind::Cube(BackendTensor::Int(other)),
        ) => one.id == other.id,
        #[cfg(feature = "remote")]
        (
            DispatchTensorKind::Remote(BackendTensor::Int(one)),
            DispatchTensorKind::Remote(BackendTensor::Int(other)),
        ) => one.clone().into_ir().id == other.clone().into_ir().id,
        _ => false,
    }
}
