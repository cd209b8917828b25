//! The adapters of every family under the names of PEFT and `transformers`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_models::{AdapterConfig, CausalLm, ModelConfig, load, save_adapters};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

use super::common::{self, model_dir};
use super::{config, model};

/// The ends of names that are not modules to PEFT, for the classes of mixtures. Their routers are not linear layers, or return
/// several tensors. In some it takes the names of MLPs for those of experts, and renames them.
const NO_MODULES: [(&str, &[&str]); 14] = [
    ("MixtralFor", &["gate"]),
    ("Qwen3VLMoeFor", &["gate"]),
    ("GptOssFor", &["router"]),
    ("Llama4For", &["router"]),
    ("Qwen2MoeFor", RENAMED),
    ("Qwen3MoeFor", RENAMED),
    ("DeepseekV2For", RENAMED),
    ("DeepseekV3For", RENAMED),
    ("Glm4MoeFor", RENAMED),
    ("Glm4vMoeFor", RENAMED),
    ("Qwen3OmniMoeThinkerFor", RENAMED),
    ("Qwen3OmniMoeTalkerFor", &["gate"]),
    ("Qwen3NextFor", RENAMED),
    ("Qwen3_5MoeFor", &["gate"]),
];
const RENAMED: &[&str] = &["gate", "gate_proj", "up_proj", "down_proj"];

const VL_ROUTER: &str = "model.language_model.layers.1.mlp.gate.weight";

/// Returns the lists of `adapter_config.json`, and the names of the adapted layers in the file of tensors.
fn saved_names(model: &CausalLm, config: &AdapterConfig, dir: &Path) -> [Vec<String>; 3] {
    save_adapters(model, config, "some/base", dir).unwrap();
    let text = fs::read_to_string(dir.join("adapter_config.json")).unwrap();
    let fields: serde_json::Value = serde_json::from_str(&text).unwrap();
    let list = |name: &str| -> Vec<String> {
        let names = fields.get(name).and_then(|names| names.as_array());
        let names = names.into_iter().flatten();
        names.map(|name| name.as_str().unwrap().into()).collect()
    };
    let bytes = fs::read(dir.join("adapter_model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let names = tensors.names().into_iter();
    let mut layers: Vec<String> = names
        .map(|name| {
            let name = name.strip_prefix("base_model.model.").unwrap();
            let end = [".lora_A.weight", ".lora_B.weight"];
            let layer = end.iter().find_map(|end| name.strip_suffix(end));
            layer.unwrap().to_owned()
        })
        .collect();
    layers.sort();
    layers.dedup();
    [list("target_modules"), list("target_parameters"), layers]
}

/// Moves all factors away from zero.
fn shifted(model: CausalLm) -> CausalLm {
    struct Shift;
    impl ModuleMapper for Shift {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            match param.base().is_require_grad() {
                true => {
                    param.map(|factor| Tensor::from_inner(factor.inner() + 0.05).require_grad())
                }
                false => param,
            }
        }
    }
    model.map(&mut Shift)
}

/// Writes the logits of a few tokens to a file, for a comparison with those of PEFT.
fn save_logits(model: &CausalLm, file: &Path) {
    let ids = Tensor::<1, Int>::arange(3..15, &model.devices()[0]);
    let logits = model.forward(ids.reshape([1, 12]), None);
    let (shape, data) = (logits.dims().to_vec(), logits.into_data());
    let view = TensorView::new(Dtype::F32, shape, data.as_bytes()).unwrap();
    fs::write(
        file,
        safetensors::serialize([("logits", view)], None).unwrap(),
    )
    .unwrap();
}

/// The default adapters of every family are what PEFT can load: it finds the adapted layers by its own rule, and no other
/// module. `tests/fixtures/peft/families.py DIR` loads those that are saved here, and compares logits.
#[test]
fn default_adapters_of_every_family_are_modules_to_peft() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("default_adapters");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    for name in common::MODELS {
        let device = Device::flex().autodiff();
        let (config_of, plain) = load(&model_dir(name), &device, FloatDType::F32).unwrap();
        let parameters = plain.named_parameters();
        let adapted = plain.with_adapters(&config(&[]), 1).unwrap();
        let adapted = shifted(adapted).valid();
        let dir = folder.join(name);
        save_logits(&adapted, &folder.join(format!("{name}.safetensors")));
        let [modules, others, layers] = saved_names(&adapted, &config(&[]), &dir);
        assert_eq!(others, [""; 0], "{name}");
        // PEFT compares with every module, layers and blocks among them. Experts are not modules there.
        let parts = parameters.keys().filter(|name| !name.contains(".experts."));
        let places =
            parts.flat_map(|name| name.match_indices('.').map(|(at, _)| name[..at].to_owned()));
        // Some checkpoints of several modalities leave out a part that the modules have.
        let inside = "model.language_model.";
        let in_memory = |place: String| match layers[0].starts_with(inside) {
            true => place
                .replace(inside, "model.")
                .replacen("model.", inside, 1),
            false => place,
        };
        let places: BTreeSet<String> = places.map(in_memory).collect();
        let is_target = |place: &&String| {
            let mut targets = modules.iter();
            targets.any(|target| place == &target || place.ends_with(&format!(".{target}")))
        };
        let found: Vec<String> = places.iter().filter(is_target).cloned().collect();
        assert_eq!(found, layers, "{name}: {modules:?}");
        let class = config_of.architecture.to_string();
        let mut rows = NO_MODULES.iter();
        let row = rows.find(|(start, _)| class.starts_with(start));
        assert_eq!(row.is_some(), common::SPARSE.contains(&name), "{class}");
        let ends = row.map_or(&[][..], |(_, ends)| ends);
        let last = |module: &String| module.rsplit('.').next().map(str::to_owned).unwrap();
        let mut found = modules.iter().map(last);
        assert!(
            found.all(|last| !ends.contains(&last.as_str())),
            "{name}: {modules:?}"
        );
        assert!(
            modules.iter().any(|module| module.ends_with("o_proj")),
            "{name}"
        );
    }
}

/// Layers that are not modules to PEFT are parameters to it, if they are named, and have no dropout there.
#[test]
fn routers_and_mlps_of_mixtures_are_parameters_to_peft() {
    let folder = TempDir::new().unwrap();
    for (name, targets, expected) in [
        ("mixtral", &["q_proj", "gate"][..], &["gate.weight"][..]),
        ("gpt_oss_sw8", &["router"], &["router.weight"]),
        ("qwen3_vl_moe", &["*.1.mlp.gate"], &[VL_ROUTER]),
        ("llama4_chunk8", &["router"], &["router.weight"]),
        (
            "qwen3_moe_mixed",
            &["*.mlp.down_proj"],
            &["down_proj.weight"],
        ),
        (
            "glm4_moe_norms",
            &["up_proj", "experts.down_proj"],
            &["experts.down_proj", "up_proj.weight"],
        ),
    ] {
        let file = model_dir(name).join("config.json");
        let own = ModelConfig::from_file(&file).unwrap();
        let adapted = own
            .init(&Device::flex())
            .with_adapters(&config(targets), 1)
            .unwrap();
        let dir = folder.path().join(name);
        let [modules, parameters, layers] = saved_names(&adapted, &config(targets), &dir);
        let linear = targets.iter().filter(|target| **target == "q_proj");
        assert!(modules.iter().eq(linear), "{name}: {modules:?}");
        assert_eq!(parameters, expected, "{name}");
        let (_, again) = own.init(&Device::flex()).load_adapters(&dir).unwrap();
        assert_eq!(
            again.adapted_layers(),
            adapted.adapted_layers(),
            "{name}: {layers:?}"
        );
        let mut config = config(&targets[..1]);
        assert_eq!(config.refused_by_peft(&own).unwrap(), None);
        config.dropout = 0.1;
        let refused = config.refused_by_peft(&own).unwrap();
        assert_eq!(
            refused.is_none(),
            targets[0] == "q_proj",
            "{name}: {refused:?}"
        );
    }
}

/// Adapters of a text model inside another are read under its own names too, as earlier programs wrote them.
#[test]
fn adapters_of_a_text_model_inside_another_have_two_names() {
    let folder = TempDir::new().unwrap();
    let file = model_dir("qwen3_vl").join("config.json");
    let own = ModelConfig::from_file(&file).unwrap();
    let adapted = own
        .init(&Device::flex())
        .with_adapters(&config(&["q_proj"]), 1);
    let adapted = adapted.unwrap();
    let [modules, _, layers] = saved_names(&adapted, &config(&[]), &folder.path().join("new"));
    assert_eq!(modules, layers, "other parts have layers with such ends");
    let file = folder.path().join("new/adapter_model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let former = |name: &str| name.replace("model.language_model.", "model.");
    let former = tensors.iter().map(|(name, tensor)| (former(name), tensor));
    fs::write(&file, safetensors::serialize(former, None).unwrap()).unwrap();
    let again = own
        .init(&Device::flex())
        .load_adapters(&folder.path().join("new"));
    assert_eq!(again.unwrap().1.adapted_layers(), layers);
}

#[test]
fn ranks_beyond_all_layers_are_refused() {
    let (own, plain) = model(&Device::flex());
    for (rank, words) in [
        (1_000_000_000, "from 1 to"),
        (65, "the widest adapted layer has 64"),
    ] {
        let config = AdapterConfig {
            rank,
            ..config(&[])
        };
        let said = config.check_for(&own).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
        let said = plain
            .clone()
            .with_adapters(&config, 1)
            .unwrap_err()
            .to_string();
        assert!(said.contains(words), "{said}");
    }
}
