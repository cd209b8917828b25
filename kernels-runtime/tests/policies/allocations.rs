//! Tests that a cached decision allocates nothing.

use crate::acme::{alone, inference, is_fused, limited, llama, path, training};
use crate::counting::allocations;
use burn::tensor::{Device, Tensor};
use kernels_runtime::__private::{At, rms_norm};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::FloatType::F32;
use kernels_runtime::tune;

#[test]
fn a_cached_decision_allocates_nothing() {
    let _alone = alone();
    assert!(allocations(|| vec![0_u8; 100]) > 0, "the test can fail");
    let _policy = policy::scope(Policy::auto());
    for query in [inference(F32), training(F32)] {
        llama().decide(query);
        assert_eq!(
            allocations(|| {
                for _ in 0..100 {
                    llama().decide(query);
                }
            }),
            0
        );
    }
    let _off = policy::scope(Policy::reference());
    let query = inference(F32);
    assert_eq!(path(llama(), query), "policy");
    assert_eq!(allocations(|| llama().decide(query)), 0);
}

/// A whole call of a site allocates no more than the calls that it dispatches to. The kernel here returns its input,
/// and Burn's tensors are moved.
#[test]
fn a_call_allocates_no_more_than_its_tensors() {
    let _alone = alone();
    let _unverified = live::scope(Sampling::off());
    let _policy = policy::scope(Policy::auto());
    let device = Device::flex();
    assert!(is_fused(limited(), 4));
    let x = Tensor::<2>::ones([1, 4], &device);
    let weight = Tensor::<1>::ones([4], &device);
    let moved = allocations(|| {
        let (x, weight) = (x.clone(), weight.clone());
        let x = Tensor::<2>::from_dispatch(x.into_dispatch());
        (x, weight.into_dispatch())
    });
    let called = allocations(|| {
        rms_norm(
            At::new(limited()),
            x.clone(),
            &|| Some(weight.clone()),
            1e-6,
            None,
            &mut |x| x,
        )
    });
    assert!(
        called <= moved,
        "{called} allocations for a call, {moved} for its tensors"
    );
}

/// The same holds where first calls are verified, once the calls of this class are. The kernel here is wrong, so that a
/// difference is only a warning.
#[test]
fn a_call_of_a_verified_class_allocates_nothing() {
    let _alone = alone();
    let _verified = live::scope(Sampling::first().warn());
    let _policy = policy::scope(Policy::auto());
    let x = Tensor::<2>::ones([1, 4], &Device::flex());
    let weight = Tensor::<1>::ones([4], &Device::flex());
    let call = || {
        let (x, weight) = (x.clone(), || Some(weight.clone()));
        rms_norm(At::new(limited()), x, &weight, 1e-6, None, &mut |x| x)
    };
    let first = allocations(call);
    let moved = allocations(|| {
        let (x, weight) = (x.clone(), weight.clone());
        let x = Tensor::<2>::from_dispatch(x.into_dispatch());
        (x, weight.into_dispatch())
    });
    let called = allocations(call);
    assert!(
        called <= moved && called < first,
        "{called}, {moved}, {first}"
    );
}

/// The same holds under a policy that tunes, once the calls of these sizes are measured.
#[test]
fn a_decided_class_allocates_nothing() {
    let _alone = alone();
    let _unverified = live::scope(Sampling::off());
    let _policy = policy::scope(Policy::auto().tune());
    let x = Tensor::<2>::ones([1, 4], &Device::flex());
    let weight = Tensor::<1>::ones([4], &Device::flex());
    let call = || {
        let (x, weight) = (x.clone(), || Some(weight.clone()));
        rms_norm(At::new(limited()), x, &weight, 1e-6, None, &mut |x| x)
    };
    let first = allocations(call);
    for _ in 0..10 {
        call();
    }
    assert_eq!(tune::report().open(), 0);
    let moved = allocations(|| {
        let (x, weight) = (x.clone(), weight.clone());
        let x = Tensor::<2>::from_dispatch(x.into_dispatch());
        (x, weight.into_dispatch())
    });
    let called = allocations(call);
    assert!(
        called <= moved && called < first,
        "{called}, {moved}, {first}"
    );
}
