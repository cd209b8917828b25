//! Measures element-wise kernels on the CPU beside a parallel copy of as many bytes, forward and backward apart.
//!
//! `cargo bench --bench elementwise` prints a table; `-- --json FILE` also writes it as JSON. Times are medians of runs
//! in turn with the copy. Outputs are allocated in each run, as in training; with `-- --keep` glibc keeps freed memory, so
//! that outputs are warm. The time of a backward pass is that of `y.backward()` on a result that was computed before: it
//! includes the ones that Burn makes for the gradient of `y`, and all of autodiff. The bytes are those that must move at
//! least: each input of a pass once, and each output.
//!
//! `benches/elementwise_torch.py` measures PyTorch.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use burn_kernels::ops::{add_rms_norm, glu, qk_norm_rope, rms_norm, rope};
use burn_kernels::semantics::*;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

const RUNS: usize = 31;
const HIDDEN: usize = 1024;
const INTERMEDIATE: usize = 3072;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const WIDTH: usize = 64;

const SETTINGS: rms_norm::Settings = rms_norm::Settings {
    eps: 1e-6,
    group_size: None,
};

/// The results of a call, whose gradients are propagated one after the other.
type Results = Vec<Tensor<4>>;

/// An operation on fixed inputs.
struct Operation {
    name: &'static str,
    /// The tensors of the result's size that each pass reads and writes at least.
    tensors: [usize; 2],
    /// The number of elements of such a tensor.
    elements: usize,
    run: Box<dyn Fn() -> Results>,
}

fn main() {
    let Arguments { json, keep } = arguments();
    if keep {
        burn_kernels::memory::keep_freed();
    }
    let mut rows = Vec::new();
    println!("| operation | tokens | dtype | pass | kernel | copy | of the copy's rate |");
    println!("|---|---|---|---|---|---|---|");
    for dtype in [DType::F32, DType::BF16] {
        for tokens in [512, 2048] {
            for is_training in [false, true] {
                for operation in operations(tokens, dtype, is_training) {
                    let (kernel, copy) = measure(&operation, dtype, is_training);
                    let pass = if is_training { "backward" } else { "forward" };
                    println!(
                        "| {} | {tokens} | {dtype:?} | {pass} | {kernel:.3} ms | {copy:.3} ms | {:.0} % |",
                        operation.name,
                        100.0 * copy / kernel
                    );
                    rows.push(serde_json::json!({
                        "operation": operation.name, "tokens": tokens, "dtype": format!("{dtype:?}"), "pass": pass,
                        "kernel_ms": kernel, "copy_ms": copy, "keep": keep,
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

fn operations(tokens: usize, dtype: DType, is_training: bool) -> Vec<Operation> {
    let device = match is_training {
        true => Device::flex().autodiff(),
        false => Device::flex(),
    };
    let leaf = move |shape: [usize; 2]| {
        let x = random(shape, dtype, &device);
        if is_training { x.require_grad() } else { x }
    };
    let weight = leaf([1, HIDDEN]).reshape([HIDDEN]);
    let weight = if is_training {
        weight.detach().require_grad()
    } else {
        weight
    };
    let [x, residual] = [(); 2].map(|()| leaf([tokens, HIDDEN]));
    let norm = {
        let (x, weight) = (x.clone(), weight.clone());
        move || {
            let (x, weight) = (x.clone(), Some(weight.clone()));
            let inputs = rms_norm::Inputs {
                x,
                weight,
                gate: None,
            };
            let y = rms_norm::fused(inputs, SETTINGS, RmsNormKey::LLAMA).expect("a kernel");
            vec![y.unsqueeze()]
        }
    };
    let sum = move || {
        let inputs = add_rms_norm::Inputs {
            x: x.clone(),
            residual: residual.clone(),
            weight: Some(weight.clone()),
            gate: None,
        };
        let (y, sum) =
            add_rms_norm::fused(inputs, SETTINGS, AddRmsNormKey::LLAMA).expect("a kernel");
        match is_training {
            // Both results have a gradient, as in a decoder layer.
            true => vec![Tensor::cat(vec![y, sum], 0).unsqueeze()],
            false => vec![y.unsqueeze(), sum.unsqueeze()],
        }
    };
    let [gate, up] = [(); 2].map(|()| leaf([tokens, INTERMEDIATE]));
    let unit = move || {
        let inputs = glu::Inputs::Separate {
            gate: gate.clone(),
            up: up.clone(),
        };
        let y = glu::fused(inputs, glu::Settings::default(), GluKey::SWIGLU).expect("a kernel");
        vec![y.unsqueeze()]
    };
    let heads = |heads: usize| leaf([tokens, heads * WIDTH]).reshape([1, tokens, heads, WIDTH]);
    let track = |x: Tensor<4>| {
        if is_training {
            x.detach().require_grad()
        } else {
            x
        }
    };
    let [q, k] = [HEADS, KV_HEADS].map(|count| track(heads(count)));
    let flex = Device::flex();
    let [cos, sin] = [(); 2].map(|()| random([1, tokens, WIDTH], dtype, &flex));
    let rotate = {
        let (q, k, cos, sin) = (q.clone(), k.clone(), cos.clone(), sin.clone());
        move || {
            let [q, k] = [&q, &k].map(|x| x.clone().swap_dims(1, 2));
            let (q, k) =
                rope::fused(q, k, cos.clone(), sin.clone(), RopeKey::LLAMA).expect("a kernel");
            vec![q, k]
        }
    };
    let head_weight = random([WIDTH], dtype, &flex);
    let normalise_and_rotate = move || {
        let inputs = qk_norm_rope::Inputs {
            q: q.clone(),
            k: k.clone(),
            q_weight: Some(head_weight.clone()),
            k_weight: Some(head_weight.clone()),
            cos: cos.clone(),
            sin: sin.clone(),
        };
        let settings = qk_norm_rope::Settings {
            eps: Some(SETTINGS.eps),
        };
        let (q, k) = qk_norm_rope::fused(inputs, settings, QkNormRopeKey::QWEN3).expect("a kernel");
        vec![q, k]
    };
    let rows = tokens * HIDDEN;
    let rotated = tokens * (HEADS + KV_HEADS) * WIDTH;
    let operation = |name, tensors, elements, run| Operation {
        name,
        tensors,
        elements,
        run,
    };
    let mut all = vec![
        // Forward: x, y. Backward: dy, x, dx.
        operation(
            "RMSNorm",
            [2, 3],
            rows,
            Box::new(norm) as Box<dyn Fn() -> Results>,
        ),
        // Forward: gate, up, y. Backward: dy, gate, up, d_gate, d_up.
        operation("SwiGLU", [3, 5], tokens * INTERMEDIATE, Box::new(unit)),
        // The gradient of a rotation needs no input.
        operation("RoPE", [2, 2], rotated, Box::new(rotate)),
        operation(
            "head norm and RoPE",
            [2, 3],
            rotated,
            Box::new(normalise_and_rotate),
        ),
    ];
    if !is_training {
        // Its gradient is that of the norm, and Burn's sum.
        all.insert(1, operation("sum and RMSNorm", [4, 5], rows, Box::new(sum)));
    }
    all
}

/// Returns the median times of a pass and of a copy, in milliseconds.
fn measure(operation: &Operation, dtype: DType, is_training: bool) -> (f64, f64) {
    let tensors = operation.tensors[usize::from(is_training)];
    let copied = Copied::new(tensors * operation.elements * dtype.size() / 2);
    let [mut kernel, mut copy] = [Vec::new(), Vec::new()];
    for run in 0..=RUNS {
        let (passed, moved) = (pass(operation, is_training), copied.run());
        // The first run warms up.
        if run > 0 {
            kernel.push(passed);
            copy.push(moved);
        }
    }
    (median(kernel), median(copy))
}

/// Returns the milliseconds of a pass.
fn pass(operation: &Operation, is_training: bool) -> f64 {
    if !is_training {
        return timed(|| (operation.run)());
    }
    let results = (operation.run)();
    timed(|| {
        results
            .into_iter()
            .map(|y| y.backward())
            .collect::<Vec<_>>()
    })
}

fn timed<T>(run: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(run());
    start.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Bytes to copy to new memory, as an operation's results are.
struct Copied(Vec<u8>);

impl Copied {
    fn new(bytes: usize) -> Self {
        Self(vec![1; bytes])
    }

    fn run(&self) -> f64 {
        const PART: usize = 64 * 1024;
        timed(|| {
            let mut copy: Vec<u8> = Vec::with_capacity(self.0.len());
            let places = copy.spare_capacity_mut().par_chunks_mut(PART);
            places
                .zip(self.0.par_chunks(PART))
                .for_each(|(places, values)| {
                    places[..values.len()].write_copy_of_slice(values);
                });
            copy
        })
    }
}

fn random<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    let numbers: Tensor<D> = Tensor::random(shape, Distribution::Normal(0.0, 1.0), device);
    numbers.cast(FloatDType::from(dtype))
}

struct Arguments {
    /// The file of `--json`.
    json: Option<String>,
    /// True with `--keep`.
    keep: bool,
}

/// Reads the arguments. Cargo adds `--bench`, which is ignored.
fn arguments() -> Arguments {
    let mut found = Arguments {
        json: None,
        keep: false,
    };
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--json" => found.json = Some(arguments.next().expect("--json needs a file name")),
            "--keep" => found.keep = true,
            other => panic!("unknown argument {other}; usage: [--keep] [--json FILE]"),
        }
    }
    found
}
