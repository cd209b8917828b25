//! Compares mixtures of experts in half precision with those of `transformers`.
//!
//! If two experts have nearly the same weight, rounding decides between them, and may decide differently in both
//! programs. From that layer on the token's values differ much, and through attention those of later tokens in the
//! sequence differ a little. The tests therefore compare single positions, and only those that no such difference can
//! reach.

use crate::common::{SPARSE, corrections, ints, model_dir, read, relative_l2, routing, to_f64};
use burn::tensor::{Device, FloatDType};
use burn_kernels::ops::moe::route;
use burn_kernels::policy::{self, Policy};
use kernels_models::load;

/// A run of a model.
struct Run {
    logits: Vec<f64>,
    /// The experts of each token in each sparse layer, in ascending order.
    chosen: Vec<Vec<Vec<f64>>>,
}

fn run(name: &str, dtype: FloatDType) -> Run {
    let device = Device::default();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    let (config, model) = load(&model_dir(name), &device, dtype).unwrap();
    let routing = routing(&config);
    let output = model.output(ints(&golden["input_ids"], &device), None);
    let corrections = corrections(name, &config).into_iter();
    let layers = output.router_logits.into_iter().zip(corrections);
    let chosen = layers.map(|(logits, correction)| {
        let indices = route(logits, correction, &routing).indices;
        let indices = to_f64(&indices.float().into_data());
        let sorted = |token: &[f64]| {
            let mut token = token.to_vec();
            token.sort_by(f64::total_cmp);
            token
        };
        indices.chunks(routing.top_k()).map(sorted).collect()
    });
    Run {
        chosen: chosen.collect(),
        logits: to_f64(&output.logits.into_data()),
    }
}

/// Returns the positions of `[batch, seq]` that differing choices of experts in `run` and `exact` can't have changed. A
/// choice in the last layer affects only its own token, one in an earlier layer also all later tokens.
fn untouched(run: &Run, exact: &Run, seq: usize) -> Vec<usize> {
    let layers = run.chosen.len();
    let flipped = |layer: usize, at: usize| run.chosen[layer][at] != exact.chosen[layer][at];
    let reached = |at: usize| {
        let row = at - at % seq;
        let earlier = |layer| (row..=at).any(|before| flipped(layer, before));
        (0..layers - 1).any(earlier) || flipped(layers - 1, at)
    };
    (0..run.chosen[0].len())
        .filter(|&at| !reached(at))
        .collect()
}

/// Checks that the median and the upper quartile of our errors in `dtype` are below those of `transformers` in bf16
/// times `factor`.
fn positions_are_as_exact(dtype: FloatDType, factor: f64) {
    for name in SPARSE {
        let golden = read(&model_dir(name).join("golden.safetensors"));
        let (exact, theirs) = (&golden["logits_f64"], golden["logits_bf16"].values());
        let [_, seq, vocab] = exact.shape[..] else {
            panic!("{name}")
        };
        let exact = exact.values();
        let errors = |found: &[f64]| -> Vec<f64> {
            let positions = found.chunks(vocab).zip(exact.chunks(vocab));
            positions.map(|(a, b)| relative_l2(a, b)).collect()
        };
        let theirs = sorted(errors(&theirs));
        for kernels in ["none", "all"] {
            let _policy = policy::scope(kernels.parse::<Policy>().unwrap());
            let (ours, wide) = (run(name, dtype), run(name, FloatDType::F64));
            let untouched = untouched(&ours, &wide, seq);
            assert!(
                2 * untouched.len() > theirs.len(),
                "{name}, kernels {kernels}: only {} of {} positions have their own experts",
                untouched.len(),
                theirs.len()
            );
            let ours = errors(&ours.logits);
            let ours = sorted(untouched.into_iter().map(|at| ours[at]).collect());
            for quartile in [2, 3] {
                let at = |errors: &[f64]| errors[errors.len() * quartile / 4];
                assert!(
                    at(&ours) < factor * at(&theirs),
                    "{name}, kernels {kernels}, quartile {quartile}: off by {:e}, transformers by {:e}",
                    at(&ours),
                    at(&theirs)
                );
            }
        }
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

#[test]
fn bf16_is_as_exact_as_transformers() {
    positions_are_as_exact(FloatDType::BF16, 1.25);
}

/// f16 has 3 bits more than bf16. The bound is an eighth of its error, with some room.
#[test]
fn f16_is_more_exact() {
    positions_are_as_exact(FloatDType::F16, 1.0 / 5.0);
}
