//! Low-rank adapters: against PEFT's results, merged, saved and read again, and what is refused.

use crate::comparison::relative;
mod families;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{self, fixtures, to_f64};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Int, Tensor, bf16};
use burn_kernels::policy::{Policy, scope};
use kernels_models::{
    AdapterConfig, CausalLm, ModelConfig, load, load_merged, save, save_adapters,
};
use safetensors::SafeTensors;
use tempfile::TempDir;

fn base() -> PathBuf {
    fixtures().join("text/tiny")
}

fn peft() -> PathBuf {
    fixtures().join("peft")
}

fn model(device: &Device) -> (ModelConfig, CausalLm) {
    load(&base(), device, FloatDType::F32).unwrap()
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

fn ids(device: &Device) -> Tensor<2, Int> {
    Tensor::from_data([[5, 17, 300, 2, 44, 81, 9, 120]], device)
}

fn logits(model: &CausalLm) -> Tensor<3> {
    let device = model.devices()[0].clone();
    model.forward(ids(&device), None).without_autodiff()
}

fn distance<const D: usize>(one: Tensor<D>, other: Tensor<D>) -> f64 {
    let [one, other] = [one, other].map(|tensor| to_f64(&tensor.into_data()));
    relative(&one, &other)
}

/// Trains a few steps, so that no factor is zero.
fn trained(model: CausalLm, steps: usize) -> CausalLm {
    use burn::optim::AdamWConfig;
    use burn_kernels::optim::InitFused;
    let mut optimiser = AdamWConfig::new().init_fused();
    let mut model = model;
    for _ in 0..steps {
        let device = model.devices()[0].clone();
        let losses = model.training_losses(ids(&device), None);
        let gradients = GradientsParams::from_grads(losses.total.backward(), &model);
        model = optimiser.step(0.05, model, gradients);
    }
    model
}

/// PEFT's adapters give PEFT's logits, with kernels and without.
#[test]
fn adapters_of_peft_give_its_logits() {
    let device = Device::flex();
    let golden = fs::read(peft().join("golden.safetensors")).unwrap();
    let golden = SafeTensors::deserialize(&golden).unwrap();
    let words = |name: &str| golden.tensor(name).unwrap().data().to_vec();
    let input: Vec<i64> = words("input_ids")
        .as_chunks()
        .0
        .iter()
        .copied()
        .map(i64::from_le_bytes)
        .collect();
    let expected: Vec<f32> = words("logits")
        .as_chunks()
        .0
        .iter()
        .copied()
        .map(f32::from_le_bytes)
        .collect();
    let length = input.len();
    let input = Tensor::<1, Int>::from_data(input.as_slice(), &device).reshape([1, length]);
    let expected = Tensor::<1>::from_data(expected.as_slice(), &device).reshape([1, length, 320]);

    let (_, plain) = model(&device);
    let far = distance(plain.forward(input.clone(), None), expected.clone());
    assert!(far > 0.05, "the adapters have an effect: {far}");
    let (_, plain) = model(&device);
    let (config, adapted) = plain.load_adapters(&peft()).unwrap();
    assert_eq!((config.rank, config.alpha, config.dropout), (2, 5.0, 0.1));
    assert!(config.rank_stabilised);
    assert_eq!(adapted.adapted_layers().len(), 6);
    for policy in [Policy::auto(), Policy::reference()] {
        let _policy = scope(policy);
        let found = distance(adapted.forward(input.clone(), None), expected.clone());
        // Both compute in f32, in different orders.
        assert!(found < 1e-5, "{found}");
    }
}

/// Copies PEFT's adapters to `dir`, with a rank of 3 in one layer, whose third part is zero, and with this configuration.
fn with_another_rank(
    dir: &Path,
    change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>),
) {
    fs::create_dir_all(dir).unwrap();
    let file = "adapter_model.safetensors";
    let mut tensors = common::read(&peft().join(file));
    let name = |end: &str| format!("base_model.model.model.layers.0.self_attn.q_proj.{end}.weight");
    let a = &tensors[&name("lora_A")].values();
    let width = a.len() / 2;
    let grown: Vec<f32> = a
        .iter()
        .map(|x| *x as f32)
        .chain(vec![0.0; width])
        .collect();
    tensors.insert(name("lora_A"), common::Stored::f32(&[3, width], &grown));
    let b = tensors[&name("lora_B")].values();
    let grown: Vec<f32> = b
        .chunks(2)
        .flat_map(|row| [row[0] as f32, row[1] as f32, 9.0])
        .collect();
    tensors.insert(
        name("lora_B"),
        common::Stored::f32(&[b.len() / 2, 3], &grown),
    );
    common::write(&dir.join(file), &tensors);
    let text = fs::read_to_string(peft().join("adapter_config.json")).unwrap();
    let mut fields = serde_json::from_str(&text).unwrap();
    change(&mut fields);
    let text = serde_json::Value::from(fields).to_string();
    fs::write(dir.join("adapter_config.json"), text).unwrap();
}

/// Patterns name layers as in PEFT: by the end of their name, from a dot on, and the first one counts.
#[test]
fn ranks_and_factors_of_single_layers_are_read_and_written() {
    let device = Device::flex();
    let folder = TempDir::new().unwrap();
    let (_, plain) = model(&device);
    let (_, expected) = plain.clone().load_adapters(&peft()).unwrap();
    let expected = logits(&expected);
    // The factor of the layer of rank 3 is that of the others: 5 / sqrt(2).
    let own = 5.0 * 1.5_f64.sqrt();
    // In this order, which a sorted object would not have.
    let alphas = format!(
        r#"{{"proj": 1.0, "z|layers.0.self_attn.q_proj": {own:?}, "q_proj": 5, ".*": 7.0}}"#
    );
    let dir = folder.path().join("peft");
    with_another_rank(&dir, |fields| {
        fields.insert(
            "rank_pattern".into(),
            serde_json::json!({"model.layers.0.*.q_proj": 3}),
        );
        fields.insert("alpha_pattern".into(), serde_json::json!("ALPHAS"));
        fields.insert("lora_dropout".into(), serde_json::json!(0.0));
    });
    let file = dir.join("adapter_config.json");
    let text = fs::read_to_string(&file).unwrap();
    let others = r#", "v_proj": 5, "down_proj": 5, ".*": 7.0}"#;
    let alphas = alphas.replace(r#", ".*": 7.0}"#, others);
    fs::write(&file, text.replace("\"ALPHAS\"", &alphas)).unwrap();
    let (config, adapted) = plain.clone().load_adapters(&dir).unwrap();
    assert!(distance(logits(&adapted), expected.clone()) < 1e-6);
    let merged = plain.clone().merge_adapters(&dir).unwrap();
    assert!(merged.adapted_layers().is_empty());
    assert!(distance(logits(&merged), expected.clone()) < 1e-5);

    let again = folder.path().join("again");
    save_adapters(&adapted, &config, "some/base", &again).unwrap();
    let text = fs::read_to_string(again.join("adapter_config.json")).unwrap();
    let fields: serde_json::Value = serde_json::from_str(&text).unwrap();
    let layer = "model.layers.0.self_attn.q_proj";
    assert_eq!(fields["rank_pattern"], serde_json::json!({layer: 3}));
    assert_eq!(fields["alpha_pattern"], serde_json::json!({layer: own}));
    let (_, again) = plain.load_adapters(&again).unwrap();
    assert_eq!(distance(logits(&again), logits(&adapted)), 0.0);

    for (field, value, words) in [
        (
            "rank_pattern",
            serde_json::json!({"q_proj": 0}),
            "the rank is 0",
        ),
        (
            "rank_pattern",
            serde_json::json!({"q_(proj": 3}),
            "unsupported regular expression `q_(proj`",
        ),
        (
            "rank_pattern",
            serde_json::json!({"q_proj": "3"}),
            "adapter_config.json",
        ),
        (
            "rank_pattern",
            serde_json::json!({"q_proj": u64::MAX}),
            "from 1 to",
        ),
        (
            "alpha_pattern",
            serde_json::json!({"q_proj": -1}),
            "alpha is -1",
        ),
        (
            "alpha_pattern",
            serde_json::json!([1]),
            "an object with names of layers",
        ),
    ] {
        with_another_rank(&dir, |fields| drop(fields.insert(field.into(), value)));
        let said = model(&device)
            .1
            .load_adapters(&dir)
            .unwrap_err()
            .to_string();
        assert!(said.contains(words), "{said}");
    }
}

/// Weights keep the dtypes that they have in the files, whatever they are, and sums are rounded once.
#[test]
fn a_merged_model_has_the_dtypes_of_its_base() {
    let device = Device::flex();
    let folder = TempDir::new().unwrap();
    let (own, plain) = model(&device);
    let mixed = folder.path().join("mixed");
    save(&plain, &own, &mixed, None).unwrap();
    let layer = "model.layers.0.self_attn.q_proj.weight";
    common::edit_tensors(&mixed, |file| {
        for name in [layer, "model.embed_tokens.weight"] {
            let stored = file.get_mut(name).unwrap();
            let rounded = |x: &f64| bf16::from_f64(*x).to_le_bytes();
            stored.bytes = stored.values().iter().flat_map(rounded).collect();
            stored.dtype = safetensors::Dtype::BF16;
        }
    });
    let (config, merged) = load_merged(&mixed, &peft(), &device, &mut |_| {}).unwrap();
    let out = folder.path().join("merged");
    save(&merged, &config, &out, None).unwrap();
    let [before, after] = [&mixed, &out].map(|dir| common::read(&dir.join("model.safetensors")));
    for (name, stored) in &after {
        assert_eq!(stored.dtype, before[name].dtype, "{name}");
    }
    let (_, wide) = load(&mixed, &device, FloatDType::F32).unwrap();
    let wide = wide.merge_adapters(&peft()).unwrap().named_parameters();
    let sums = wide[layer]
        .iter::<f64>()
        .map(|x| bf16::from_f64(x).to_f64());
    assert_eq!(after[layer].values(), sums.collect::<Vec<f64>>());
}

#[test]
fn new_adapters_change_nothing_and_only_they_are_trained() {
    let device = Device::flex().autodiff();
    let (_, plain) = model(&device);
    let before = logits(&plain);
    let adapted = plain.clone().with_adapters(&config(&[]), 7).unwrap();
    assert_eq!(adapted.adapted_layers().len(), 2 * 7);
    assert_eq!(distance(logits(&adapted), before.clone()), 0.0);
    let again = plain.clone().with_adapters(&config(&[]), 7).unwrap();
    let other = plain.clone().with_adapters(&config(&[]), 8).unwrap();
    let after = trained(adapted, 3);
    assert!(distance(logits(&after), before.clone()) > 0.01);
    assert_eq!(
        distance(logits(&after), logits(&trained(again, 3))),
        0.0,
        "a seed decides"
    );
    assert!(distance(logits(&after), logits(&trained(other, 3))) > 0.0);
    let weights = |model: &CausalLm| model.named_parameters();
    assert_eq!(weights(&after), weights(&plain), "the base is frozen");
}

/// The adapters' gradients are those of the composed weights, and the paths stay fused.
#[test]
fn gradients_are_those_of_composed_weights() {
    let device = Device::flex().autodiff();
    let (_, plain) = model(&device);
    let adapted = trained(plain.with_adapters(&config(&[]), 7).unwrap(), 2);
    let gradients = |policy: Policy| {
        let _policy = scope(policy);
        let losses = adapted.training_losses(ids(&device), None);
        let loss = losses.total.clone().without_autodiff().into_scalar::<f64>();
        (
            loss,
            GradientsParams::from_grads(losses.total.backward(), &adapted),
        )
    };
    let (fused_loss, fused) = gradients(Policy::auto());
    let (plain_loss, plain) = gradients(Policy::reference());
    assert!((fused_loss - plain_loss).abs() < 1e-5 * plain_loss);
    // Burn's own composition of each weight, by merging.
    let merged = adapted.clone().materialize();
    assert!(distance(logits(&adapted), logits(&merged)) < 1e-5);
    let mut compared = 0;
    visit_factors(&adapted, |id| {
        let [one, other] = [&fused, &plain].map(|all| all.get::<2>(id).expect("a gradient"));
        assert!(distance(one, other) < 1e-4);
        compared += 1;
    });
    assert_eq!(compared, 2 * 2 * 7);
    assert_eq!(fused.len(), compared, "nothing else has a gradient");
}

fn visit_factors(model: &CausalLm, visit: impl FnMut(burn::module::ParamId)) {
    use burn::module::{ModuleVisitor, Param};
    struct Factors<F>(F);
    impl<F: FnMut(burn::module::ParamId)> ModuleVisitor for Factors<F> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if param.base().is_require_grad() {
                (self.0)(param.id);
            }
        }
    }
    model.visit(&mut Factors(visit));
}

#[test]
fn adapters_are_saved_and_merged() {
    let device = Device::flex().autodiff();
    let folder = TempDir::new().unwrap();
    let (own, plain) = model(&device);
    for (number, targets) in [&[][..], &["q_proj", "*.1.mlp.*"]].into_iter().enumerate() {
        let config = config(targets);
        let adapted = trained(plain.clone().with_adapters(&config, 7).unwrap(), 3).valid();
        let dir = folder.path().join(format!("adapter{number}"));
        save_adapters(&adapted, &config, "some/base", &dir).unwrap();
        let (read, again) = plain.clone().valid().load_adapters(&dir).unwrap();
        assert_eq!((read.rank, read.alpha), (3, 6.0));
        assert_eq!(again.adapted_layers(), adapted.adapted_layers());
        assert_eq!(distance(logits(&again), logits(&adapted)), 0.0);
        assert!(
            save_adapters(&adapted, &config, "some/base", &dir).is_err(),
            "not empty"
        );

        let merged = folder.path().join(format!("merged{number}"));
        save(&adapted, &own, &merged, None).unwrap();
        let (_, merged) = load(&merged, &Device::flex(), FloatDType::F32).unwrap();
        assert!(distance(logits(&merged), logits(&adapted)) < 1e-5);
    }
    let text = fs::read_to_string(folder.path().join("adapter0/adapter_config.json")).unwrap();
    assert!(
        text.contains("\"q_proj\"") && text.contains("some/base"),
        "{text}"
    );
    let text = fs::read_to_string(folder.path().join("adapter1/adapter_config.json")).unwrap();
    assert!(text.contains("\"model.layers.1.mlp.up_proj\""), "{text}");
    let nothing = save_adapters(&plain, &config(&[]), "b", &folder.path().join("none"));
    assert!(nothing.unwrap_err().to_string().contains("no adapter"));
}

/// Copies PEFT's adapters to a folder, and changes their configuration.
fn copy_changed(change: impl Fn(&mut BTreeMap<String, serde_json::Value>), dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let tensors = "adapter_model.safetensors";
    fs::copy(peft().join(tensors), dir.join(tensors)).unwrap();
    let text = fs::read_to_string(peft().join("adapter_config.json")).unwrap();
    let mut fields = serde_json::from_str(&text).unwrap();
    change(&mut fields);
    fs::write(
        dir.join("adapter_config.json"),
        serde_json::to_string(&fields).unwrap(),
    )
    .unwrap();
}

/// Returns the error of reading PEFT's adapters with a changed configuration.
fn refused(change: impl Fn(&mut BTreeMap<String, serde_json::Value>), dir: &Path) -> String {
    copy_changed(change, dir);
    let (_, plain) = model(&Device::flex());
    plain.load_adapters(dir).unwrap_err().to_string()
}

/// Otherwise these weights would be saved, and the model would compute only NaN.
#[test]
fn sums_that_are_not_finite_are_refused() {
    let folder = TempDir::new().unwrap();
    let merged = |alpha: f64| {
        copy_changed(
            |fields| drop(fields.insert("lora_alpha".into(), alpha.into())),
            folder.path(),
        );
        model(&Device::flex()).1.merge_adapters(folder.path())
    };
    assert!(merged(1e3).is_ok());
    let said = merged(1e300).unwrap_err().to_string();
    assert!(
        said.contains("`model.layers.0.") && said.contains("is not finite"),
        "{said}"
    );
}

#[test]
fn what_is_not_supported_or_not_of_this_model_is_refused() {
    let folder = TempDir::new().unwrap();
    let refused = |field: &str, value: serde_json::Value| {
        refused(
            |fields| drop(fields.insert(field.into(), value.clone())),
            folder.path(),
        )
    };
    for (field, value) in [
        ("peft_type", "LOHA".into()),
        ("use_dora", true.into()),
        ("bias", "all".into()),
        ("modules_to_save", serde_json::json!(["lm_head"])),
        ("r", "two".into()),
        ("lora_alpha", serde_json::Value::Null),
        ("lora_dropout", "none".into()),
        ("use_rslora", "yes".into()),
    ] {
        let said = refused(field, value);
        assert!(said.contains(&format!("field `{field}`")), "{said}");
    }
    let said = refused("r", 3.into());
    let first = "model.layers.0.mlp.down_proj.lora_A.weight`";
    assert!(said.contains(first), "the first of several: {said}");
    assert!(said.contains("of another one"), "{said}");
    let said = refused("r", 0.into());
    assert!(said.contains("the rank is 0"), "{said}");

    let (_, other) = load(
        &common::model_dir("qwen3"),
        &Device::flex(),
        FloatDType::F32,
    )
    .unwrap();
    let said = other.load_adapters(&peft()).unwrap_err().to_string();
    assert!(said.contains("of another one"), "{said}");
    let (_, plain) = model(&Device::flex());
    let said = plain
        .load_adapters(folder.path().join("none").as_path())
        .unwrap_err()
        .to_string();
    assert!(said.contains("adapter_config.json"), "{said}");

    let attach = |config: &AdapterConfig| {
        let (_, plain) = model(&Device::flex());
        plain
            .with_adapters(config, 1)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let said = attach(&config(&["q_proj", "qq_proj"]));
    assert!(said.contains("`qq_proj` matches no linear layer"), "{said}");
    assert!(said.contains("down_proj, gate_proj, k_proj"), "{said}");
    let mut wrong = config(&[]);
    wrong.dropout = 1.0;
    assert!(attach(&wrong).contains("dropout"));
    wrong = config(&[]);
    wrong.alpha = 0.0;
    assert!(attach(&wrong).contains("alpha"));
}
