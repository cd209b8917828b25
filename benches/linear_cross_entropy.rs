//! Measures the fused linear cross-entropy and the plain Burn composition on the CPU in one run.
//!
//! `cargo bench --bench linear_cross_entropy` prints a table; with `-- --json FILE` it also writes it as JSON.
//! `benches/linear_cross_entropy_torch.py` measures PyTorch's. Times are medians of runs in turn.

use burn::tensor::{DType, Device, Distribution, FloatDType, Int, Tensor, TensorData};
use burn_kernels::ops::linear_cross_entropy::{Inputs, Settings, fused, reference};
use burn_kernels::semantics::{LinearCrossEntropyKey, LossReduction};
use std::time::Instant;

/// The sizes of a call: tokens, width and classes.
const CALLS: [[usize; 3]; 3] = [
    [512, 512, 32_000],
    [2048, 512, 32_000],
    [2048, 1024, 128_256],
];

/// The sizes of log-probabilities of tokens: those of SmolLM2.
const LOG_PROBS: [usize; 3] = [2048, 576, 49_152];

/// The computation that is timed.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Forward,
    Training,
    /// The log-probability of each token and the gradients of their sum, without that of the weight if it is frozen.
    LogProbs {
        is_frozen: bool,
    },
}

impl Pass {
    fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Training => "forward + backward",
            Self::LogProbs { is_frozen: true } => "log-probabilities, weight frozen",
            Self::LogProbs { is_frozen: false } => "log-probabilities",
        }
    }
}

fn main() {
    let json = arguments();
    let mut rows = Vec::new();
    println!("| tokens | width | classes | dtype | pass | fused | Burn |");
    println!("|---|---|---|---|---|---|---|");
    let log_probs = [true, false].map(|is_frozen| Pass::LogProbs { is_frozen });
    let losses = [Pass::Forward, Pass::Training];
    let calls = CALLS.map(|sizes| (sizes, losses));
    for (sizes, passes) in calls.into_iter().chain([(LOG_PROBS, log_probs)]) {
        let [tokens, width, classes] = sizes;
        for dtype in [DType::F32, DType::BF16] {
            let call = Call::new(sizes, dtype);
            for pass in passes {
                let fused = call.time(true, pass);
                let burn = call.time(false, pass);
                let pass = pass.name();
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
    fn time(&self, is_fused: bool, pass: Pass) -> f64 {
        let once = || {
            let start = Instant::now();
            let (hidden, weight) = (self.hidden.clone(), self.weight.clone());
            let leaf = |tensor: Tensor<2>| tensor.autodiff().require_grad();
            let run = |hidden, weight| self.run(hidden, weight, (is_fused, pass));
            match pass {
                Pass::Forward => drop(run(hidden, weight)),
                Pass::LogProbs { is_frozen: true } => {
                    drop(run(leaf(hidden), weight.autodiff()).sum().backward());
                }
                _ => drop(run(leaf(hidden), leaf(weight)).sum().backward()),
            }
            start.elapsed().as_secs_f64() * 1e3
        };
        once();
        let mut times: Vec<f64> = (0..3).map(|_| once()).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    fn run(
        &self,
        hidden: Tensor<2>,
        weight: Tensor<2>,
        (is_fused, pass): (bool, Pass),
    ) -> Tensor<1> {
        let inputs = Inputs {
            hidden,
            weight,
            bias: None,
            targets: self.targets.clone(),
        };
        let settings = Settings::default();
        let key = LinearCrossEntropyKey {
            reduction: match pass {
                Pass::LogProbs { .. } => LossReduction::None,
                _ => LossReduction::Mean,
            },
            ..LinearCrossEntropyKey::MEAN
        };
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
