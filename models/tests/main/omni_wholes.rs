//! Tests of checkpoints that hold all parts of an Omni model: each part is that of a checkpoint of its own.

use std::path::Path;

use crate::common::{
    File, Stored, copy_of, edit_config, edit_tensors, model_dir, read, to_f64, write,
};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_models::{
    CausalLm, Model, ModelConfig, OmniPart, QuantisedWeights, inspect, load, load_part, save,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

fn config_of(name: &str) -> Map<String, Value> {
    let text = std::fs::read_to_string(model_dir(name).join("config.json")).unwrap();
    let mut config: Map<String, Value> = serde_json::from_str(&text).unwrap();
    config.remove("architectures");
    // Only the whole names the type of its weights.
    config.remove("dtype");
    config
}

fn add(file: &mut File, prefix: &str, name: &str) {
    for (tensor, stored) in read(&model_dir(name).join("model.safetensors")) {
        file.insert(format!("{prefix}{tensor}"), stored);
    }
}

/// Splits stacks of experts, as published checkpoints have them one by one.
fn split_experts(file: &mut File) {
    for name in file.keys().cloned().collect::<Vec<_>>() {
        let kinds: &[&str] = match name.rsplit_once(".experts.") {
            Some((_, "gate_up_proj")) => &["gate_proj", "up_proj"],
            Some((_, "down_proj")) => &["down_proj"],
            _ => continue,
        };
        let stack = file.remove(&name).unwrap();
        let (prefix, _) = name.rsplit_once('.').unwrap();
        let [experts, rows, columns] = stack.shape[..] else {
            panic!("{name} is not a stack");
        };
        let matrices = stack
            .bytes
            .chunks(stack.bytes.len() / experts / kinds.len());
        for (at, matrix) in matrices.enumerate() {
            let (expert, kind) = (at / kinds.len(), kinds[at % kinds.len()]);
            let matrix = Stored {
                dtype: stack.dtype,
                shape: vec![rows / kinds.len(), columns],
                bytes: matrix.to_vec(),
            };
            file.insert(format!("{prefix}.{expert}.{kind}.weight"), matrix);
        }
    }
}

fn whole(config: Value, file: &File) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    write(&dir.path().join("model.safetensors"), file);
    dir
}

/// Writes a checkpoint of Qwen3-Omni as it is published, of the parts of the fixtures.
fn whole3() -> TempDir {
    let mut talker = config_of("qwen3_omni_talker");
    let predictor = config_of("qwen3_omni_code_predictor");
    talker.insert("code_predictor_config".into(), Value::Object(predictor));
    talker.insert("model_type".into(), json!(""));
    let mut file = File::new();
    add(&mut file, "thinker.", "qwen3_omni_thinker_axes");
    add(&mut file, "talker.", "qwen3_omni_talker");
    split_experts(&mut file);
    assert!(file.contains_key("talker.model.layers.0.mlp.experts.0.up_proj.weight"));
    add(
        &mut file,
        "talker.code_predictor.",
        "qwen3_omni_code_predictor",
    );
    add(
        &mut file,
        "code2wav.pre_transformer.",
        "qwen3_omni_code2wav",
    );
    let small = Stored::f32(&[1], &[0.0]);
    file.insert("code2wav.decoder.0.conv.weight".into(), small);
    let config = json!({
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "dtype": "float32",
        "enable_audio_output": true,
        "thinker_config": config_of("qwen3_omni_thinker_axes"),
        "talker_config": talker,
        "code2wav_config": config_of("qwen3_omni_code2wav"),
    });
    whole(config, &file)
}

fn whole2_5() -> TempDir {
    let mut file = File::new();
    add(&mut file, "thinker.", "qwen2_5_omni_thinker");
    add(&mut file, "talker.", "qwen2_5_omni_talker");
    let small = Stored::f32(&[1], &[0.0]);
    file.insert("token2wav.code2wav_dit_model.norm.weight".into(), small);
    let config = json!({
        "architectures": ["Qwen2_5OmniModel"],
        "model_type": "qwen2_5_omni",
        "torch_dtype": "float32",
        "thinker_config": config_of("qwen2_5_omni_thinker"),
        "talker_config": config_of("qwen2_5_omni_talker"),
        "token2wav_config": { "model_type": "qwen2_5_omni_token2wav" },
    });
    whole(config, &file)
}

fn open(dir: &Path, part: Option<OmniPart>) -> Result<(ModelConfig, Model), String> {
    let (device, decoded) = (Device::default(), QuantisedWeights::Decoded);
    let opened = load_part(dir, part, &device, FloatDType::F32, decoded, &mut |_| {});
    opened.map_err(|error| error.to_string())
}

fn logits(model: &CausalLm) -> Vec<f64> {
    let ids = Tensor::<2, Int>::from_data([[5, 6, 7, 8], [1, 2, 3, 4]], &Device::default());
    to_f64(&model.forward(ids, None).into_data())
}

#[test]
fn parts_are_read_by_their_names() {
    let (three, two) = (whole3(), whole2_5());
    for (dir, part, alone) in [
        (&three, OmniPart::Thinker, "qwen3_omni_thinker_axes"),
        (&three, OmniPart::Talker, "qwen3_omni_talker"),
        (&three, OmniPart::CodePredictor, "qwen3_omni_code_predictor"),
        (&three, OmniPart::Code2Wav, "qwen3_omni_code2wav"),
        (&two, OmniPart::Thinker, "qwen2_5_omni_thinker"),
        (&two, OmniPart::Talker, "qwen2_5_omni_talker"),
    ] {
        let (config, found) = open(dir.path(), Some(part)).unwrap();
        let (own, expected) = open(&model_dir(alone), None).unwrap();
        assert_eq!(config.architecture, own.architecture);
        assert_eq!(config.dtype, own.dtype, "{alone}");
        assert_eq!(config.sliding_window, own.sliding_window);
        assert!(
            found.named_parameters() == expected.named_parameters(),
            "{alone}"
        );
        // A part by name is itself, if it stands alone.
        let (again, _) = open(&model_dir(alone), Some(part)).unwrap();
        assert_eq!(again, own);
    }
}

#[test]
fn the_whole_is_its_thinker() {
    let device = Device::default();
    for (dir, alone) in [
        (whole3(), "qwen3_omni_thinker_axes"),
        (whole2_5(), "qwen2_5_omni_thinker"),
    ] {
        let (config, model) = load(dir.path(), &device, FloatDType::F32).unwrap();
        let (_, expected) = load(&model_dir(alone), &device, FloatDType::F32).unwrap();
        assert_eq!(logits(&model), logits(&expected), "{alone}");
        let found = inspect(dir.path(), &device).unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
        let remarks = found.remarks.join("\n");
        assert!(
            remarks.contains("of other parts, and not loaded"),
            "{remarks}"
        );
        // It is saved as a checkpoint of its own.
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("thinker");
        save(&model, &config, &target, None).unwrap();
        let (again, saved) = load(&target, &device, FloatDType::F32).unwrap();
        assert_eq!(again, config);
        assert_eq!(logits(&saved), logits(&expected), "{alone}");
    }
}

/// A talker in a folder of its own, as transformers writes it, holds its code predictor.
#[test]
fn a_code_predictor_is_found_in_a_talker() {
    let device = Device::default();
    let (_, model) = load(&model_dir("qwen3_omni_talker"), &device, FloatDType::F32).unwrap();
    let dir = copy_of("qwen3_omni_talker");
    edit_config(dir.path(), |config| {
        let predictor = config_of("qwen3_omni_code_predictor");
        config.insert("code_predictor_config".into(), Value::Object(predictor));
    });
    edit_tensors(dir.path(), |file| {
        add(file, "code_predictor.", "qwen3_omni_code_predictor");
    });
    let (_, found) = open(dir.path(), Some(OmniPart::CodePredictor)).unwrap();
    let (_, expected) = open(&model_dir("qwen3_omni_code_predictor"), None).unwrap();
    assert!(found.named_parameters() == expected.named_parameters());
    let (_, talker) = load(dir.path(), &device, FloatDType::F32).unwrap();
    assert_eq!(logits(&talker), logits(&model));
}

/// The whole vocoder in a folder of its own holds the transformer.
#[test]
fn the_transformer_is_found_in_a_vocoder() {
    let mut config = config_of("qwen3_omni_code2wav");
    config.insert("architectures".into(), json!(["Qwen3OmniMoeCode2Wav"]));
    let mut file = File::new();
    add(&mut file, "pre_transformer.", "qwen3_omni_code2wav");
    let small = Stored::f32(&[1], &[0.0]);
    file.insert("code_embedding.weight".into(), small);
    let dir = whole(Value::Object(config), &file);
    let (_, found) = open(dir.path(), None).unwrap();
    let (_, expected) = open(&model_dir("qwen3_omni_code2wav"), None).unwrap();
    assert!(found.named_parameters() == expected.named_parameters());
}

#[test]
fn wrong_parts_are_refused() {
    let refused = |dir: &Path, part, words: &[&str]| {
        let error = open(dir, part).map(drop).unwrap_err();
        for word in words {
            assert!(error.contains(word), "`{word}` is not in: {error}");
        }
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    let three = whole3();
    refused(
        whole2_5().path(),
        Some(OmniPart::Code2Wav),
        &[
            "Qwen2_5OmniForConditionalGeneration has no code2wav that is supported",
            "thinker, talker",
        ],
    );
    refused(
        &model_dir("llama"),
        Some(OmniPart::Talker),
        &[
            "LlamaForCausalLM is not a checkpoint with a talker",
            "leave out the part",
        ],
    );
    refused(
        &model_dir("qwen3_omni_thinker"),
        Some(OmniPart::Talker),
        &[
            "Qwen3OmniMoeThinkerForConditionalGeneration",
            "talker",
            "the checkpoint of the whole",
        ],
    );
    refused(
        &model_dir("qwen3_omni_talker"),
        Some(OmniPart::Thinker),
        &[
            "has no thinker that is supported",
            "code-predictor",
            "the checkpoint of the whole",
        ],
    );

    // The configuration of a part beside the tensors of the whole, and the other way around.
    let text = std::fs::read(model_dir("qwen3_omni_thinker_axes").join("config.json")).unwrap();
    let whole_config = std::fs::read(three.path().join("config.json")).unwrap();
    std::fs::write(three.path().join("config.json"), text).unwrap();
    refused(
        three.path(),
        None,
        &[
            "tensors `thinker.…` of a whole checkpoint",
            "its thinker alone",
            "config.json of the whole",
        ],
    );
    let alone = copy_of("qwen3_omni_thinker_axes");
    std::fs::write(alone.path().join("config.json"), &whole_config).unwrap();
    refused(
        alone.path(),
        None,
        &["holds no tensor `thinker.…`", "use the config.json"],
    );

    // Fields of parts are named with their objects.
    std::fs::write(three.path().join("config.json"), &whole_config).unwrap();
    for (part, object, field, value, words) in [
        (
            OmniPart::Thinker,
            "/thinker_config/text_config",
            "hidden_act",
            json!("gelu"),
            "thinker_config.text_config.hidden_act",
        ),
        (
            OmniPart::Talker,
            "/talker_config",
            "thinker_hidden_size",
            json!(null),
            "talker_config.thinker_hidden_size",
        ),
        (
            OmniPart::Talker,
            "/talker_config/text_config",
            "shared_expert_intermediate_size",
            json!(0),
            "talker_config.text_config.shared_expert_intermediate_size",
        ),
        (
            OmniPart::CodePredictor,
            "/talker_config/code_predictor_config",
            "num_code_groups",
            json!(1),
            "talker_config.code_predictor_config.num_code_groups",
        ),
        (
            OmniPart::CodePredictor,
            "/talker_config",
            "code_predictor_config",
            json!(null),
            "talker_config.code_predictor_config",
        ),
        (
            OmniPart::Code2Wav,
            "",
            "code2wav_config",
            json!([]),
            "code2wav_config",
        ),
        (
            OmniPart::Code2Wav,
            "/code2wav_config",
            "codebook_size",
            json!("many"),
            "code2wav_config.codebook_size",
        ),
        (
            OmniPart::Thinker,
            "/thinker_config",
            "quantization_config",
            json!({"quant_method": "gptq"}),
            "thinker_config.quantization_config",
        ),
    ] {
        let mut config: Value = serde_json::from_slice(&whole_config).unwrap();
        let own = config.pointer_mut(object).unwrap().as_object_mut().unwrap();
        own.insert(field.into(), value);
        std::fs::write(three.path().join("config.json"), config.to_string()).unwrap();
        refused(three.path(), Some(part), &[&format!("`{words}`")]);
    }

    // So are tensors.
    std::fs::write(three.path().join("config.json"), &whole_config).unwrap();
    edit_tensors(three.path(), |file| {
        file.remove("talker.codec_head.weight").unwrap();
    });
    let error = open(three.path(), Some(OmniPart::Talker))
        .map(drop)
        .unwrap_err();
    assert!(error.contains("`talker.codec_head.weight`"), "{error}");
    open(three.path(), Some(OmniPart::Thinker)).unwrap();
}

/// `transformers` does not read which layers of a talker are sparse.
#[test]
fn every_layer_of_a_talker_is_sparse() {
    let dir = copy_of("qwen3_omni_talker");
    edit_config(dir.path(), |config| {
        let text = config["text_config"].as_object_mut().unwrap();
        text.insert("mlp_only_layers".into(), json!([0]));
        text.insert("decoder_sparse_step".into(), json!(2));
    });
    let config = ModelConfig::from_file(&dir.path().join("config.json")).unwrap();
    assert!((0..2).all(|layer| config.is_sparse(layer)));
    load(dir.path(), &Device::default(), FloatDType::F32).unwrap();
}
