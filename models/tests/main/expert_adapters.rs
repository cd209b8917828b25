//! Low-rank adapters of experts: against PEFT's results, merged, saved and read again, and what is refused.

use crate::comparison::relative;

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{self, fixtures, model_dir, read};
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{Policy, scope};
use burn_kernels::report;
use kernels_models::{AdapterConfig, CausalLm, ModelConfig, load, save, save_adapters};
use tempfile::TempDir;

/// Models with adapters of PEFT, and the number of adapters.
const CASES: [(&str, usize); 4] = [
    ("qwen2_moe_step2", 4 + 2 * 2),
    ("mixtral", 1),
    ("gpt_oss_sw8", 2),
    ("llama4_chunk8", 2),
];

fn peft(name: &str) -> PathBuf {
    fixtures().join("peft").join(name)
}

fn model(name: &str, device: &Device) -> (ModelConfig, CausalLm) {
    load(&model_dir(name), device, FloatDType::F32).unwrap()
}

fn config(targets: &[&str]) -> AdapterConfig {
    AdapterConfig {
        rank: 3,
        alpha: 6.0,
        dropout: 0.0,
        rank_stabilised: false,
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        patterns: Default::default(),
    }
}

fn ids(golden: &common::File, device: &Device) -> Tensor<2, Int> {
    let ids = &golden["input_ids"];
    let values: Vec<i64> = ids.values().into_iter().map(|id| id as i64).collect();
    Tensor::from_data(TensorData::new(values, ids.shape.clone()), device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn logits(model: &CausalLm, golden: &common::File) -> Vec<f64> {
    let device = model.devices()[0].clone();
    values(model.forward(ids(golden, &device), None).without_autodiff())
}

/// Returns the model with each trained parameter replaced by its gradient, which is then saved under PEFT's name.
fn gradients(model: &CausalLm, golden: &common::File) -> (f64, CausalLm) {
    struct Replace(GradientsParams);
    impl ModuleMapper for Replace {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            match self.0.remove::<D>(param.id) {
                Some(gradient) => Param::initialized(param.id, gradient),
                None => param,
            }
        }
    }
    let device = model.devices()[0].clone();
    let losses = model.training_losses(ids(golden, &device), None);
    let loss = losses.total.clone().without_autodiff().into_scalar::<f64>();
    let gradients = GradientsParams::from_grads(losses.total.backward(), model);
    (loss, model.clone().map(&mut Replace(gradients)))
}

/// Returns the tensors of adapters that are saved in a folder.
fn saved(model: &CausalLm, config: &AdapterConfig, dir: &Path) -> common::File {
    save_adapters(model, config, "some/base", dir).unwrap();
    read(&dir.join("adapter_model.safetensors"))
}

/// PEFT's adapters give PEFT's logits, loss and gradients, with kernels and without.
#[test]
fn adapters_of_peft_give_its_numbers() {
    let folder = TempDir::new().unwrap();
    for (name, count) in CASES {
        let golden = read(&peft(name).join("golden.safetensors"));
        let expected = golden["logits"].values();
        let (_, plain) = model(name, &Device::flex().autodiff());
        let far = relative(&logits(&plain, &golden), &expected);
        assert!(far > 0.02, "{name}: the adapters have an effect: {far}");
        let (config, adapted) = plain.load_adapters(&peft(name)).unwrap();
        assert_eq!(adapted.adapted_layers().len(), count, "{name}");
        assert_eq!(config.targets, adapted.adapted_layers());
        for (path, policy) in [("auto", Policy::auto()), ("off", Policy::reference())] {
            let _policy = scope(policy);
            // PEFT computes in f32, in another order.
            let found = relative(&logits(&adapted, &golden), &expected);
            assert!(found < 1e-5, "{name}, {path}: {found}");
            let (loss, gradients) = gradients(&adapted, &golden);
            let expected_loss = golden["loss"].values()[0];
            assert!((loss - expected_loss).abs() < 1e-5 * expected_loss);
            let gradients = saved(&gradients, &config, &folder.path().join(name).join(path));
            assert_eq!(gradients.len(), 2 * count);
            for (tensor, found) in gradients {
                let expected = &golden[&format!("grad.{tensor}")];
                assert_eq!(found.shape, expected.shape, "{name}: {tensor}");
                let far = relative(&found.values(), &expected.values());
                assert!(far < 1e-4, "{name}, {path}, {tensor}: {far}");
            }
        }
    }
}

/// Saved adapters have PEFT's names, shapes and values, and are read again. `generate_experts.py DIR` reads it with PEFT.
#[test]
fn adapters_are_saved_as_peft_saves_them() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("expert_adapters");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    for (name, _) in CASES {
        let device = Device::flex();
        let (_, plain) = model(name, &device);
        let (config, adapted) = plain.clone().load_adapters(&peft(name)).unwrap();
        let dir = folder.join(name);
        let ours = saved(&adapted, &config, &dir);
        let theirs = read(&peft(name).join("adapter_model.safetensors"));
        assert!(ours == theirs, "{name}");
        let fields = |dir: &Path| -> serde_json::Value {
            let text = fs::read_to_string(dir.join("adapter_config.json")).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let (ours, theirs) = (fields(&dir), fields(&peft(name)));
        let alpha = |fields: &serde_json::Value| fields["lora_alpha"].as_f64().unwrap();
        assert_eq!(alpha(&ours), alpha(&theirs), "{name}");
        for field in ["r", "use_rslora", "target_modules"] {
            assert_eq!(ours[field], theirs[field], "{name}: {field}");
        }
        let sorted = |names: &serde_json::Value| {
            let names = names.as_array().unwrap().iter();
            let mut names: Vec<String> = names.map(|one| one.as_str().unwrap().into()).collect();
            names.sort();
            names
        };
        let field = "target_parameters";
        assert_eq!(sorted(&ours[field]), sorted(&theirs[field]), "{name}");
        let (_, again) = plain.load_adapters(&dir).unwrap();
        let golden = read(&peft(name).join("golden.safetensors"));
        assert_eq!(logits(&again, &golden), logits(&adapted, &golden));
    }
}

#[test]
fn adapters_of_experts_are_merged() {
    let folder = TempDir::new().unwrap();
    for (name, _) in CASES {
        let (own, plain) = model(name, &Device::flex());
        let (_, adapted) = plain.load_adapters(&peft(name)).unwrap();
        let dir = folder.path().join(name);
        save(&adapted, &own, &dir, None).unwrap();
        let (_, merged) = load(&dir, &Device::flex(), FloatDType::F32).unwrap();
        let golden = read(&peft(name).join("golden.safetensors"));
        let added = model(name, &Device::flex()).1.merge_adapters(&peft(name));
        for merged in [merged, added.unwrap()] {
            let far = relative(&logits(&merged, &golden), &logits(&adapted, &golden));
            assert!(far < 1e-5, "{name}: {far}");
        }
    }
}

/// Patterns name the experts, new adapters change nothing, and only they are trained. The default has none of experts.
#[test]
fn new_adapters_of_experts_change_nothing_and_learn() {
    let device = Device::flex().autodiff();
    let (_, plain) = model("qwen2_moe_step2", &device);
    let golden = read(&peft("qwen2_moe_step2").join("golden.safetensors"));
    let before = logits(&plain, &golden);
    for (targets, count) in [
        (&["*.experts.gate_up_proj"][..], 2),
        (&["experts.down_proj", "q_proj"], 2 + 4),
        (&["*.layers.1.mlp.experts.*"], 2),
    ] {
        let adapted = plain.clone().with_adapters(&config(targets), 7).unwrap();
        assert_eq!(adapted.adapted_layers().len(), count, "{targets:?}");
        // Other kernels compute the same.
        assert!(relative(&logits(&adapted, &golden), &before) < 1e-6);
        let after = trained(adapted, &golden);
        assert!(relative(&logits(&after, &golden), &before) > 0.01);
        let weights = |model: &CausalLm| model.named_parameters();
        assert_eq!(weights(&after), weights(&plain), "the base is frozen");
    }
    let default = plain.with_adapters(&config(&[]), 7).unwrap();
    let names = default.adapted_layers();
    assert!(
        !names.iter().any(|name| name.contains(".experts.")),
        "{names:?}"
    );
}

/// Trains a few steps.
fn trained(model: CausalLm, golden: &common::File) -> CausalLm {
    use burn::optim::AdamWConfig;
    use burn_kernels::optim::InitFused;
    let mut optimiser = AdamWConfig::new().init_fused();
    let mut model = model;
    for _ in 0..3 {
        let device = model.devices()[0].clone();
        let losses = model.training_losses(ids(golden, &device), None);
        let gradients = GradientsParams::from_grads(losses.total.backward(), &model);
        model = optimiser.step(0.05, model, gradients);
    }
    model
}

/// In half precision, factors and their gradients stay in f32, and the numbers are near. The first call is compared with
/// its reference.
#[test]
fn experts_in_half_precision_have_adapters_in_f32() {
    let folder = TempDir::new().unwrap();
    let name = "qwen2_moe_step2";
    let golden = read(&peft(name).join("golden.safetensors"));
    let device = Device::flex().autodiff();
    let (_, half) = load(&model_dir(name), &device, FloatDType::BF16).unwrap();
    let (config, adapted) = half.load_adapters(&peft(name)).unwrap();
    let (found, expected) = (logits(&adapted, &golden), golden["logits"].values());
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / expected.len() as f64;
    let far = mean(&mut found.iter().zip(&expected).map(|(a, b)| (a - b).abs()));
    let usual = mean(&mut expected.iter().map(|x| x.abs()));
    // A token whose scores are nearly equal may go to another expert.
    assert!(far < 0.1 * usual, "{far} of {usual}");
    let (_, gradients) = gradients(&adapted, &golden);
    for (tensor, gradient) in saved(&gradients, &config, &folder.path().join("gradients")) {
        let values = gradient.values();
        assert!(values.iter().all(|x| x.is_finite()), "{tensor}");
        // Not all of them have the few digits of bf16.
        let is_half = |x: &f64| (*x as f32).to_bits() & 0xffff == 0;
        assert!(!values.iter().all(is_half), "{tensor}");
    }
}

/// The report tells that grouped kernels ran, and why.
#[test]
fn the_report_tells_the_path() {
    let golden = read(&peft("mixtral").join("golden.safetensors"));
    let (_, plain) = model("mixtral", &Device::flex());
    let (_, adapted) = plain.load_adapters(&peft("mixtral")).unwrap();
    logits(&adapted, &golden);
    let rows = report::report().rows.into_iter();
    let rows = rows.filter(|row| row.site.contains("MixtralExperts"));
    let paths: Vec<String> = rows.filter_map(|row| Some(row.call?.path())).collect();
    let expected = "grouped kernels: experts have adapters";
    assert!(paths.iter().any(|path| path == expected), "{paths:?}");
}

#[test]
fn what_experts_cannot_have_is_refused() {
    let (own, plain) = model("qwen2_moe_step2", &Device::flex());
    let said = |config: &AdapterConfig| {
        let early = config.check_for(&own).unwrap_err().to_string();
        let late = plain.clone().with_adapters(config, 1).unwrap_err();
        assert_eq!(early, late.to_string());
        early
    };
    let wrong = AdapterConfig {
        dropout: 0.1,
        ..config(&["experts.gate_up_proj"])
    };
    let dropout = said(&wrong);
    for words in [
        "the dropout is 0.1",
        "experts.gate_up_proj",
        "leave the dropout out",
    ] {
        assert!(dropout.contains(words), "{dropout}");
    }
    let linear = AdapterConfig {
        targets: vec!["q_proj".into()],
        ..wrong
    };
    linear.check_for(&own).unwrap();
    let none = said(&config(&["experts.up_proj"]));
    assert!(
        none.contains("`experts.up_proj` matches no linear layer"),
        "{none}"
    );
    assert!(
        none.contains("experts.down_proj, experts.gate_up_proj"),
        "{none}"
    );

    let folder = TempDir::new().unwrap();
    let refused = |field: &str, value: serde_json::Value| {
        let from = peft("qwen2_moe_step2");
        for file in ["adapter_model.safetensors", "adapter_config.json"] {
            fs::copy(from.join(file), folder.path().join(file)).unwrap();
        }
        let file = folder.path().join("adapter_config.json");
        let text = fs::read_to_string(&file).unwrap();
        let mut fields: serde_json::Value = serde_json::from_str(&text).unwrap();
        fields[field] = value;
        fs::write(&file, fields.to_string()).unwrap();
        let error = plain.clone().load_adapters(folder.path()).unwrap_err();
        error.to_string()
    };
    let list = |names: &[&str]| serde_json::json!(names);
    for (field, value, words) in [
        ("lora_dropout", 0.1.into(), "the dropout is 0.1"),
        (
            "target_parameters",
            "experts".into(),
            "expected a list of names",
        ),
        (
            "target_parameters",
            list(&[]),
            "`target_parameters` names no experts",
        ),
        (
            "target_parameters",
            list(&["experts.gate_up_proj"]),
            "this base model needs",
        ),
        ("r", 3.into(), "this base model needs"),
    ] {
        let said = refused(field, value);
        assert!(said.contains(words), "{field}: {said}");
    }
}
