//! Measures fused attention and the plain Burn composition on the CPU in one run.
//!
//! `cargo bench --bench attention` prints a table; `cargo bench --bench attention -- --json FILE` also writes it as
//! JSON. `benches/attention_torch.py` measures PyTorch's. Times are medians of runs in turn. The backward pass is driven
//! by `(y · dy).sum()`. The composition is measured up to 512 tokens: beyond, its scores take seconds.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use burn_kernels::ops::attention::{Inputs, Lengths, Settings, fused, reference};
use burn_kernels::semantics::*;
use std::time::Instant;

/// The sizes of a call: heads, heads of keys, tokens, width, and the window, if there is one.
const CALLS: [(usize, usize, usize, usize, Option<usize>); 5] = [
    (16, 16, 512, 64, None),
    (16, 16, 2048, 64, None),
    (16, 4, 2048, 128, None),
    (16, 16, 2048, 64, Some(512)),
    (16, 4, 2048, 128, Some(512)),
];

fn main() {
    let json = arguments();
    let mut rows = Vec::new();
    println!("| q | k heads | window | dtype | pass | fused | Burn |");
    println!("|---|---|---|---|---|---|---|");
    for dtype in [DType::F32, DType::BF16] {
        for (heads, kv_heads, tokens, width, window) in CALLS {
            for is_training in [false, true] {
                let call = Call::new([heads, kv_heads, tokens, width], window, dtype);
                let fused = call.time(true, is_training);
                let burn = (tokens <= 512).then(|| call.time(false, is_training));
                let pass = if is_training {
                    "forward + backward"
                } else {
                    "forward"
                };
                let shown = burn.map_or("-".to_owned(), |burn| format!("{burn:.1} ms"));
                println!(
                    "| [1, {heads}, {tokens}, {width}] | {kv_heads} | {} | {dtype:?} | {pass} | {fused:.2} ms | {shown} |",
                    window.map_or("-".to_owned(), |window| window.to_string()),
                );
                rows.push(serde_json::json!({
                    "heads": heads, "kv_heads": kv_heads, "tokens": tokens, "width": width, "window": window,
                    "dtype": format!("{dtype:?}"), "pass": pass, "fused_ms": fused, "burn_ms": burn,
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
    tensors: [Tensor<4>; 3],
    settings: Settings,
    key: AttentionKey,
}

impl Call {
    fn new(
        [heads, kv_heads, tokens, width]: [usize; 4],
        window: Option<usize>,
        dtype: DType,
    ) -> Self {
        let random = |heads| {
            let shape = [1, heads, tokens, width];
            let normal = Distribution::Normal(0.0, 1.0);
            Tensor::<4>::random(shape, normal, &Device::flex()).cast(FloatDType::from(dtype))
        };
        Self {
            tensors: [random(heads), random(kv_heads), random(kv_heads)],
            settings: Settings {
                window,
                ..Settings::default()
            },
            key: AttentionKey {
                window: match window {
                    Some(_) => AttentionWindow::Sliding,
                    None => AttentionWindow::None,
                },
                ..AttentionKey::CAUSAL
            },
        }
    }

    /// Returns the median time in milliseconds.
    fn time(&self, is_fused: bool, is_training: bool) -> f64 {
        let dy = self.run(self.tensors.clone(), is_fused);
        let mut times: Vec<f64> = (0..9)
            .map(|_| {
                let start = Instant::now();
                if is_training {
                    let leaves = self.tensors.clone();
                    let leaves = leaves.map(|tensor| tensor.autodiff().require_grad());
                    let y = self.run(leaves, is_fused);
                    drop((y * dy.clone().autodiff()).sum().backward());
                } else {
                    drop(self.run(self.tensors.clone(), is_fused));
                }
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    fn run(&self, [q, k, v]: [Tensor<4>; 3], is_fused: bool) -> Tensor<4> {
        let inputs = Inputs {
            q,
            k,
            v,
            bias: None,
            sinks: None,
            lengths: Lengths::default(),
        };
        match is_fused {
            true => fused(inputs, self.settings, self.key).expect("a kernel"),
            false => reference(inputs, self.settings, self.key),
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
