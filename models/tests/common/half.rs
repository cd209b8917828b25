//! Compares models in half types with those of `transformers`.
//!
//! If two experts have nearly the same weight, rounding decides between them, and may decide differently in both
//! programs. From that layer on the token's values differ much, and through attention those of later tokens in the
//! sequence differ a little. The comparison is therefore of single positions, and only of those that no such difference
//! can reach.

use super::{File, corrections, ints, model_dir, read, relative_l2, routing, to_f64};
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::ops::moe::route;
use kernels_models::{CausalLm, ModelConfig, load};

/// A run of a model on the tokens of its golden file.
pub struct Run {
    logits: Vec<f64>,
    /// The experts of each token in each sparse layer, in ascending order.
    chosen: Vec<Vec<Vec<f64>>>,
}

impl Run {
    pub fn new(name: &str, dtype: FloatDType) -> Self {
        let device = Device::default();
        let golden = read(&model_dir(name).join("golden.safetensors"));
        let (config, model) = load(&model_dir(name), &device, dtype).unwrap();
        Self::of(name, (&config, &model), &golden, &device)
    }

    /// Runs a model that is loaded. Its experts are read from the logits of its routers, on the host.
    pub fn of(
        name: &str,
        (config, model): (&ModelConfig, &CausalLm),
        golden: &File,
        device: &Device,
    ) -> Self {
        let output = model.output(ints(&golden["input_ids"], device), None);
        let logits = to_f64(&output.logits.into_data());
        if config.moe.is_none() {
            return Self {
                logits,
                chosen: Vec::new(),
            };
        }
        let routing = routing(config);
        let corrections = corrections(name, config).into_iter();
        let layers = output.router_logits.into_iter().zip(corrections);
        let chosen = layers.map(|(logits, correction)| {
            let (host, dtype) = (Device::default(), logits.dtype());
            let logits = Tensor::<2>::from_data(logits.into_data(), (&host, dtype));
            let indices = route(logits, correction, &routing).indices;
            let indices = to_f64(&indices.float().into_data());
            let sorted = |token: &[f64]| {
                let mut token = token.to_vec();
                token.sort_by(f64::total_cmp);
                token
            };
            indices.chunks(routing.top_k()).map(sorted).collect()
        });
        Self {
            chosen: chosen.collect(),
            logits,
        }
    }

    /// Checks that the median and the upper quartile of the errors are below those of `transformers` in bf16 times
    /// `factor`.
    #[track_caller]
    pub fn positions_are_as_exact(&self, name: &str, label: &str, factor: f64) {
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
        let untouched = self.untouched(&Self::new(name, FloatDType::F64), seq, theirs.len());
        assert!(
            2 * untouched.len() > theirs.len(),
            "{label}: only {} of {} positions have their own experts",
            untouched.len(),
            theirs.len()
        );
        let ours = errors(&self.logits);
        let ours = sorted(untouched.into_iter().map(|at| ours[at]).collect());
        for quartile in [2, 3] {
            let at = |errors: &[f64]| errors[errors.len() * quartile / 4];
            assert!(
                at(&ours) < factor * at(&theirs),
                "{label}, quartile {quartile}: off by {:e}, transformers by {:e}",
                at(&ours),
                at(&theirs)
            );
        }
    }

    /// Returns the positions of `[batch, seq]` that differing choices of experts here and in `exact` can't have changed. A
    /// choice in the last layer affects only its own token, one in an earlier layer also all later tokens.
    fn untouched(&self, exact: &Self, seq: usize, positions: usize) -> Vec<usize> {
        let flipped = |layer: usize, at: usize| self.chosen[layer][at] != exact.chosen[layer][at];
        let layers = self.chosen.len();
        let reached = |at: usize| {
            let row = at - at % seq;
            let earlier = |layer| (row..=at).any(|before| flipped(layer, before));
            layers > 0 && ((0..layers - 1).any(earlier) || flipped(layers - 1, at))
        };
        (0..positions).filter(|&at| !reached(at)).collect()
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}
