//! Measures fused kernels and the plain Burn composition on the CPU in one run.
//!
//! `cargo bench --bench ops` prints a table; `cargo bench --bench ops -- --json FILE` also writes it as JSON. Both
//! paths run in turn, and the ratio is the median of the pairs' ratios, so that a machine that slows down slows both.
//! Outputs are allocated in each run, as in training.

use burn::tensor::{DType, Device, Distribution, Tensor};
use burn_kernels::ops::{add_rms_norm, glu, layer_norm, rms_norm, rope};
use burn_kernels::semantics::*;
use std::time::{Duration, Instant};

const GATED_NORM: RmsNormKey = RmsNormKey {
    gating: Gating::AfterNorm,
    ..RmsNormKey::LLAMA
};
const GEGLU: GluKey = GluKey {
    activation: Activation::GeluTanh,
    ..GluKey::SWIGLU
};
const PACKED: GluKey = GluKey {
    projections: Projections::Interleaved,
    ..GluKey::SWIGLU
};
const INTERLEAVED: RopeKey = RopeKey {
    style: RopeStyle::Interleaved,
    ..RopeKey::LLAMA
};

/// A row of the table.
struct Row {
    op: &'static str,
    shape: String,
    dtype: DType,
    pass: &'static str,
    fused: Duration,
    reference: Duration,
    /// Median of the reference's time divided by the kernel's.
    ratio: f64,
    /// The smallest number of bytes that must move, for the rate of the fused path.
    bytes: usize,
}

fn main() {
    let json = arguments();
    let mut rows = Vec::new();
    for dtype in [DType::F32, DType::BF16] {
        for tokens in [64, 512, 2048] {
            rows.extend(bench_rms_norm(
                "RMSNorm",
                tokens,
                1024,
                dtype,
                RmsNormKey::LLAMA,
            ));
            rows.extend(bench_sum(tokens, 1024, dtype, Beside::Reference));
            rows.extend(bench_sum(tokens, 1024, dtype, Beside::Parts));
            rows.extend(bench_layer_norm(tokens, 1024, dtype, Beside::Reference));
            rows.extend(bench_layer_norm(tokens, 1024, dtype, Beside::Parts));
            rows.extend(bench_glu("SwiGLU", tokens, 3072, dtype, GluKey::SWIGLU));
            rows.extend(bench_rope("RoPE", tokens, dtype, RopeKey::LLAMA));
        }
        rows.extend(bench_rms_norm(
            "gated RMSNorm",
            512,
            1024,
            dtype,
            GATED_NORM,
        ));
        rows.extend(bench_glu("GeGLU (tanh)", 512, 3072, dtype, GEGLU));
        rows.extend(bench_packed(
            "SwiGLU, interleaved",
            512,
            3072,
            dtype,
            PACKED,
        ));
        rows.extend(bench_rope("RoPE, interleaved", 512, dtype, INTERLEAVED));
    }
    print(&rows);
    if let Some(path) = json {
        std::fs::write(&path, to_json(&rows)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

/// Returns the file of `--json`. Cargo adds `--bench`, which is ignored.
fn arguments() -> Option<String> {
    let mut arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    match arguments.next().as_deref() {
        None => None,
        Some("--json") => Some(arguments.next().expect("--json needs a file name")),
        Some(other) => panic!("unknown argument {other}; usage: [--json FILE]"),
    }
}

fn random<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), (device, dtype))
}

/// Measures forward without autodiff, and forward with backward.
fn passes(
    op: &'static str,
    shape: String,
    dtype: DType,
    bytes: [usize; 2],
    run: impl Fn(bool, bool),
) -> [Row; 2] {
    let row = |pass, backward, bytes| {
        let (fused, reference, ratio) = compare(|fused| run(fused, backward));
        Row {
            op,
            shape: shape.clone(),
            dtype,
            pass,
            fused,
            reference,
            ratio,
            bytes,
        }
    };
    [
        row("forward", false, bytes[0]),
        row("forward + backward", true, bytes[1]),
    ]
}

fn bench_rms_norm(
    op: &'static str,
    tokens: usize,
    n: usize,
    dtype: DType,
    key: RmsNormKey,
) -> [Row; 2] {
    let [x, gate, dy] = [(); 3].map(|()| random([tokens, n], dtype, &Device::flex()));
    let w = random([n], dtype, &Device::flex());
    let tensor = tokens * n * dtype.size();
    // Forward: x, y. Backward adds: dy, x, dx. A gate is read twice, and its gradient written.
    let gated = key.gating != Gating::None;
    let bytes = if gated { [3, 8] } else { [2, 5] };
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    passes(
        op,
        format!("[{tokens}, {n}]"),
        dtype,
        bytes.map(|tensors| tensors * tensor),
        move |fused, backward| {
            let (x, w) = leaves(&x, &w, backward);
            let (gate, _) = leaves(&gate, &gate, backward);
            let inputs = rms_norm::Inputs {
                x,
                weight: Some(w),
                gate: gated.then_some(gate),
            };
            let y = if fused {
                rms_norm::fused(inputs, settings, key).expect("the CPU has this kernel")
            } else {
                rms_norm::reference(inputs, settings, key)
            };
            finish(y, &dy, backward);
        },
    )
}

/// The path that a fused kernel is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Reference,
    /// Kernels that there are without it: Burn's sum, then the kernel of RMSNorm; for LayerNorm Burn's own kernel, whose
    /// gradient is composed.
    Parts,
}

fn bench_layer_norm(tokens: usize, n: usize, dtype: DType, beside: Beside) -> [Row; 2] {
    let [x, dy] = [(); 2].map(|()| random([tokens, n], dtype, &Device::flex()));
    let [w, b] = [(); 2].map(|()| random([n], dtype, &Device::flex()));
    let tensor = tokens * n * dtype.size();
    let settings = layer_norm::Settings { eps: 1e-5 };
    let op = match beside {
        Beside::Reference => "LayerNorm",
        Beside::Parts => "the same, beside Burn's own",
    };
    // Forward: x, y. Backward adds: dy, x, dx.
    passes(
        op,
        format!("[{tokens}, {n}]"),
        dtype,
        [2, 5].map(|tensors| tensors * tensor),
        move |fused, backward| {
            let (x, weight) = leaves(&x, &w, backward);
            let (_, bias) = leaves(&w, &b, backward);
            let y = match (fused, beside) {
                (false, Beside::Parts) => {
                    burn::tensor::module::layer_norm(x, weight, Some(bias), settings.eps)
                }
                _ => {
                    let inputs = layer_norm::Inputs {
                        x,
                        weight,
                        bias: Some(bias),
                    };
                    let key = LayerNormKey::GPT2;
                    match fused {
                        true => layer_norm::fused(inputs, settings, key)
                            .expect("the CPU has this kernel"),
                        false => layer_norm::reference(inputs, settings, key),
                    }
                }
            };
            finish(y, &dy, backward);
        },
    )
}

fn bench_sum(tokens: usize, n: usize, dtype: DType, beside: Beside) -> [Row; 2] {
    let [x, residual, dy] = [(); 3].map(|()| random([tokens, n], dtype, &Device::flex()));
    let w = random([n], dtype, &Device::flex());
    let tensor = tokens * n * dtype.size();
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    let key = AddRmsNormKey::LLAMA;
    let op = match beside {
        Beside::Reference => "sum and RMSNorm",
        Beside::Parts => "the same, beside a sum and RMSNorm's kernel",
    };
    // Forward: x, residual, sum, y. Backward adds: dy, sum and dx; then dx, the sum's own gradient and their sum.
    passes(
        op,
        format!("[{tokens}, {n}]"),
        dtype,
        [4, 10].map(|tensors| tensors * tensor),
        move |fused, backward| {
            let (x, weight) = leaves(&x, &w, backward);
            let (residual, _) = leaves(&residual, &w, backward);
            let (y, sum) = match (fused, beside) {
                (false, Beside::Parts) => {
                    let sum = x + residual;
                    let inputs = rms_norm::Inputs {
                        x: sum.clone(),
                        weight: Some(weight),
                        gate: None,
                    };
                    let y = rms_norm::fused(inputs, settings, key.norm());
                    (y.expect("the CPU has this kernel"), sum)
                }
                _ => {
                    let inputs = add_rms_norm::Inputs {
                        x,
                        residual,
                        weight: Some(weight),
                        gate: None,
                    };
                    match fused {
                        true => add_rms_norm::fused(inputs, settings, key)
                            .expect("the CPU has this kernel"),
                        false => add_rms_norm::reference(inputs, settings, key),
                    }
                }
            };
            if backward {
                let loss = dot(y, &dy) + dot(sum, &dy);
                std::hint::black_box(loss.backward());
            } else {
                std::hint::black_box((y, sum));
            }
        },
    )
}

fn bench_glu(op: &'static str, tokens: usize, n: usize, dtype: DType, key: GluKey) -> [Row; 2] {
    let [gate, up, dy] = [(); 3].map(|()| random([tokens, n], dtype, &Device::flex()));
    let inputs = move |backward| {
        let (gate, up) = leaves(&gate, &up, backward);
        glu::Inputs::Separate { gate, up }
    };
    bench_unit(op, dy, dtype, key, inputs)
}

fn bench_packed(op: &'static str, tokens: usize, n: usize, dtype: DType, key: GluKey) -> [Row; 2] {
    let gate_up = random([tokens, 2 * n], dtype, &Device::flex());
    let dy = random([tokens, n], dtype, &Device::flex());
    let inputs = move |backward| glu::Inputs::Packed(leaves(&gate_up, &gate_up, backward).0);
    bench_unit(op, dy, dtype, key, inputs)
}

fn bench_unit(
    op: &'static str,
    dy: Tensor<2>,
    dtype: DType,
    key: GluKey,
    inputs: impl Fn(bool) -> glu::Inputs<2>,
) -> [Row; 2] {
    let [tokens, n] = dy.dims();
    let tensor = tokens * n * dtype.size();
    let settings = glu::Settings::default();
    // Forward: gate, up, y. Backward adds: dy, gate, up, d_gate, d_up.
    passes(
        op,
        format!("[{tokens}, {n}]"),
        dtype,
        [3 * tensor, 8 * tensor],
        move |fused, backward| {
            let inputs = inputs(backward);
            let y = if fused {
                glu::fused(inputs, settings, key).expect("the CPU has this kernel")
            } else {
                glu::reference(inputs, settings, key)
            };
            finish(y, &dy, backward);
        },
    )
}

fn bench_rope(op: &'static str, tokens: usize, dtype: DType, key: RopeKey) -> [Row; 2] {
    const HEADS: usize = 16;
    const KV_HEADS: usize = 8;
    const WIDTH: usize = 64;
    let device = Device::flex();
    // The layout of attention: [b, s, h, d] with swapped axes.
    let heads = |h| random([1, tokens, h, WIDTH], dtype, &device);
    let (q, k) = (heads(HEADS), heads(KV_HEADS));
    let [cos, sin] = [(); 2].map(|()| random([1, tokens, WIDTH], dtype, &device));
    let d_q = random([1, HEADS, tokens, WIDTH], dtype, &device);
    let d_k = random([1, KV_HEADS, tokens, WIDTH], dtype, &device);
    let tensor = tokens * (HEADS + KV_HEADS) * WIDTH * dtype.size();
    passes(
        op,
        format!("q [1, {HEADS}, {tokens}, {WIDTH}], k {KV_HEADS} heads"),
        dtype,
        [2 * tensor, 4 * tensor],
        move |fused, backward| {
            let (q, k) = leaves(&q, &k, backward);
            let (q, k) = (q.swap_dims(1, 2), k.swap_dims(1, 2));
            let (q, k) = if fused {
                rope::fused(q, k, &cos, &sin, key).expect("the CPU has this kernel")
            } else {
                rope::reference(q, k, &cos, &sin, key)
            };
            if backward {
                let loss = dot(q, &d_q) + dot(k, &d_k);
                std::hint::black_box(loss.backward());
            } else {
                std::hint::black_box((q, k));
            }
        },
    )
}

/// Returns the inputs, tracked if a backward pass follows.
fn leaves<const A: usize, const B: usize>(
    a: &Tensor<A>,
    b: &Tensor<B>,
    backward: bool,
) -> (Tensor<A>, Tensor<B>) {
    if backward {
        (
            a.clone().autodiff().require_grad(),
            b.clone().autodiff().require_grad(),
        )
    } else {
        (a.clone(), b.clone())
    }
}

fn finish(y: Tensor<2>, dy: &Tensor<2>, backward: bool) {
    if backward {
        std::hint::black_box(dot(y, dy).backward());
    } else {
        std::hint::black_box(y);
    }
}

/// Returns a loss whose gradient is `dy`. It costs the same on both paths.
fn dot<const D: usize>(y: Tensor<D>, dy: &Tensor<D>) -> Tensor<1> {
    (y * dy.clone()).sum()
}

/// Runs both paths in turn for about half a second. Returns the medians of their times and of their ratio.
fn compare(run: impl Fn(bool)) -> (Duration, Duration, f64) {
    let time = |fused| {
        let start = Instant::now();
        run(fused);
        start.elapsed()
    };
    let (warm_fused, warm_reference) = (time(true), time(false));
    let pair = warm_fused + warm_reference;
    let pairs = (Duration::from_millis(500).as_nanos() / pair.as_nanos().max(1)).clamp(7, 300);
    let mut times: Vec<(Duration, Duration)> =
        (0..pairs).map(|_| (time(true), time(false))).collect();
    let mut ratios: Vec<f64> = times
        .iter()
        .map(|(fused, reference)| reference.as_secs_f64() / fused.as_secs_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    times.sort_by_key(|(fused, _)| *fused);
    let fused = times[middle].0;
    times.sort_by_key(|(_, reference)| *reference);
    (fused, times[middle].1, ratios[middle])
}

fn print(rows: &[Row]) {
    println!("| op | shape | dtype | pass | fused | GB/s | Burn | Burn / fused |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {} | {} | {} | {:.3} ms | {:.1} | {:.3} ms | {:.1}× |",
            row.op,
            row.shape,
            row.dtype.name(),
            row.pass,
            row.fused.as_secs_f64() * 1e3,
            row.bytes as f64 / row.fused.as_secs_f64() / 1e9,
            row.reference.as_secs_f64() * 1e3,
            row.ratio,
        );
    }
}

fn to_json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            serde_json::json!({
                "op": row.op,
                "shape": row.shape,
                "dtype": row.dtype.name(),
                "pass": row.pass,
                "fused_s": row.fused.as_secs_f64(),
                "burn_s": row.reference.as_secs_f64(),
                "burn_over_fused": row.ratio,
                "bytes": row.bytes,
            })
        })
        .collect();
    serde_json::to_string_pretty(&rows).expect("numbers and names are JSON")
}
