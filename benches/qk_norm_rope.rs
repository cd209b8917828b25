//! Measures the norm and rotation of queries and keys on the CPU in one run: the fused operation, the separate fused
//! operations with their change of layout, and a parallel copy of the same bytes.
//!
//! `cargo bench --bench qk_norm_rope` prints a table; `-- --json FILE` also writes it as JSON. Times are medians of runs
//! in turn. The copy reads each input once and writes each output once: of the backward pass too, but without its sums.
//! The backward pass is driven by `(y · dy).sum()`, whose product is part of its time.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use burn_kernels::ops::qk_norm_rope::{Inputs, Settings, fused};
use burn_kernels::ops::{rms_norm, rope};
use burn_kernels::semantics::*;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

const EPS: f64 = 1e-6;

/// The sizes of a call: batch, tokens, heads, heads of keys, width.
const CALLS: [[usize; 5]; 2] = [[4, 512, 16, 8, 64], [1, 2048, 16, 4, 128]];

fn main() {
    let json = arguments();
    let mut rows = Vec::new();
    println!(
        "| q | k heads | norm | dtype | pass | fused | separate | copy | of the copy's rate |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for dtype in [DType::F32, DType::BF16] {
        for sizes @ [batch, tokens, heads, kv_heads, width] in CALLS {
            for (norm, key) in [
                ("head", QkNormRopeKey::QWEN3),
                ("row", QkNormRopeKey::OLMO2),
                ("none", QkNormRopeKey::LLAMA),
            ] {
                for is_training in [false, true] {
                    let call = Call::new(sizes, key, dtype, is_training);
                    let copied = Copied::new(sizes, dtype);
                    let [fused, separate, copy] = medians(
                        || call.run(true),
                        || call.run(false),
                        || copied.run(if is_training { 2 } else { 1 }),
                    );
                    let pass = if is_training {
                        "forward + backward"
                    } else {
                        "forward"
                    };
                    println!(
                        "| [{batch}, {tokens}, {heads}, {width}] | {kv_heads} | {norm} | {dtype:?} | {pass} \
                         | {fused:.2} ms | {separate:.2} ms | {copy:.2} ms | {:.0} % |",
                        100.0 * copy / fused,
                    );
                    rows.push(serde_json::json!({
                        "batch": batch, "tokens": tokens, "heads": heads, "kv_heads": kv_heads, "width": width,
                        "norm": norm, "dtype": format!("{dtype:?}"), "pass": pass,
                        "fused_ms": fused, "separate_ms": separate, "copy_ms": copy,
                    }));
                }
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
    inputs: Inputs,
    /// The gradients of the results, if they are measured.
    slopes: Option<[Tensor<4>; 2]>,
    key: QkNormRopeKey,
}

impl Call {
    fn new(
        [batch, tokens, heads, kv_heads, width]: [usize; 5],
        key: QkNormRopeKey,
        dtype: DType,
        is_training: bool,
    ) -> Self {
        let device = match is_training {
            true => Device::flex().autodiff(),
            false => Device::flex(),
        };
        let leaf = |heads| {
            let x = random([batch, tokens, heads, width], dtype, &device);
            if is_training { x.require_grad() } else { x }
        };
        let weight = |heads: usize| -> Option<Tensor<1>> {
            let elements = match key.norm {
                QkNorm::None => return None,
                QkNorm::Head => width,
                QkNorm::Row => heads * width,
            };
            let weight = random([elements], dtype, &device);
            Some(if is_training {
                weight.require_grad()
            } else {
                weight
            })
        };
        let slope = |heads| random([batch, heads, tokens, width], dtype, &device);
        Self {
            inputs: Inputs {
                q: leaf(heads),
                k: leaf(kv_heads),
                q_weight: weight(heads),
                k_weight: weight(kv_heads),
                cos: random([1, tokens, width], dtype, &device),
                sin: random([1, tokens, width], dtype, &device),
            },
            slopes: is_training.then(|| [slope(heads), slope(kv_heads)]),
            key,
        }
    }

    fn run(&self, is_fused: bool) {
        let inputs = self.inputs.clone();
        let (q, k) = match is_fused {
            true => {
                let eps = (self.key.norm != QkNorm::None).then_some(EPS);
                fused(inputs, Settings { eps }, self.key).expect("a kernel")
            }
            false => separately(inputs, self.key),
        };
        match &self.slopes {
            None => {
                black_box((q, k));
            }
            Some([d_q, d_k]) => {
                let loss = (q * d_q.clone()).sum() + (k * d_k.clone()).sum();
                black_box(loss.backward());
            }
        }
    }
}

/// Computes the same by the separate operations.
fn separately(inputs: Inputs, key: QkNormRopeKey) -> (Tensor<4>, Tensor<4>) {
    let prepare = |x: Tensor<4>, weight| {
        let shape @ [b, s, heads, d] = x.dims();
        let x = match key.norm {
            QkNorm::None => x,
            QkNorm::Head => norm(x, weight, key),
            QkNorm::Row => norm(x.reshape([b, s, heads * d]), weight, key).reshape(shape),
        };
        x.swap_dims(1, 2)
    };
    let q = prepare(inputs.q, inputs.q_weight);
    let k = prepare(inputs.k, inputs.k_weight);
    rope::fused(q, k, inputs.cos, inputs.sin, RopeKey::LLAMA).expect("a kernel")
}

fn norm<const D: usize>(x: Tensor<D>, weight: Option<Tensor<1>>, key: QkNormRopeKey) -> Tensor<D> {
    let settings = rms_norm::Settings {
        eps: EPS,
        group_size: None,
    };
    let rms = RmsNormKey {
        offset: key.offset,
        rounding: key.rounding,
        ..RmsNormKey::LLAMA
    };
    let gate = None;
    rms_norm::fused(rms_norm::Inputs { x, weight, gate }, settings, rms).expect("a kernel")
}

/// As many bytes as queries and keys have.
struct Copied(Vec<u8>);

impl Copied {
    fn new([batch, tokens, heads, kv_heads, width]: [usize; 5], dtype: DType) -> Self {
        let elements = batch * tokens * (heads + kv_heads) * width;
        Self(vec![1; elements * dtype.size()])
    }

    /// Copies to new memory, as an operation does, by all threads.
    fn run(&self, times: usize) {
        for _ in 0..times {
            const PART: usize = 64 * 1024;
            let mut copy: Vec<u8> = Vec::with_capacity(self.0.len());
            let places = copy.spare_capacity_mut().par_chunks_mut(PART);
            places
                .zip(self.0.par_chunks(PART))
                .for_each(|(places, values)| {
                    places[..values.len()].write_copy_of_slice(values);
                });
            black_box(copy);
        }
    }
}

/// Returns the median times in milliseconds of runs in turn.
fn medians(first: impl Fn(), second: impl Fn(), third: impl Fn()) -> [f64; 3] {
    const RUNS: usize = 31;
    let runs: [&dyn Fn(); 3] = [&first, &second, &third];
    let mut times = [const { Vec::new() }; 3];
    for run in runs {
        run();
    }
    for _ in 0..RUNS {
        for (run, times) in runs.iter().zip(&mut times) {
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    })
}

fn random<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    let numbers: Tensor<D> = Tensor::random(shape, Distribution::Normal(0.0, 1.0), device);
    numbers.cast(FloatDType::from(dtype))
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
