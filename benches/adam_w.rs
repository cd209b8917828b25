//! Measures a step of AdamW on one parameter on the CPU: the fused kernel and Burn's own optimiser in one run.
//!
//! `cargo bench --bench adam_w --features optim` prints a table. `benches/adam_w_torch.py` prints PyTorch's times for
//! the same sizes. Steps follow one another as in training: each takes over the tensors of the last.
//!
//! The ratio comes from steps in turn, where each optimiser finds the other's data in the caches. The column *alone* is
//! for steps of the kernel without Burn's in between, as PyTorch's are timed.

use burn::optim::{AdamWConfig, Optimizer};
use burn::tensor::{DType, Device, Distribution, Tensor};
use burn_kernels::optim::InitFused;
use std::time::{Duration, Instant};

const SHAPES: [[usize; 2]; 4] = [[1, 128], [128, 384], [1024, 1024], [4096, 4096]];

fn main() {
    println!(
        "| parameter | dtype | fused | Burn | Burn / fused | alone | GB/s |\n|---|---|---|---|---|---|---|"
    );
    for dtype in [DType::F32, DType::BF16] {
        for shape in SHAPES {
            row(shape, dtype);
        }
    }
}

/// The values that a loop keeps from step to step.
struct Run<O: Optimizer> {
    optimiser: O,
    parameter: Option<Tensor<2>>,
    state: Option<O::State<2>>,
    gradient: Tensor<2>,
}

impl<O: Optimizer> Run<O> {
    fn new(optimiser: O, shape: [usize; 2], dtype: DType) -> Self {
        let random = || {
            let normal = Distribution::Normal(0.0, 1.0);
            Tensor::random(shape, normal, (&Device::flex(), dtype))
        };
        let mut run = Self {
            optimiser,
            parameter: Some(random()),
            state: None,
            gradient: random(),
        };
        // The first step creates the state.
        run.step();
        run
    }

    fn step(&mut self) -> Duration {
        let parameter = self.parameter.take().expect("each step gives it back");
        let start = Instant::now();
        let (parameter, state) =
            self.optimiser
                .step(1e-3, parameter, self.gradient.clone(), self.state.take());
        let time = start.elapsed();
        (self.parameter, self.state) = (Some(parameter), state);
        time
    }
}

fn row(shape: [usize; 2], dtype: DType) {
    let config = AdamWConfig::new().with_weight_decay(0.01);
    let mut fused = Run::new(config.build_fused(), shape, dtype);
    let mut burn = Run::new(config.build(), shape, dtype);
    let pair = fused.step() + burn.step();
    let pairs = (Duration::from_secs(1).as_nanos() / pair.as_nanos().max(1)).clamp(9, 2000);
    let times: Vec<[f64; 2]> = (0..pairs)
        .map(|_| [fused.step(), burn.step()].map(|time| time.as_secs_f64()))
        .collect();
    let alone: Vec<f64> = (0..pairs).map(|_| fused.step().as_secs_f64()).collect();
    let alone = median(alone.into_iter());
    // A step reads parameter, two moments and gradient, and writes the first three.
    let bytes = (7 * shape[0] * shape[1] * dtype.size()) as f64;
    println!(
        "| {shape:?} | {} | {:.4} ms | {:.4} ms | {:.1}× | {:.4} ms | {:.1} |",
        dtype.name(),
        median(times.iter().map(|t| t[0])) * 1e3,
        median(times.iter().map(|t| t[1])) * 1e3,
        median(times.iter().map(|t| t[1] / t[0])),
        alone * 1e3,
        bytes / alone / 1e9,
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
