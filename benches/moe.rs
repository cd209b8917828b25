//! Measures the experts of a Qwen3-MoE block on the CPU: hidden 1024, expert width 512, four experts for each token.
//!
//! `cargo bench --bench moe` prints a table. `-- --json FILE` also writes it as JSON, and `-- --only WORDS` measures
//! only the rows that contain each of these comma-separated words.
//!
//! The table compares each time with two limits, which are measured alternately with it in the same run:
//!
//! * *dense*: the same floating-point operations as one product of the `gemm` crate in f32, with all threads and a
//!   weight that needs no transposition;
//! * *memory*: one read, by all threads, of the weights of all experts that have tokens. For the backward pass, these
//!   weights are read again and the gradients of all experts are written.
//!
//! Set glibc's malloc to keep freed memory. Otherwise the times include page faults on fresh gradients, which a
//! training loop does not have: `MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=17179869184
//! MALLOC_TOP_PAD_=1073741824`.
//!
//! `moe_torch.py` times transformers' experts on the same tokens.

use burn::tensor::{DType, Device, Distribution, Int, Tensor, TensorData};
use burn_kernels::ops::moe::experts::{self, Projection, Weights};
use burn_kernels::semantics::MoeExpertsKey;
use rayon::prelude::*;
use std::time::{Duration, Instant};

const HIDDEN: usize = 1024;
const WIDTH: usize = 512;
const CHOICES: usize = 4;

/// The distribution of tokens over experts.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// All experts are equally likely.
    Uniform,
    /// Expert `e` is chosen with a probability proportional to `1 / (e + 1)`.
    Zipf,
    /// All tokens choose the same four experts.
    Same,
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::Same => "one",
        }
    }

    /// Returns four different experts for each token.
    fn indices(self, tokens: usize, experts: usize) -> Vec<i64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let weights: Vec<f64> = (0..experts)
            .map(|expert| match self {
                Self::Uniform => 1.0,
                Self::Zipf => 1.0 / (expert + 1) as f64,
                Self::Same => 0.0,
            })
            .collect();
        (0..tokens)
            .flat_map(|_| match self {
                Self::Same => (0..CHOICES as i64).collect::<Vec<_>>(),
                _ => {
                    // Efraimidis and Spirakis: the largest values of u^(1/w) are a weighted sample.
                    let mut keys: Vec<(f64, i64)> = weights
                        .iter()
                        .zip(0..)
                        .map(|(weight, expert)| (random().ln() / weight, expert))
                        .collect();
                    keys.sort_by(|a, b| b.0.total_cmp(&a.0));
                    keys.iter()
                        .take(CHOICES)
                        .map(|(_, expert)| *expert)
                        .collect()
                }
            })
            .collect()
    }
}

/// A row of the table.
struct Row {
    experts: usize,
    tokens: usize,
    dtype: DType,
    choice: Choice,
    pass: &'static str,
    fused: Duration,
    dense: Duration,
    memory: Duration,
    /// Median of the dense product's time divided by the kernel's.
    dense_ratio: f64,
    memory_ratio: f64,
    operations: f64,
}

fn main() {
    let (json, only) = arguments();
    let mut rows = Vec::new();
    print_head();
    for dtype in [DType::F32, DType::BF16] {
        for experts in [32, 128] {
            let mut block = None;
            for tokens in [16, 512, 2048] {
                for choice in [Choice::Uniform, Choice::Zipf, Choice::Same] {
                    for backward in [false, true] {
                        let label = label(dtype, experts, tokens, choice, backward);
                        if !only.iter().all(|word| label.split(' ').any(|w| w == word)) {
                            continue;
                        }
                        let block = block.get_or_insert_with(|| Block::new(experts, dtype));
                        let row = block.measure(tokens, choice, backward);
                        print(&row);
                        rows.push(row);
                    }
                }
            }
        }
    }
    if let Some(path) = json {
        std::fs::write(&path, to_json(&rows)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

/// Returns the file of `--json` and the words of `--only`. Cargo adds `--bench`, which is ignored.
fn arguments() -> (Option<String>, Vec<String>) {
    let (mut json, mut only) = (None, Vec::new());
    let mut arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .unwrap_or_else(|| panic!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--json" => json = Some(value()),
            "--only" => only = value().split(',').map(str::to_owned).collect(),
            other => panic!("unknown argument {other}; usage: [--json FILE] [--only WORDS]"),
        }
    }
    (json, only)
}

fn pass(backward: bool) -> &'static str {
    if backward {
        "forward+backward"
    } else {
        "forward"
    }
}

fn label(dtype: DType, experts: usize, tokens: usize, choice: Choice, backward: bool) -> String {
    format!(
        "{} E{experts} T{tokens} {} {}",
        dtype.name(),
        choice.name(),
        pass(backward)
    )
}

/// The weights of a block.
struct Block {
    experts: usize,
    dtype: DType,
    gate_up: Tensor<3>,
    down: Tensor<3>,
}

impl Block {
    fn new(experts: usize, dtype: DType) -> Self {
        let random = |shape: [usize; 3]| {
            let deviation = Distribution::Normal(0.0, 0.02);
            Tensor::<3>::random(shape, deviation, (&Device::flex(), dtype))
        };
        Self {
            experts,
            dtype,
            gate_up: random([experts, 2 * WIDTH, HIDDEN]),
            down: random([experts, HIDDEN, WIDTH]),
        }
    }

    fn measure(&self, tokens: usize, choice: Choice, backward: bool) -> Row {
        let device = Device::flex();
        let random = |shape: [usize; 2]| {
            let deviation = Distribution::Normal(0.0, 1.0);
            Tensor::<2>::random(shape, deviation, (&device, self.dtype))
        };
        let (x, dy) = (random([tokens, HIDDEN]), random([tokens, HIDDEN]));
        let routing = random([tokens, CHOICES]);
        let chosen = choice.indices(tokens, self.experts);
        let hit = (0..self.experts as i64)
            .filter(|e| chosen.contains(e))
            .count();
        let data = TensorData::new(chosen, [tokens, CHOICES]);
        let indices = Tensor::<2, Int>::from_data(data, &device);
        let fused = || self.run(&x, &indices, &routing, &dy, backward);

        let passes = if backward { 3 } else { 1 };
        let mut product = Product::new(tokens * CHOICES);
        let dense = || (0..passes).for_each(|_| product.run());

        let expert = 3 * WIDTH * HIDDEN * self.dtype.size();
        let moved = if backward {
            2 * hit + self.experts
        } else {
            hit
        } * expert;
        let memory = Memory::new(moved);
        let [fused, dense, memory, dense_ratio, memory_ratio] =
            compare(fused, dense, || memory.run());
        Row {
            experts: self.experts,
            tokens,
            dtype: self.dtype,
            choice,
            pass: pass(backward),
            fused: Duration::from_secs_f64(fused),
            dense: Duration::from_secs_f64(dense),
            memory: Duration::from_secs_f64(memory),
            dense_ratio,
            memory_ratio,
            operations: (passes * 2 * tokens * CHOICES * 3 * WIDTH * HIDDEN) as f64,
        }
    }

    fn run(
        &self,
        x: &Tensor<2>,
        indices: &Tensor<2, Int>,
        routing: &Tensor<2>,
        dy: &Tensor<2>,
        backward: bool,
    ) {
        let weights = |gate_up: Tensor<3>, down: Tensor<3>| {
            Weights::packed(Projection::new(gate_up), Projection::new(down))
        };
        let run = |x, indices, routing, weights| {
            experts::fused(x, indices, routing, weights, None, MoeExpertsKey::QWEN3)
                .expect("the CPU has this kernel")
        };
        if !backward {
            let weights = weights(self.gate_up.clone(), self.down.clone());
            let y = run(x.clone(), indices.clone(), routing.clone(), weights);
            std::hint::black_box(y);
            return;
        }
        fn leaf<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
            Tensor::from_inner(tensor.clone()).require_grad()
        }
        let weights = weights(leaf(&self.gate_up), leaf(&self.down));
        let y = run(leaf(x), indices.clone(), leaf(routing), weights);
        let loss = (y * Tensor::from_inner(dy.clone())).sum();
        std::hint::black_box(loss.backward());
    }
}

/// One product with as many operations as the three of the experts.
struct Product {
    rows: usize,
    x: Vec<f32>,
    weight: Vec<f32>,
    y: Vec<f32>,
}

impl Product {
    const FEATURES: usize = 3 * WIDTH;

    fn new(rows: usize) -> Self {
        Self {
            rows,
            x: vec![0.5; rows * HIDDEN],
            weight: vec![0.25; HIDDEN * Self::FEATURES],
            y: vec![0.0; rows * Self::FEATURES],
        }
    }

    fn run(&mut self) {
        // SAFETY: sizes and strides match the three buffers.
        unsafe {
            gemm::gemm(
                self.rows,
                Self::FEATURES,
                HIDDEN,
                self.y.as_mut_ptr(),
                1,
                Self::FEATURES as isize,
                false,
                self.x.as_ptr(),
                1,
                HIDDEN as isize,
                self.weight.as_ptr(),
                1,
                Self::FEATURES as isize,
                1.0_f32,
                1.0_f32,
                false,
                false,
                false,
                gemm::Parallelism::Rayon(0),
            );
        }
        std::hint::black_box(&self.y);
    }
}

/// A read of as many bytes as must move, by all threads, each part once.
struct Memory {
    values: Vec<f32>,
}

impl Memory {
    /// The number of elements that a thread reads at a time.
    const PART: usize = 1 << 18;

    fn new(bytes: usize) -> Self {
        Self {
            values: vec![1.0; bytes / size_of::<f32>()],
        }
    }

    fn run(&self) {
        let sum: f32 = self
            .values
            .par_chunks(Self::PART)
            .map(|part| {
                let (chunks, _) = part.as_chunks::<64>();
                let mut sums = [0.0; 64];
                for chunk in chunks {
                    sums.iter_mut()
                        .zip(chunk)
                        .for_each(|(sum, value)| *sum += value);
                }
                sums.iter().sum::<f32>()
            })
            .sum();
        std::hint::black_box(sum);
    }
}

/// Runs the three in turn for about a second. Returns the medians of their times, and those of the last two's ratios to
/// the first.
fn compare(mut fused: impl FnMut(), mut dense: impl FnMut(), memory: impl Fn()) -> [f64; 5] {
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    let mut round = || [time(&mut fused), time(&mut dense), time(&mut || memory())];
    let warm: f64 = round().iter().sum();
    let rounds = ((1.0 / warm) as usize).clamp(7, 200);
    let times: Vec<[f64; 3]> = (0..rounds).map(|_| round()).collect();
    let median = |of: &dyn Fn(&[f64; 3]) -> f64| {
        let mut values: Vec<f64> = times.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    [
        median(&|t| t[0]),
        median(&|t| t[1]),
        median(&|t| t[2]),
        median(&|t| t[1] / t[0]),
        median(&|t| t[2] / t[0]),
    ]
}

fn print_head() {
    println!(
        "| experts | tokens | dtype | choice | pass | fused | GF/s | dense | dense / fused | memory \
         | memory / fused |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
}

fn print(row: &Row) {
    println!(
        "| {} | {} | {} | {} | {} | {:.2} ms | {:.0} | {:.2} ms | {:.2} | {:.2} ms | {:.2} |",
        row.experts,
        row.tokens,
        row.dtype.name(),
        row.choice.name(),
        row.pass,
        row.fused.as_secs_f64() * 1e3,
        row.operations / row.fused.as_secs_f64() / 1e9,
        row.dense.as_secs_f64() * 1e3,
        row.dense_ratio,
        row.memory.as_secs_f64() * 1e3,
        row.memory_ratio,
    );
}

fn to_json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            serde_json::json!({
                "experts": row.experts,
                "tokens": row.tokens,
                "dtype": row.dtype.name(),
                "choice": row.choice.name(),
                "pass": row.pass,
                "fused_s": row.fused.as_secs_f64(),
                "dense_s": row.dense.as_secs_f64(),
                "memory_s": row.memory.as_secs_f64(),
                "dense_over_fused": row.dense_ratio,
                "memory_over_fused": row.memory_ratio,
                "operations": row.operations,
            })
        })
        .collect();
    serde_json::to_string_pretty(&rows).expect("numbers and names are JSON")
}
