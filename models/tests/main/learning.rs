//! Models learn with kernels what no untrained or wrongly trained model knows.

use crate::common::{Stored, copy_of, model_dir, read, write};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::optim::{InitFused, rounded, widened};
use kernels_models::{CausalLm, load};
use serde_json::Value;

/// Tokens of the task. Each is the sum of the two before it, so one token alone says nothing of the next: a model
/// that sees one token, or no order, can't do better than `ln 7`, which is 1.95.
const TOKENS: i64 = 7;
const LENGTH: usize = 16;
/// Every start of two tokens but those of zeros, which stay zeros.
const SEQUENCES: i64 = TOKENS * TOKENS - 1;

fn sequences(device: &Device) -> Tensor<2, Int> {
    let mut ids = Vec::new();
    for start in 1..=SEQUENCES {
        let mut pair = [start / TOKENS, start % TOKENS];
        for _ in 0..LENGTH {
            ids.push(pair[0]);
            pair = [pair[1], (pair[0] + pair[1]) % TOKENS];
        }
    }
    Tensor::from_data(TensorData::new(ids, [SEQUENCES as usize, LENGTH]), device)
}

/// The mean loss of the tokens that follow from those before: the second of a sequence is anybody's guess.
fn loss_of(model: &CausalLm, ids: &Tensor<2, Int>) -> f64 {
    let [b, s] = ids.dims();
    let logits = model.forward(ids.clone(), None).cast(DType::F32);
    let logits = logits.slice([0..b, 1..s - 1]).reshape([b * (s - 2), 128]);
    let next = ids.clone().slice([0..b, 2..s]).reshape([b * (s - 2), 1]);
    let likelihood = burn::tensor::activation::log_softmax(logits, 1).gather(1, next);
    -likelihood.mean().into_scalar::<f64>()
}

/// Trains on the task for some steps. Returns the losses before and after.
fn learned(mut model: CausalLm, steps: usize, device: &Device) -> (f64, f64) {
    let ids = sequences(device);
    let before = loss_of(&model, &ids);
    let mut optimiser = AdamWConfig::new().init_fused();
    for _ in 0..steps {
        let (_, loss) = model.loss(ids.clone(), None);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(3e-3, model, gradients);
    }
    (before, loss_of(&model, &ids))
}

#[test]
fn a_model_learns_what_follows_from_two_tokens() {
    let device = Device::flex().autodiff();
    for name in ["llama", "qwen3", "qwen3_moe"] {
        for dtype in [FloatDType::F32, FloatDType::BF16] {
            let fresh = || load(&model_dir(name), &device, dtype).unwrap().1;
            let (before, after) = learned(fresh(), 80, &device);
            assert!(before > 3.0, "{name}: an untrained model knows {before}");
            assert!(after < 0.3, "{name} in {dtype:?} learned {after}");
        }
    }
}

/// Adds up the squares of gradients, and of their differences from exact ones.
struct Squares {
    found: GradientsParams,
    exact: GradientsParams,
    sum: f64,
    of_differences: f64,
}

impl ModuleVisitor for Squares {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = |of: &GradientsParams| of.get::<D>(param.id).expect("a gradient");
        let (found, exact) = (gradient(&self.found), gradient(&self.exact));
        assert_eq!(found.dtype(), DType::F32);
        let squares = |tensor: Tensor<D>| tensor.square().sum().into_scalar::<f64>();
        self.sum += squares(exact.clone());
        self.of_differences += squares(found - exact);
    }
}

/// Parameters in f32 keep what is too small for bf16, in which the losses and their gradients are computed.
#[test]
fn a_rounded_model_has_the_gradients_of_its_parameters() {
    let device = Device::flex().autodiff();
    let ids = sequences(&device);
    for name in ["llama", "qwen3", "qwen3_moe"] {
        let mut model = load(&model_dir(name), &device, FloatDType::F32).unwrap().1;
        let exact = model.loss(ids.clone(), None).1.backward();
        let exact = GradientsParams::from_grads(exact, &model);
        let gradients = |model: &CausalLm| {
            let half = rounded(model, FloatDType::BF16);
            let (logits, loss) = half.loss(ids.clone(), None);
            assert_eq!(logits.dtype(), DType::BF16);
            let gradients = GradientsParams::from_grads(loss.backward(), &half);
            widened(gradients, model)
        };
        let found = gradients(&model);
        assert_eq!(found.len(), exact.len(), "{name}");
        let mut squares = Squares {
            found,
            exact,
            sum: 0.0,
            of_differences: 0.0,
        };
        model.visit(&mut squares);
        let error = (squares.of_differences / squares.sum).sqrt();
        assert!(error < 0.03, "{name}: gradients differ by {error}");

        let before = loss_of(&model, &ids);
        let mut optimiser = AdamWConfig::new().init_fused();
        for _ in 0..80 {
            let gradients = gradients(&model);
            model = optimiser.step(3e-3, model, gradients);
        }
        let after = loss_of(&model, &ids);
        assert!(before > 3.0 && after < 0.3, "{name} learned {after}");
    }
}

/// A mixture whose routers send every token to the first two experts or to the last two: each expert's row is a
/// multiple of one direction.
fn lopsided(coefficient: f64, device: &Device) -> CausalLm {
    let folder = copy_of("qwen3_moe");
    let path = folder.path().join("config.json");
    let mut json: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    json["output_router_logits"] = true.into();
    json["router_aux_loss_coef"] = coefficient.into();
    std::fs::write(&path, json.to_string()).unwrap();
    let weights = folder.path().join("model.safetensors");
    let mut file = read(&weights);
    for (_, gate) in file
        .iter_mut()
        .filter(|(name, _)| name.ends_with("mlp.gate.weight"))
    {
        let width = gate.shape[1];
        let row = &gate.values()[2 * width..3 * width];
        let rows = (0..gate.shape[0]).flat_map(|expert| {
            let times = 10.0 * (expert as f64 - 3.5);
            row.iter().map(move |x| (x * times) as f32)
        });
        *gate = Stored::f32(&gate.shape, &rows.collect::<Vec<_>>());
    }
    write(&weights, &file);
    load(folder.path(), device, FloatDType::F32).unwrap().1
}

/// The load-balancing loss before and after some steps.
fn balanced(mut model: CausalLm, steps: usize, device: &Device) -> (f64, f64) {
    let ids = sequences(device);
    let balance = |model: &CausalLm| {
        let loss = model.losses(ids.clone(), None).1.load_balancing;
        loss.expect("a mixture").into_scalar::<f64>()
    };
    let before = balance(&model);
    let mut optimiser = AdamWConfig::new().init_fused();
    for _ in 0..steps {
        let (_, loss) = model.loss(ids.clone(), None);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(3e-3, model, gradients);
    }
    (before, balance(&model))
}

#[test]
fn the_balancing_loss_spreads_tokens_over_the_experts() {
    let device = Device::flex().autodiff();
    // Two experts a token, evenly used, make a loss of 2.
    let (before, after) = balanced(lopsided(1.0, &device), 60, &device);
    let (_, without) = balanced(lopsided(0.0, &device), 60, &device);
    assert!(before > 3.0, "{before}");
    assert!(after < 2.3, "{after}");
    assert!(without > 2.6, "{without}");
}
