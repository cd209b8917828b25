//! Fails if a fused kernel is not clearly faster than the plain Burn composition.
//!
//! `cargo bench --bench floors` measures a few points, both paths in turn in one process, and compares the median of the
//! pairs' ratios with a floor of about half of what quiet machines measure (`benches/results/`). A kernel that is below it
//! has lost its vectors, its threads or its passes over memory; noise alone doesn't take a kernel there.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor, module};
use burn_kernels::ops::{attention, glu, linear, linear_cross_entropy, rms_norm, rope};
use burn_kernels::semantics::*;
use std::process::ExitCode;
use std::time::Instant;

/// A call of an operation, fused or composed.
struct Point {
    name: &'static str,
    dtype: DType,
    /// The smallest accepted ratio of the composition's time to the kernel's.
    floor: f64,
    run: Box<dyn Fn(bool)>,
}

fn main() -> ExitCode {
    burn_kernels::memory::keep_freed();
    let mut failed = false;
    println!("| operation | dtype | Burn / fused | floor |");
    println!("|---|---|---|---|");
    for point in points() {
        let ratio = median_ratio(&point.run);
        let verdict = if ratio < point.floor { ", BELOW" } else { "" };
        println!(
            "| {} | {:?} | {ratio:.2} | {:.2}{verdict} |",
            point.name, point.dtype, point.floor
        );
        failed |= ratio < point.floor;
    }
    match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (dtype, floors) in [
        (DType::F32, [1.3, 3.0, 2.0]),
        (DType::BF16, [1.8, 4.0, 4.0]),
    ] {
        points.push(norm(dtype, floors[0]));
        points.push(unit(dtype, floors[1]));
        points.push(rotation(dtype, floors[2]));
        points.push(attended(dtype, 1.5));
        points.push(loss(dtype, 1.2));
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512bf16") {
        points.push(projection(1.3));
    } else {
        println!("NOT CHECKED: products of bf16, for which this machine has no instruction");
    }
    points
}

fn random<const D: usize>(shape: [usize; D], dtype: DType) -> Tensor<D> {
    let normal = Distribution::Normal(0.0, 1.0);
    Tensor::<D>::random(shape, normal, &Device::flex()).cast(FloatDType::from(dtype))
}

/// Returns the median ratio of the composition's time to the kernel's, of runs in turn.
fn median_ratio(run: &dyn Fn(bool)) -> f64 {
    let time = |is_fused| {
        let start = Instant::now();
        run(is_fused);
        start.elapsed().as_secs_f64()
    };
    time(true);
    time(false);
    let mut ratios: Vec<f64> = (0..15)
        .map(|_| {
            let fused = time(true);
            time(false) / fused
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

const FUSED: &str = "the CPU has this kernel";

fn norm(dtype: DType, floor: f64) -> Point {
    let (x, w) = (random([2048, 1024], dtype), random([1024], dtype));
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    let run = move |is_fused| {
        let inputs = rms_norm::Inputs {
            x: x.clone(),
            weight: Some(w.clone()),
            gate: None,
        };
        let key = RmsNormKey::LLAMA;
        drop(match is_fused {
            true => rms_norm::fused(inputs, settings, key).expect(FUSED),
            false => rms_norm::reference(inputs, settings, key),
        });
    };
    Point {
        name: "RMSNorm [2048, 1024]",
        dtype,
        floor,
        run: Box::new(run),
    }
}

fn unit(dtype: DType, floor: f64) -> Point {
    let [gate, up] = [(); 2].map(|()| random([2048, 3072], dtype));
    let run = move |is_fused| {
        let inputs = glu::Inputs::Separate {
            gate: gate.clone(),
            up: up.clone(),
        };
        let (settings, key) = (glu::Settings::default(), GluKey::SWIGLU);
        drop(match is_fused {
            true => glu::fused(inputs, settings, key).expect(FUSED),
            false => glu::reference(inputs, settings, key),
        });
    };
    Point {
        name: "SwiGLU [2048, 3072]",
        dtype,
        floor,
        run: Box::new(run),
    }
}

fn rotation(dtype: DType, floor: f64) -> Point {
    let [q, k] = [16, 8].map(|heads| random([1, 2048, heads, 64], dtype).swap_dims(1, 2));
    let [cos, sin] = [(); 2].map(|()| random([1, 2048, 64], dtype));
    let run = move |is_fused| {
        let [q, k] = [&q, &k].map(Tensor::clone);
        let [cos, sin] = [&cos, &sin].map(Tensor::clone);
        let key = RopeKey::LLAMA;
        drop(match is_fused {
            true => rope::fused(q, k, cos, sin, key).expect(FUSED),
            false => rope::reference(q, k, cos, sin, key),
        });
    };
    Point {
        name: "RoPE, 16 and 8 heads of 64, 2048 tokens",
        dtype,
        floor,
        run: Box::new(run),
    }
}

fn attended(dtype: DType, floor: f64) -> Point {
    let tensors = [(); 3].map(|()| random([1, 16, 512, 64], dtype));
    let run = move |is_fused| {
        let [q, k, v] = tensors.clone();
        let inputs = attention::Inputs {
            q,
            k,
            v,
            bias: None,
            sinks: None,
            lengths: attention::Lengths::default(),
        };
        let (settings, key) = (attention::Settings::default(), AttentionKey::CAUSAL);
        drop(match is_fused {
            true => attention::fused(inputs, settings, key).expect(FUSED),
            false => attention::reference(inputs, settings, key),
        });
    };
    Point {
        name: "attention [1, 16, 512, 64]",
        dtype,
        floor,
        run: Box::new(run),
    }
}

fn loss(dtype: DType, floor: f64) -> Point {
    let (hidden, weight) = (random([512, 512], dtype), random([8192, 512], dtype));
    let classes: Vec<i64> = (0..512).map(|token| token * 7919 % 8192).collect();
    let targets = Tensor::from_data(classes.as_slice(), &Device::flex());
    let run = move |is_fused| {
        let inputs = linear_cross_entropy::Inputs {
            hidden: hidden.clone(),
            weight: weight.clone(),
            bias: None,
            targets: targets.clone(),
        };
        let settings = linear_cross_entropy::Settings::default();
        let key = LinearCrossEntropyKey::MEAN;
        drop(match is_fused {
            true => linear_cross_entropy::fused(inputs, settings, key).expect(FUSED),
            false => linear_cross_entropy::reference(inputs, settings, key),
        });
    };
    Point {
        name: "linear cross-entropy, 512 × 512 × 8192",
        dtype,
        floor,
        run: Box::new(run),
    }
}

#[cfg(target_arch = "x86_64")]
fn projection(floor: f64) -> Point {
    let dtype = DType::BF16;
    let (x, weight) = (random([512, 1024], dtype), random([1024, 3072], dtype));
    let run = move |is_fused| {
        let (x, weight, bias) = (x.clone(), weight.clone(), None);
        drop(match is_fused {
            true => {
                let inputs = linear::Inputs { x, weight, bias };
                linear::fused(inputs, LinearKey::PROJECTION).expect(FUSED)
            }
            false => module::linear(x, weight, bias),
        });
    };
    Point {
        name: "linear [512, 1024] × [1024, 3072]",
        dtype,
        floor,
        run: Box::new(run),
    }
}
