//! Measures fused linear layers and Burn's own on the CPU in one run.
//!
//! `cargo bench --bench linear` prints a table; with `-- --json FILE` it also writes it as JSON.
//! `benches/linear_torch.py` measures PyTorch's. Times are medians of runs in turn. The backward pass is driven by
//! `(y · dy).sum()`. The rate is that of the multiplications and additions of the fused layer. Rows of one token show how
//! fast a weight is read; each run has another weight of several, so that caches hold none.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor, module};
use burn_kernels::ops::linear::{Inputs, fused};
use burn_kernels::semantics::LinearKey;
use std::time::Instant;

/// The number of rows, inputs and outputs of a call.
const CALLS: [[usize; 3]; 5] = [
    [1, 1024, 3072],
    [1, 3072, 1024],
    [512, 1024, 3072],
    [512, 3072, 1024],
    [2048, 1024, 3072],
];

/// The bytes of all weights of a call with one row.
const BEYOND_CACHES: usize = 256 << 20;

fn main() {
    burn_kernels::memory::keep_freed();
    let json = arguments();
    let mut rows = Vec::new();
    println!("| rows | inputs | outputs | dtype | pass | fused | Burn | GF/s | GB/s |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for dtype in [DType::F32, DType::BF16] {
        for sizes in CALLS {
            for is_training in [false, true] {
                let [count, inputs, outputs] = sizes;
                if is_training && count == 1 {
                    continue;
                }
                let call = Call::new(sizes, dtype);
                let [ours, burn] = call.times(is_training);
                let pass = match is_training {
                    true => "forward + backward",
                    false => "forward",
                };
                let products = (if is_training { 3 } else { 1 } * count * inputs * outputs) as f64;
                let flops = 2.0 * products / ours / 1e6;
                let bytes = (inputs * outputs * dtype.size()) as f64 / ours / 1e6;
                println!(
                    "| {count} | {inputs} | {outputs} | {dtype:?} | {pass} | {ours:.2} ms | {burn:.2} ms | {flops:.0} | {bytes:.1} |",
                );
                rows.push(serde_json::json!({
                    "rows": count, "inputs": inputs, "outputs": outputs, "dtype": format!("{dtype:?}"), "pass": pass,
                    "fused_ms": ours, "burn_ms": burn, "gflops": flops, "gbytes": bytes,
                }));
            }
        }
    }
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&rows).expect("rows are JSON");
        std::fs::write(path, text + "\n").expect("the file can be written");
    }
}

/// A call on fixed tensors.
struct Call {
    x: Tensor<2>,
    weights: Vec<Tensor<2>>,
    dy: Tensor<2>,
}

impl Call {
    fn new([rows, inputs, outputs]: [usize; 3], dtype: DType) -> Self {
        let random = |shape: [usize; 2]| {
            let normal = Distribution::Normal(0.0, 1.0);
            Tensor::<2>::random(shape, normal, &Device::flex()).cast(FloatDType::from(dtype))
        };
        let weights = match rows {
            1 => BEYOND_CACHES / (inputs * outputs * dtype.size()),
            _ => 1,
        };
        let weight = random([inputs, outputs]);
        // A scalar is added, so that each has memory of its own.
        let weights = (0..weights).map(|_| weight.clone() + 0.0).collect();
        Self {
            x: random([rows, inputs]),
            weights,
            dy: random([rows, outputs]),
        }
    }

    /// Returns the median times of the fused layer and of Burn's, in milliseconds.
    fn times(&self, is_training: bool) -> [f64; 2] {
        let mut times = [Vec::new(), Vec::new()];
        for run in 0..2 * self.weights.len().max(9) {
            let weight = &self.weights[run % self.weights.len()];
            for (is_fused, times) in [true, false].into_iter().zip(&mut times) {
                let start = Instant::now();
                if is_training {
                    let [x, weight] = [&self.x, weight].map(|tensor| tensor.clone().autodiff());
                    let [x, weight] = [x.require_grad(), weight.require_grad()];
                    let y = layer(x, weight, is_fused);
                    drop((y * self.dy.clone().autodiff()).sum().backward());
                } else {
                    drop(layer(self.x.clone(), weight.clone(), is_fused));
                }
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
    }
}

fn layer(x: Tensor<2>, weight: Tensor<2>, is_fused: bool) -> Tensor<2> {
    let bias = None;
    match is_fused {
        true => fused(Inputs { x, weight, bias }, LinearKey::PROJECTION).expect("a kernel"),
        false => module::linear(x, weight, bias),
    }
}

/// Returns the path after `--json`. Cargo adds `--bench`.
fn arguments() -> Option<String> {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    match arguments.next().as_deref() {
        None => None,
        Some("--json") => Some(arguments.next().expect("a file after --json")),
        Some(other) => panic!("{other}: the arguments are --json FILE"),
    }
}
