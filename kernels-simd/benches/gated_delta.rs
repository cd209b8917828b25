//! Measures gated delta rules and causal convolutions on the CPU.
//!
//! `cargo bench -p kernels-simd --bench gated_delta` prints a table. `benches/gated_delta_torch.py` prints the times of
//! transformers' torch code for the same sizes. Both give the median of some seconds, with two threads.

use kernels_simd::{SliceMut, Values, View, causal_conv, gated_delta};
use std::hint::black_box;
use std::time::{Duration, Instant};

const HEADS: usize = 16;
const WIDTH: usize = 128;

fn main() {
    let threads = rayon::ThreadPoolBuilder::new().num_threads(2);
    threads.build_global().expect("the first pool");
    println!("| call | forward | forward and backward |\n|---|---|---|");
    for (tokens, channels) in [
        (1024, false),
        (2048, false),
        (4096, false),
        (16384, false),
        (2048, true),
    ] {
        delta(tokens, channels);
    }
    step();
    convolution();
}

/// Returns numbers between -1 and 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

/// Returns the median of the times of calls in two seconds, at least three.
fn median(mut call: impl FnMut()) -> Duration {
    call();
    let (mut times, begun) = (Vec::new(), Instant::now());
    while times.len() < 3 || begun.elapsed() < Duration::from_secs(2) {
        let start = Instant::now();
        call();
        times.push(start.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

fn row(call: &str, times: &[Duration]) {
    let times: Vec<_> = times
        .iter()
        .map(|time| format!("{:.3} ms", time.as_secs_f64() * 1e3))
        .collect();
    println!("| {call} | {} |", times.join(" | "));
}

fn f32s(values: &Values) -> &[f32] {
    match values {
        Values::F32(values) => values,
        other => panic!("not in f32 but {:?}", other.dtype()),
    }
}

fn delta(tokens: usize, channels: bool) {
    let sizes = [1, tokens, HEADS, WIDTH];
    let [q, k, v, dy] = [1, 2, 3, 4].map(|seed| numbers(tokens * HEADS * WIDTH, seed));
    let decays = if channels { WIDTH } else { 1 };
    let g: Vec<f32> = numbers(tokens * HEADS * decays, 5)
        .iter()
        .map(|x| x.abs() * -0.5)
        .collect();
    let beta: Vec<f32> = numbers(tokens * HEADS, 6).iter().map(|x| x.abs()).collect();
    let operands = gated_delta::Operands {
        q: View::whole(&q, &sizes),
        k: View::whole(&k, &sizes),
        v: View::whole(&v, &sizes),
        g: View::whole(&g, if channels { &sizes } else { &sizes[..3] }),
        beta: View::whole(&beta, &sizes[..3]),
        state: None,
        lengths: None,
        scale: (WIDTH as f64).powf(-0.5),
        normalise: true,
    };
    let forward = median(|| drop(black_box(gated_delta::forward(&operands, true))));
    let inverse_sizes = gated_delta::sizes(&operands).inverses();
    let both = median(|| {
        let found = gated_delta::forward(&operands, true);
        let inverses = found.inverses.as_ref().expect("they are wanted");
        let ends = gated_delta::Ends {
            dy: View::whole(&dy, &sizes),
            dstate: None,
            inverses: View::whole(f32s(inverses), &inverse_sizes),
        };
        drop(black_box(gated_delta::backward(&operands, &ends)));
    });
    let kind = if channels {
        "a decay for each channel"
    } else {
        "one decay"
    };
    row(&format!("delta rule, {sizes:?}, {kind}"), &[forward, both]);
}

/// Measures a token of 64 layers, whose states don't lie in caches, and the rate of reading and writing the states.
fn step() {
    const LAYERS: usize = 64;
    let sizes = [1, 1, HEADS, WIDTH];
    let [q, k, v] = [1, 2, 3].map(|seed| numbers(HEADS * WIDTH, seed));
    let (g, beta) = (vec![-0.1_f32; HEADS], vec![0.5_f32; HEADS]);
    let mut states = vec![vec![0.1_f32; HEADS * WIDTH * WIDTH]; LAYERS];
    let operands = gated_delta::Operands {
        q: View::whole(&q, &sizes),
        k: View::whole(&k, &sizes),
        v: View::whole(&v, &sizes),
        g: View::whole(&g, &sizes[..3]),
        beta: View::whole(&beta, &sizes[..3]),
        state: None,
        lengths: None,
        scale: (WIDTH as f64).powf(-0.5),
        normalise: true,
    };
    let step = median(|| {
        for state in &mut states {
            black_box(gated_delta::step(&operands, SliceMut::of(state)));
        }
    });
    let pass = median(|| {
        for state in &mut states {
            std::thread::scope(|scope| {
                for half in state.chunks_mut(HEADS * WIDTH * WIDTH / 2) {
                    scope.spawn(|| half.iter_mut().for_each(|x| *x *= 0.999));
                }
            });
        }
    });
    row(
        &format!("token of {LAYERS} layers, {sizes:?}; a pass over the states"),
        &[step, pass],
    );
}

fn convolution() {
    let sizes = [1, 2048, 8192];
    let (x, dy) = (numbers(2048 * 8192, 1), numbers(2048 * 8192, 2));
    let weight = numbers(8192 * 4, 3);
    let operands = causal_conv::Operands {
        x: View::whole(&x, &sizes),
        weight: View::whole(&weight, &[8192, 4]),
        bias: None,
        state: None,
        lengths: None,
        silu: true,
    };
    let forward = median(|| drop(black_box(causal_conv::forward(&operands))));
    let dy = View::whole(&dy, &sizes);
    let both = median(|| {
        black_box(causal_conv::forward(&operands));
        black_box(causal_conv::backward(&operands, &dy, None));
    });
    row(
        &format!("causal convolution and silu, {sizes:?}, width 4"),
        &[forward, both],
    );
}
