//! Tests warnings in a program without a `tracing` subscriber and without a `log` logger.

use crate::process;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use burn_kernels::dispatch::Reason;
use burn_kernels::fused_kernel;
use burn_kernels::live::{self, Sampling};
use burn_kernels::policy::{self, Policy, Reaction};

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

/// Causes two warnings: the policy switches the site off, for inference and for training.
fn warn_twice() {
    let _policy = policy::scope(Policy::none().react(Reason::Policy, Reaction::Warn));
    let _unverified = live::scope(Sampling::off());
    for device in [Device::flex(), Device::flex().autodiff()] {
        let norm = Norm {
            weight: Param::from_tensor(Tensor::ones([8], &device)),
            eps: 1e-6,
        };
        norm.forward(Tensor::<2>::ones([2, 8], &device));
    }
}

/// Returns the standard error of a process that runs only this test.
fn printed(by: &str) -> String {
    String::from_utf8(process::alone(by).stderr).unwrap()
}

#[test]
fn the_first_warning_is_printed_once() {
    if process::is_own() {
        return warn_twice();
    }
    let printed = printed("unheard::the_first_warning_is_printed_once");
    assert_eq!(
        printed.matches("burn-kernels: warning").count(),
        1,
        "{printed}"
    );
    assert!(
        printed.contains("unheard::Norm::forward on cpu"),
        "{printed}"
    );
    assert!(printed.contains("switched off by the policy"), "{printed}");
    assert!(printed.contains("`tracing` subscriber"), "{printed}");
}

#[test]
fn a_subscriber_is_listened_to() {
    struct Deaf;
    impl tracing::Subscriber for Deaf {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            false
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }
    if process::is_own() {
        tracing::subscriber::set_global_default(Deaf).unwrap();
        return warn_twice();
    }
    let printed = printed("unheard::a_subscriber_is_listened_to");
    assert!(!printed.contains("burn-kernels: warning"), "{printed}");
}
