//! Compares Burn's own layers with their counterparts here: results and gradients.

use burn::nn::{RmsNormConfig, RotaryEncodingConfig, SwiGluConfig};
use burn::tensor::{Device, Distribution, Tensor};
use burn_kernels::nn::{RmsNorm, RotaryEncoding, SwiGlu};
use burn_kernels::policy::{Policy, scope};
use burn_kernels::report::report;

/// Returns the largest difference, relative to the largest element.
fn difference<const D: usize>(ours: Tensor<D>, theirs: Tensor<D>) -> f32 {
    let scale = theirs.clone().abs().max().into_scalar::<f32>();
    (ours - theirs).abs().max().into_scalar::<f32>() / scale
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// The tolerance of f32 results of at most a few dozen roundings.
const CLOSE: f32 = 2e-6;

#[test]
fn rms_norm_is_burns() {
    let device = Device::flex().autodiff();
    let theirs = RmsNormConfig::new(24).init(&device);
    let ours = RmsNorm::from(theirs.clone());
    let (x, dy) = (random([3, 5, 24], &device), random([3, 5, 24], &device));
    let run = |f: &dyn Fn(Tensor<3>) -> Tensor<3>, gamma: &Tensor<1>| {
        let x = x.clone().require_grad();
        let y = f(x.clone());
        let grads = (y.clone() * dy.clone()).sum().backward();
        let dx = x.grad(&grads).expect("x is tracked");
        let dg = gamma.grad(&grads).expect("the weight is tracked");
        (y.inner(), dx, dg)
    };
    let (y, dx, dg) = run(&|x| ours.forward(x), &ours.gamma.val());
    let (y2, dx2, dg2) = run(&|x| theirs.forward(x), &theirs.gamma.val());
    assert!(difference(y, y2) < CLOSE);
    assert!(difference(dx, dx2) < CLOSE);
    assert!(difference(dg, dg2) < CLOSE);
}

#[test]
fn swiglu_is_burns() {
    let device = Device::flex();
    let theirs = SwiGluConfig::new(8, 24).with_bias(true).init(&device);
    let ours = SwiGlu::from(theirs.clone());
    let x = random([2, 3, 8], &device);
    assert!(difference(ours.forward(x.clone()), theirs.forward(x)) < CLOSE);
}

#[test]
fn the_rotary_encoding_is_burns() {
    let device = Device::flex();
    let theirs = RotaryEncodingConfig::new(64, 16).init(&device);
    let ours = RotaryEncoding::from(theirs.clone());
    let (q, k) = (
        random([2, 4, 9, 16], &device),
        random([2, 2, 9, 16], &device),
    );
    for start in [0, 7, 55] {
        let (q2, k2) = (
            theirs.apply(q.clone(), start),
            theirs.apply(k.clone(), start),
        );
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            let (q1, k1) = ours.apply(q.clone(), k.clone(), start);
            assert!(difference(q1, q2.clone()) < CLOSE);
            assert!(difference(k1, k2.clone()) < CLOSE);
        }
    }
    let fused = report().rows.iter().any(|row| {
        row.site == "burn_kernels::nn::rotary::rotate"
            && row
                .call
                .as_ref()
                .is_some_and(|call| call.implementation.is_some())
    });
    assert!(fused, "{}", report());
}
