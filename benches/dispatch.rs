//! Measures the cost of a site: a cached decision alone, and a whole call on the reference path, compared with the same
//! body written by hand.
//!
//! Run it with `cargo bench --bench dispatch`.

use burn::module::{Module, Param};
use burn::tensor::{Device, Distribution, Tensor};
use burn_kernels::dispatch::{Mode, Query, TensorType};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{self, Policy};
use burn_kernels::registry::{FloatType, Site, sites};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;

#[derive(Module, Debug)]
struct Annotated {
    weight: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm", rounding = gemma)]
impl Annotated {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mean_square = x.clone().square().mean_dim(D - 1);
        x / (mean_square + self.eps).sqrt() * self.weight.val().unsqueeze()
    }
}

#[derive(Module, Debug)]
struct ByHand {
    weight: Param<Tensor<1>>,
    eps: f64,
}

impl ByHand {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mean_square = x.clone().square().mean_dim(D - 1);
        x / (mean_square + self.eps).sqrt() * self.weight.val().unsqueeze()
    }
}

/// Returns the site of [`Annotated`].
fn site() -> &'static Site {
    sites()
        .find(|site| site.name().ends_with("Annotated::forward"))
        .expect("the norm of this file is annotated")
}

/// Measures a cached decision: a thread-local read, a hit in the site's cache and a count.
fn cached_decision(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cached decision");
    let tensors = TensorType::Float(FloatType::F32);
    // Hidden from the compiler once. In every iteration it would be written and read back.
    let query = black_box(Query::new(&Device::flex(), tensors, Mode::Training));
    let site = site();
    for (name, policy) in [
        ("fused", Policy::auto()),
        ("reference", Policy::reference()),
    ] {
        let _scope = policy::scope(policy);
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(site).decide(query));
        });
    }
    group.finish();
}

/// Measures the reference of an annotated norm, and the same norm without the attribute.
fn reference_path(criterion: &mut Criterion) {
    let device = Device::flex();
    let _off = policy::scope(Policy::reference());
    let mut group = criterion.benchmark_group("RMSNorm reference");
    for [rows, n] in [[1, 64], [16, 256], [64, 1024]] {
        let weight = || Param::from_tensor(Tensor::<1>::ones([n], &device));
        let annotated = Annotated {
            weight: weight(),
            eps: 1e-6,
        };
        let by_hand = ByHand {
            weight: weight(),
            eps: 1e-6,
        };
        let x = Tensor::<2>::random([rows, n], Distribution::Normal(0.0, 1.0), &device);
        let shape = format!("[{rows}, {n}]");
        group.bench_function(BenchmarkId::new("annotated", &shape), |bencher| {
            bencher.iter(|| annotated.forward(black_box(x.clone())));
        });
        group.bench_function(BenchmarkId::new("by hand", &shape), |bencher| {
            bencher.iter(|| by_hand.forward(black_box(x.clone())));
        });
    }
    group.finish();
}

criterion_group!(benches, cached_decision, reference_path);
criterion_main!(benches);
