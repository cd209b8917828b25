//! Measures the cost of verifying first uses in a training run of 100 steps: the default Qwen3 of `kernels train`, with
//! its batch of 16 × 128 bytes.
//!
//! Run it with `cargo bench -p kernels-models --bench first_use`. Runs with and without verification take turns.

mod model;

use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_kernels::live::{self, Sampling};
use burn_kernels::optim::InitFused;
use std::time::Instant;

fn main() {
    // `cargo test` only checks that the benchmark runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (rounds, steps, sequences, tokens) = match measured {
        true => (5, 100, 16, 128),
        false => (1, 2, 1, 8),
    };
    let of = |sampling: Sampling| {
        live::reset();
        let _scope = live::scope(sampling);
        let started = Instant::now();
        let losses = train(steps, sequences, tokens);
        let checks: f64 = live::report().rows.iter().map(|row| row.seconds).sum();
        (started.elapsed().as_secs_f64(), checks, losses)
    };
    of(Sampling::off());
    println!("{steps} steps of {sequences} × {tokens} tokens\n");
    println!("| off | first | first / off | the checks alone | part of the run |");
    println!("|---|---|---|---|---|");
    for _ in 0..rounds {
        let (off, _, expected) = of(Sampling::off());
        let (first, checks, losses) = of(Sampling::first());
        assert_eq!(losses, expected, "verification changes nothing");
        println!(
            "| {off:.3} s | {first:.3} s | {:.4} | {:.1} ms | {:.3} % |",
            first / off,
            checks * 1e3,
            checks / first * 100.0
        );
    }
    println!("\n{}", live::report());
}

/// Returns the losses of a run with a fixed seed.
fn train(steps: usize, sequences: usize, tokens: usize) -> Vec<f32> {
    let device = Device::flex().autodiff();
    device.seed(42);
    let mut model = model::config().init(&device);
    let mut optimiser = AdamWConfig::new().init_fused();
    let losses = (0..steps).map(|_| {
        let bytes = Distribution::Uniform(0.0, 255.0);
        let ids = Tensor::<2, Int>::random([sequences, tokens], bytes, &device);
        let (_, loss) = model.loss(ids, None);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(1e-3, model.clone(), grads);
        loss.into_scalar::<f32>()
    });
    losses.collect()
}
