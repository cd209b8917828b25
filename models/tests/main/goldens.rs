//! Compares logits, losses and gradients with those of `transformers`, with fused kernels on and off.

use crate::comparison::{difference, relative};

use crate::common::{
    self, File, MODELS, SPARSE, check_gradients, corrections, ints, model_dir, read, relative_l2,
    routing, to_f64,
};
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::ops::moe::route;
use burn_kernels::policy::{self, Policy};
use kernels_models::{Architecture, load};
use serde_json::json;

const POLICIES: [&str; 2] = ["none", "all"];

struct Case {
    label: String,
    model: &'static str,
    golden: File,
    _policy: policy::ScopeGuard,
}

/// Runs `check` for every model, with kernels off and on.
fn for_each_case(check: impl Fn(&Case)) {
    for model in MODELS {
        for policy in POLICIES {
            let scope = policy::scope(policy.parse::<Policy>().unwrap());
            check(&Case {
                label: format!("{model}, kernels {policy}"),
                model,
                golden: read(&model_dir(model).join("golden.safetensors")),
                _policy: scope,
            });
        }
    }
}

fn for_each_dense_case(check: impl Fn(&Case)) {
    for_each_case(|case| {
        if !SPARSE.contains(&case.model) {
            check(case);
        }
    });
}

impl Case {
    fn values(&self, name: &str) -> Vec<f64> {
        self.golden[name].values()
    }

    /// Returns logits and loss in the given dtype.
    fn run(&self, dtype: FloatDType) -> (Vec<f64>, f64) {
        let device = Device::default();
        let (_, model) = load(&model_dir(self.model), &device, dtype).unwrap();
        let input_ids = ints(&self.golden["input_ids"], &device);
        let position_ids = ints(&self.golden["position_ids"], &device);
        model
            .check_loss_inputs(&input_ids, Some(&position_ids))
            .unwrap();
        let (logits, loss) = model.loss(input_ids, Some(position_ids));
        (to_f64(&logits.into_data()), to_f64(&loss.into_data())[0])
    }
}

#[test]
fn f32_logits_loss_and_gradients() {
    for_each_case(|case| {
        let device = Device::default().autodiff();
        let (_, model) = load(&model_dir(case.model), &device, FloatDType::F32).unwrap();
        let input_ids = ints(&case.golden["input_ids"], &device);
        let (logits, loss) = model.loss(input_ids.clone(), None);
        let expected = case.values("logits");
        let error = relative(&to_f64(&logits.into_data()), &expected);
        assert!(error < 2e-5, "{}: logits off by {error:e}", case.label);

        // The loss without the logits is the same.
        let alone = model.training_losses(input_ids, None).total;
        for loss in [loss, alone] {
            let error = difference(&to_f64(&loss.to_data()), &case.values("loss"));
            assert!(error < 1e-5, "{}: loss off by {error:e}", case.label);
            check_gradients(
                &case.label,
                &case.golden,
                &model.gradients(&loss.backward()),
            );
        }
    });
}

/// Sorts the experts of each token, with their weights. Some routers return them in no order.
fn in_order(chosen: &[f64], weights: &[f64], top_k: usize) -> (Vec<f64>, Vec<f64>) {
    let tokens = chosen.chunks(top_k).zip(weights.chunks(top_k));
    let sorted = tokens.flat_map(|(chosen, weights)| {
        let mut pairs: Vec<_> = chosen
            .iter()
            .copied()
            .zip(weights.iter().copied())
            .collect();
        pairs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        pairs
    });
    sorted.unzip()
}

/// Compares the logits of every router, and the chosen experts with their weights.
#[test]
fn f32_routers() {
    for_each_case(|case| {
        let device = Device::default();
        let (config, model) = load(&model_dir(case.model), &device, FloatDType::F32).unwrap();
        let output = model.output(ints(&case.golden["input_ids"], &device), None);
        let sparse: Vec<usize> = (0..config.num_hidden_layers)
            .filter(|&layer| config.is_sparse(layer))
            .collect();
        let stored = |name: &&String| name.ends_with(".router.out0");
        assert_eq!(sparse.len(), case.golden.keys().filter(stored).count());
        assert_eq!(sparse.len(), output.router_logits.len(), "{}", case.label);
        let corrections = corrections(case.model, &config);
        let layers = sparse.into_iter().zip(corrections);
        for ((layer, correction), logits) in layers.zip(output.router_logits) {
            let expected = |part| case.values(&format!("act.layers.{layer}.mlp.router.out{part}"));
            if config.architecture == Architecture::Llama4 {
                // Its router returns scores of all experts, then the logits.
                let error = difference(&to_f64(&logits.into_data()), &expected(1));
                assert!(error < 1e-5, "{}: {layer}: {error:e}", case.label);
                continue;
            }
            let routing = routing(&config);
            let routed = route(logits.clone(), correction, &routing);
            let chosen = to_f64(&routed.indices.float().into_data());
            let weights = to_f64(&routed.weights.into_data());
            let (chosen, weights) = in_order(&chosen, &weights, routing.top_k());
            let (expected_chosen, expected_weights) =
                in_order(&expected(2), &expected(1), routing.top_k());
            assert_eq!(chosen, expected_chosen, "{}: layer {layer}", case.label);
            for (found, expected) in [
                (to_f64(&logits.into_data()), expected(0)),
                (weights, expected_weights),
            ] {
                let error = relative(&found, &expected);
                assert!(error < 2e-5, "{}: {layer}: {error:e}", case.label);
            }
        }
    });
}

/// The auxiliary loss is part of the loss if the configuration says so. Its value is available in any case.
#[test]
fn auxiliary_losses() {
    let device = Device::default();
    for (model, dtype, tolerance) in [
        ("qwen2_moe_step2", FloatDType::F32, 1e-5),
        ("qwen2_moe_step2", FloatDType::F64, 1e-12),
    ] {
        let suffix = if dtype == FloatDType::F64 { "_f64" } else { "" };
        let golden = read(&model_dir(model).join("golden.safetensors"));
        let expected = |name: &str| golden[&format!("{name}{suffix}")].values()[0];
        let (config, model) = load(&model_dir(model), &device, dtype).unwrap();
        let (_, losses) = model.losses(ints(&golden["input_ids"], &device), None);
        let value = |loss: &Tensor<1>| to_f64(&loss.to_data())[0];
        let auxiliary = value(losses.load_balancing.as_ref().unwrap());
        assert!((auxiliary - expected("loss_aux")).abs() < tolerance);
        assert!((value(&losses.total) - expected("loss")).abs() < tolerance);
        let coefficient = config.moe.unwrap().router_aux_loss_coef;
        let without = expected("loss") - coefficient * expected("loss_aux");
        assert!((value(&losses.next_token) - without).abs() < tolerance);
    }
    let golden = read(&model_dir("mixtral").join("golden.safetensors"));
    let (_, model) = load(&model_dir("mixtral"), &device, FloatDType::F32).unwrap();
    let (_, losses) = model.losses(ints(&golden["input_ids"], &device), None);
    assert!(losses.load_balancing.is_some());
    assert_eq!(losses.total.into_data(), losses.next_token.into_data());
}

/// Rotary frequencies are the same `f32` numbers in both, and everything else is `f64`, so that only rounding of `f64`
/// remains. A single step in `f32` would show as 1e-8 or more.
#[test]
fn f64_logits_and_loss() {
    for_each_case(|case| {
        let (logits, loss) = case.run(FloatDType::F64);
        let expected = case.values("logits_f64");
        let error = relative(&logits, &expected);
        assert!(error < 1e-12, "{}: logits off by {error:e}", case.label);
        let error = (loss - case.values("loss_f64")[0]).abs();
        assert!(error < 1e-12, "{}: loss off by {error:e}", case.label);
    });
}

/// In bf16 every operation rounds to 8 bits, and another order of operations rounds differently. The bound is therefore
/// the distance of `transformers`' bf16 run from the exact result, with some room for chance. `half_mixtures.rs` tests
/// mixtures of experts.
#[test]
fn bf16_is_as_exact_as_transformers() {
    for_each_dense_case(|case| {
        let exact = case.values("logits_f64");
        let theirs = case.values("logits_bf16");
        let (ours, loss) = case.run(FloatDType::BF16);
        let (our_error, their_error) = (relative_l2(&ours, &exact), relative_l2(&theirs, &exact));
        assert!(
            our_error < 1.25 * their_error,
            "{}: off by {our_error:e}, transformers by {their_error:e}",
            case.label
        );
        let (our_worst, their_worst) = (difference(&ours, &exact), difference(&theirs, &exact));
        assert!(
            our_worst < 2.0 * their_worst,
            "{}: {our_worst} against {their_worst}",
            case.label
        );
        let error = (loss - case.values("loss_f64")[0]).abs();
        assert!(error < 0.01, "{}: loss off by {error:e}", case.label);
    });
}

/// f16 has 3 bits more than bf16. The bound is an eighth of its error, with some room.
#[test]
fn f16_logits() {
    for_each_dense_case(|case| {
        let exact = case.values("logits_f64");
        let bf16_error = relative_l2(&case.values("logits_bf16"), &exact);
        let (logits, _) = case.run(FloatDType::F16);
        let error = relative_l2(&logits, &exact);
        assert!(error < bf16_error / 5.0, "{}: off by {error:e}", case.label);
    });
}

/// Qwen2 without biases and with a window in every layer equals Mistral.
#[test]
fn windows_of_qwen2() {
    let device = Device::default();
    let dir = common::copy_of("mistral_sw8");
    common::edit_config(dir.path(), |config| {
        config.insert("architectures".into(), json!(["Qwen2ForCausalLM"]));
        config.insert("model_type".into(), json!("qwen2"));
        config.insert("use_sliding_window".into(), json!(true));
        config.insert("max_window_layers".into(), json!(0));
    });
    common::edit_tensors(dir.path(), |file| {
        for name in file.keys().cloned().collect::<Vec<_>>() {
            if ["q_proj", "k_proj", "v_proj"]
                .iter()
                .any(|part| name.contains(part))
            {
                let width = file[&name].shape[0];
                let bias = common::Stored::f32(&[width], &vec![0.0; width]);
                file.insert(name.replace("weight", "bias"), bias);
            }
        }
    });
    let golden = read(&model_dir("mistral_sw8").join("golden.safetensors"));
    let expected = golden["logits"].values();
    let (_, model) = load(dir.path(), &device, FloatDType::F32).unwrap();
    let logits = model.forward(ints(&golden["input_ids"], &device), None);
    let error = relative(&to_f64(&logits.into_data()), &expected);
    assert!(error < 2e-5, "logits off by {error:e}");
}

/// Checks that the tolerances above detect an error: one percent more in every other element of any one parameter.
/// Scaling all elements would change nothing where Qwen3 normalises the output of its projections.
#[test]
fn a_slightly_wrong_parameter_is_noticed() {
    for model in MODELS {
        let golden = read(&model_dir(model).join("golden.safetensors"));
        let expected = golden["logits"].values();
        let device = Device::default();
        let input_ids = ints(&golden["input_ids"], &device);
        let parameters = read(&model_dir(model).join("model.safetensors")).into_keys();
        // The projections of a talker take states of the thinker, not tokens.
        for parameter in parameters.filter(|name| !name.contains("_projection.linear_fc")) {
            // This one only decides which experts a token goes to.
            let only_chooses = parameter.ends_with("e_score_correction_bias");
            let factor = if only_chooses { -40.0 } else { 1.01 };
            let spoilt = common::copy_of(model);
            common::edit_tensors(spoilt.path(), |file| {
                let tensor = file.get_mut(&parameter).unwrap();
                let values: Vec<f32> = tensor
                    .values()
                    .iter()
                    .zip([factor, 1.0].into_iter().cycle())
                    .map(|(x, f)| (x * f) as f32)
                    .collect();
                *tensor = common::Stored::f32(&tensor.shape.clone(), &values);
            });
            let (_, spoilt) = load(spoilt.path(), &device, FloatDType::F32).unwrap();
            let logits = to_f64(&spoilt.forward(input_ids.clone(), None).into_data());
            let error = relative(&logits, &expected);
            assert!(
                error > 2e-5,
                "{model}: a wrong {parameter} changes logits by {error:e} only"
            );
        }
    }
}
