//! Measures the attention of one token over a cache on the CPU, beside the reading of the same keys and values.
//!
//! `cargo bench --bench decode` prints a table; `-- --json FILE` also writes it as JSON. `benches/decode_torch.py` measures
//! PyTorch's. Times are medians of runs in turn. The keys and values are more than the caches of the processor hold.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use burn_kernels::ops::attention::{Inputs, Lengths, Settings, fused};
use burn_kernels::semantics::*;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// The sizes of a call: sequences, heads, heads of keys, tokens of the cache, width.
const CALLS: [[usize; 5]; 3] = [
    [1, 32, 8, 32_768, 128],
    [1, 16, 16, 16_384, 64],
    [8, 16, 4, 8192, 128],
];

fn main() {
    let json = arguments();
    let mut rows = Vec::new();
    println!(
        "| sequences | heads | k heads | cache | width | dtype | fused | GB/s | read | of the reading rate |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for dtype in [DType::F32, DType::BF16] {
        for [batch, heads, kv_heads, tokens, width] in CALLS {
            let random = |heads, tokens| {
                let shape = [batch, heads, tokens, width];
                let normal = Distribution::Normal(0.0, 1.0);
                Tensor::<4>::random(shape, normal, &Device::flex()).cast(FloatDType::from(dtype))
            };
            let (q, k, v) = (
                random(heads, 1),
                random(kv_heads, tokens),
                random(kv_heads, tokens),
            );
            let bytes = 2 * batch * kv_heads * tokens * width * dtype.size();
            let words: Vec<u64> = vec![1; bytes / 8];
            let attend = || {
                let inputs = Inputs {
                    q: q.clone(),
                    k: k.clone(),
                    v: v.clone(),
                    bias: None,
                    sinks: None,
                    lengths: Lengths::default(),
                };
                fused(inputs, Settings::default(), AttentionKey::CAUSAL).expect("a kernel")
            };
            let read = || {
                words
                    .par_chunks(1 << 14)
                    .map(sum)
                    .reduce(|| 0, u64::wrapping_add)
            };
            let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
            for _ in 0..15 {
                ours.push(time(attend));
                theirs.push(time(read));
            }
            let [fused, read] = [ours, theirs].map(median);
            let rate = bytes as f64 / fused / 1e6;
            println!(
                "| {batch} | {heads} | {kv_heads} | {tokens} | {width} | {dtype:?} | {fused:.2} ms | {rate:.1} | {read:.2} ms | {:.0} % |",
                100.0 * read / fused
            );
            rows.push(serde_json::json!({
                "batch": batch, "heads": heads, "kv_heads": kv_heads, "tokens": tokens, "width": width,
                "dtype": format!("{dtype:?}"), "fused_ms": fused, "read_ms": read, "bytes": bytes,
            }));
        }
    }
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&rows).expect("rows are JSON");
        std::fs::write(path, text + "\n").expect("the file can be written");
    }
}

/// Several sums, so that adding does not limit reading.
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0_u64; 32];
    for chunk in words.as_chunks::<32>().0 {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.into_iter().fold(0, u64::wrapping_add)
}

/// Returns the milliseconds of a run.
fn time<T>(run: impl Fn() -> T) -> f64 {
    let start = Instant::now();
    black_box(run());
    start.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
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
