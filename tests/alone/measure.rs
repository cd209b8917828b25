//! Tests a program's own benchmark: the sites that it switches, and the number of runs.

use crate::counting::alone;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Distribution, Tensor};
use burn_kernels::policy::{self, Policy};
use burn_kernels::{fused_kernel, measure, report};

/// The name of the site.
const SITE: &str = concat!(module_path!(), "::Mlp::forward");

#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

fn mlp() -> (Mlp, Tensor<2>) {
    let device = Device::flex();
    let linear = || LinearConfig::new(16, 16).init(&device);
    let mlp = Mlp {
        gate_proj: linear(),
        up_proj: linear(),
        down_proj: linear(),
    };
    (mlp, Tensor::random([4, 16], Distribution::Default, &device))
}

/// Returns the numbers of calls of `Mlp::forward` on the CPU's kernel and on the reference.
fn calls() -> (u64, u64) {
    let rows = report::report().rows;
    let rows = rows.iter().filter(|row| row.site == SITE);
    rows.fold((0, 0), |(fused, reference), row| match &row.call {
        Some(call) if call.implementation.is_some() => (fused + row.calls, reference),
        _ => (fused, reference + row.calls),
    })
}

#[test]
fn every_round_runs_with_kernels_without_and_without_each_site() {
    let _alone = alone();
    let (mlp, x) = mlp();
    let before = calls();
    let measured = measure(|| drop([mlp.forward(x.clone()), mlp.forward(x.clone())])).unwrap();
    let after = calls();

    let [site] = &measured.sites[..] else {
        panic!("one site: {:?}", measured.sites);
    };
    assert_eq!(site.site, SITE);
    assert_eq!((site.kernel, site.calls), ("npu_fused_swiglu", 2));
    let rounds = measured.fused.seconds.len() as u64;
    assert_eq!(measured.reference.seconds.len() as u64, rounds);
    assert_eq!(site.without.seconds.len() as u64, rounds);
    // Each way runs once more than it is timed: with kernels, with the reference everywhere, and with the reference at
    // the site.
    assert_eq!(after.0 - before.0, 2 * (rounds + 1));
    assert_eq!(after.1 - before.1, 2 * 2 * (rounds + 1));

    let shown = measured.to_string();
    assert!(shown.contains(SITE), "{shown}");
    assert_eq!(policy::current().unwrap(), Policy::auto());
}

#[test]
fn without_kernels_there_is_no_site() {
    let _alone = alone();
    let (mlp, x) = mlp();
    let _none = policy::scope(Policy::none());
    let measured = measure(|| drop(mlp.forward(x.clone()))).unwrap();
    assert!(measured.sites.is_empty());
    let shown = measured.to_string();
    assert!(
        shown.contains("no site ran fused under the policy `none`"),
        "{shown}"
    );
}
