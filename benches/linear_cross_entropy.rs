//! Measures the fused linear cross-entropy and the plain Burn composition on the CPU in one run.
//!
//! `cargo bench --bench linear_cross_entropy` prints a table; with `-- --json FILE` it also writes it as JSON.
//! `benches/linear_cross_entropy_torch.py` measures PyTorch's. Times are medians of runs in turn.

use burn::tensor::{DType, Device, Distribution, FloatDType, Int, Tensor, TensorData};
use burn_kernels::ops::linear_cross_entropy::{Inputs, Settings, fused, reference};
use burn_kernels::semantics::LinearCrossEntropyKey;
use std::time::Instant;

/// The sizes of a call: tokens, width and classes.
const CALLS: [[usize; 3]; 3] = [
    [512, 512, 32_000],
    [2048, 512, 32_000],
    [2048, 1024, 128_256],
];

fn main() {
    let json = arguments();
    let mut rows = Vec::new();
    println!("| tokens | width | classes | dtype | pass | fused | Burn |");
    println!("|---|---|---|---|---|---|---|");
    for sizes in CALLS {
        let [tokens, width, classes] = sizes;
        for dtype in [DType::F32, DType::BF16] {
            let call = Call::new(sizes, dtype);
            for is_training in [false, true] {
                let fused = call.time(true, is_training);
                let burn = call.time(false, is_training);
                let pass = match is_training {
                    true => "forward + backward",
                    false => "forward",
                };
                println!(
                    "| {tokens} | {width} | {classes} | {dtype:?} | {pass} | {fused:.0} ms | {burn:.0} ms |"
                );
                rows.push(serde_json::json!({
                    "tokens": tokens, "width": width, "classes": classes, "dtype": format!("{dtype:?}"),
                    "pass": pass, "fused_ms": fused, "burn_ms": burn,
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
    hidden: Tensor<2>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
}

impl Call {
    fn new([tokens, width, classes]: [usize; 3], dtype: DType) -> Self {
        let random = |shape, size| {
            let normal = Distribution::Normal(0.0, size);
            Tensor::<2>::random(shape, normal, &Device::flex()).cast(FloatDType::from(dtype))
        };
        let targets: Vec<i64> = (0..tokens)
            .map(|token| (token * 7919 % classes) as i64)
            .collect();
        let targets = TensorData::new(targets, [tokens]);
        Self {
            hidden: random([tokens, width], 1.0),
            weight: random([classes, width], 0.05),
            targets: Tensor::from_data(targets, &Device::flex()),
        }
    }

    /// Returns the median time in milliseconds.
    fn time(&self, is_fused: bool, is_training: bool) -> f64 {
        let once = || {
            let start = Instant::now();
            let (hidden, weight) = (self.hidden.clone(), self.weight.clone());
            match is_training {
                true => {
                    let leaf = |tensor: Tensor<2>| tensor.autodiff().require_grad();
                    drop(self.run(leaf(hidden), leaf(weight), is_fused).backward());
                }
                false => drop(self.run(hidden, weight, is_fused)),
            }
            start.elapsed().as_secs_f64() * 1e3
        };
        once();
        let mut times: Vec<f64> = (0..3).map(|_| once()).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    fn run(&self, hidden: Tensor<2>, weight: Tensor<2>, is_fused: bool) -> Tensor<1> {
        let inputs = Inputs {
            hidden,
            weight,
            bias: None,
            targets: self.targets.clone(),
        };
        let (settings, key) = (Settings::default(), LinearCrossEntropyKey::MEAN);
        match is_fused {
            true => fused(inputs, settings, key).expect("a kernel"),
            false => reference(inputs, settings, key),
        }
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
