//! Measures products with quantised weights on the CPU, beside those of floats and a sweep of memory.
//!
//! `cargo bench -p kernels-simd --bench quantized` prints a table; words after `--` choose encodings. Each time is the best of
//! several, with two threads. One row of `x` is multiplied with copies of a weight that no second-level cache holds, as in
//! decoding.

#[allow(dead_code)]
#[path = "../../kernels-quant/tests/main/stored.rs"]
mod stored;

#[path = "../tests/quantized/made.rs"]
mod made;

use half::bf16;
use kernels_quant::{Code, QuantizedWeight, Scales, gguf};
use kernels_simd::keys::OutputLayout;
use kernels_simd::{View, linear, quantized};
use std::hint::black_box;
use std::time::{Duration, Instant};
use stored::Stored;

/// The bytes of all copies of a weight.
const COPIES: usize = 48 << 20;

/// Outputs and inputs: the layers of SmolLM2-135M with its head, and one of a larger model.
const DECODED: [[usize; 2]; 5] = [
    [1536, 576],
    [576, 1536],
    [576, 576],
    [49152, 576],
    [8192, 2048],
];

/// The number of rows of a prompt, and the weights that it is multiplied with.
const PROMPT: usize = 512;
const PROMPTED: [[usize; 2]; 2] = [[1536, 576], [8192, 2048]];

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("threads can be started").install(|| {
        println!("| rows | weight | encoding | ms | GB/s | of a sweep | of f32's rate |");
        println!("|---|---|---|---|---|---|---|");
        for (count, shapes) in [(1, &DECODED[..]), (PROMPT, &PROMPTED)] {
            for &shape in shapes {
                of_shape(count, shape, &chosen);
            }
        }
    });
}

fn of_shape(count: usize, shape: [usize; 2], chosen: &[String]) {
    let elements = shape[0] * shape[1];
    let x = numbers(count * shape[1]);
    let floats = numbers(elements);
    let x_view = View::whole(&x, &[count, shape[1]]);
    let float = |bytes: usize| {
        let copies = vec![floats.clone(); copies(count, bytes)];
        best(count, &copies, |weight| {
            let weight = View::whole(weight, &shape);
            let layout = OutputLayout::OutputMajor;
            drop(black_box(linear::forward(&x_view, &weight, layout, None)));
        })
    };
    let line = |name: &str, bytes: usize, time: Duration, of_f32: Duration| {
        let rate = bytes as f64 / time.as_secs_f64() / 1e9;
        println!(
            "| {count} | {} × {} | {name} | {:.4} | {rate:.1} | {:.0} % | {:.2} |",
            shape[0],
            shape[1],
            time.as_secs_f64() * 1e3,
            100.0 * rate / sweep(),
            of_f32.as_secs_f64() / time.as_secs_f64()
        );
    };
    let of_f32 = float(4 * elements);
    line("f32", 4 * elements, of_f32, of_f32);
    if chosen.is_empty() || chosen.iter().any(|name| name == "bf16") {
        line("bf16", 2 * elements, in_bf16(count, shape, &floats), of_f32);
    }
    for (name, stored) in encodings(shape) {
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
            continue;
        }
        let Some(stored) = stored() else { continue };
        let bytes = stored.parts.iter().map(|part| part.bytes.len()).sum();
        let copies: Vec<Stored> = vec![stored; copies(count, bytes)];
        let weights: Vec<QuantizedWeight<'_>> = copies
            .iter()
            .map(|stored| stored.weight().expect("a weight"))
            .collect();
        let time = best(count, &weights, |weight| {
            drop(black_box(quantized::forward(&x_view, weight)));
        });
        line(name, bytes, time, of_f32);
        if !quantized::int8::takes(&weights[0]) {
            continue;
        }
        let time = best(count, &weights, |weight| {
            drop(black_box(quantized::int8::forward(&x_view, weight)));
        });
        line(&format!("{name}, rounded rows"), bytes, time, of_f32);
    }
}

fn in_bf16(count: usize, shape: [usize; 2], floats: &[f32]) -> Duration {
    let floats: Vec<bf16> = floats.iter().map(|x| bf16::from_f32(*x)).collect();
    let x: Vec<bf16> = numbers(count * shape[1])
        .into_iter()
        .map(bf16::from_f32)
        .collect();
    let copies = vec![floats; copies(count, 2 * shape[0] * shape[1])];
    let x = View::whole(&x, &[count, shape[1]]);
    best(count, &copies, |weight| {
        let weight = View::whole(weight, &shape);
        let layout = OutputLayout::OutputMajor;
        drop(black_box(linear::forward(&x, &weight, layout, None)));
    })
}

type Made = Box<dyn Fn() -> Option<Stored>>;

fn encodings(shape: [usize; 2]) -> Vec<(&'static str, Made)> {
    let mut all: Vec<(&'static str, Made)> = Vec::new();
    for &block in gguf::Block::ALL {
        let made = move || {
            let fits = shape[1].is_multiple_of(block.elements());
            fits.then(|| made::blocks(block, shape))
        };
        all.push((block.name(), Box::new(made)));
    }
    let mut of = |name, made: fn([usize; 2]) -> Stored| {
        let made: Made = Box::new(move || Some(made(shape)));
        all.push((name, made));
    };
    of("nf4", |shape| made::nf4(shape, 64));
    of("int8", made::int8);
    of("gptq", |shape| made::gptq(shape, 4, 64, false));
    of("gptq-act-order", |shape| made::gptq(shape, 4, 64, true));
    of("awq", |shape| made::awq(shape, 64));
    of("w4a16", |shape| {
        made::packed(shape, 4, Scales::Groups(64), false)
    });
    of("w4a16-zeros", |shape| {
        made::packed(shape, 4, Scales::Groups(64), true)
    });
    of("w8a16", |shape| made::packed(shape, 8, Scales::Rows, false));
    of("w8", |shape| {
        made::unpacked(shape, Code::Int8, Scales::Rows, false)
    });
    of("fp8", |shape| made::fp8_blocks(shape, [128, 128]));
    of("mxfp4", made::mxfp4);
    all
}

fn copies(count: usize, bytes: usize) -> usize {
    match count {
        1 => COPIES.div_ceil(bytes),
        _ => 1,
    }
}

/// Returns numbers between -1 and 1.
fn numbers(count: usize) -> Vec<f32> {
    let mut random = stored::noise(1);
    let mut next = || random() as f32 / u64::MAX as f32 * 2.0 - 1.0;
    (0..count).map(|_| next()).collect()
}

/// Returns the shortest time of a call, of some passes over the operands.
fn best<T>(count: usize, operands: &[T], mut call: impl FnMut(&T)) -> Duration {
    let most = Duration::from_millis(if count == 1 { 120 } else { 300 });
    let (mut best, begun, mut passes) = (Duration::MAX, Instant::now(), 0);
    while passes < 3 || begun.elapsed() < most {
        for operand in operands {
            let start = Instant::now();
            call(operand);
            best = best.min(start.elapsed());
        }
        passes += 1;
    }
    best
}

/// Returns the rate of reading memory with two threads, in GB/s.
fn sweep() -> f64 {
    const PART: usize = 8 << 20;
    thread_local! {
        static MEMORY: Vec<u64> = vec![1; COPIES / 8];
    }
    MEMORY.with(|memory| {
        let sum = |part: &[u64]| {
            let sums = part.as_chunks::<32>().0.iter();
            let sums = sums.fold([0_u64; 32], |mut sums, numbers| {
                for (sum, number) in sums.iter_mut().zip(numbers) {
                    *sum ^= number;
                }
                sums
            });
            black_box(sums);
        };
        let parts: Vec<&[u64]> = memory.chunks(PART / 8).collect();
        let time = best(1, &parts, |part| {
            let (first, second) = part.split_at(part.len() / 2);
            rayon::join(|| sum(first), || sum(second));
        });
        PART as f64 / time.as_secs_f64() / 1e9
    })
}
