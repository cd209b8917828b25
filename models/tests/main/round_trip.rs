//! Tests of saving and loading, single and sharded, and of configurations in every spelling.

use crate::comparison::difference;

use std::fs;
use std::path::Path;

use crate::common::{self, MODELS, edit_config, ints, model_dir, read, to_f64};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_models::{CausalLm, ModelConfig, Qwen3Size, RopeScaling, load, save};
use serde_json::json;

fn open(dir: &Path, dtype: FloatDType) -> (ModelConfig, CausalLm) {
    load(dir, &Device::default(), dtype).unwrap()
}

fn logits(dir: &Path, name: &str) -> Vec<f64> {
    let golden = read(&model_dir(name).join("golden.safetensors"));
    let (_, model) = open(dir, FloatDType::F32);
    to_f64(
        &model
            .forward(ints(&golden["input_ids"], &Device::default()), None)
            .into_data(),
    )
}

#[test]
fn saved_tensors_are_those_that_were_loaded() {
    for name in MODELS {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("copy");
        let (config, model) = open(&model_dir(name), FloatDType::F32);
        save(&model, &config, &target, None).unwrap();
        let before = read(&model_dir(name).join("model.safetensors"));
        let after = read(&target.join("model.safetensors"));
        assert!(before == after, "{name}");
        // Nothing else is left next to it.
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}

#[test]
fn saved_header_says_format_pt() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("new");
    let (config, model) = open(&model_dir("llama"), FloatDType::F32);
    save(&model, &config, &target, None).unwrap();
    let bytes = fs::read(target.join("model.safetensors")).unwrap();
    let (length, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    assert_eq!((8 + length) % 8, 0);
}

#[test]
fn shards_hold_the_same_model() {
    for name in MODELS {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("sharded");
        let (config, model) = open(&model_dir(name), FloatDType::F32);
        save(&model, &config, &target, Some(25_000)).unwrap();
        let files: Vec<_> = fs::read_dir(&target)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "safetensors"))
            .collect();
        assert!(files.len() >= 3, "{files:?}");
        for file in &files {
            let tensors = read(file);
            let bytes: usize = tensors.values().map(|tensor| tensor.bytes.len()).sum();
            // A tensor is never split, so a larger one is alone.
            let fits = bytes <= 25_000 || tensors.len() == 1;
            assert!(fits, "{}: {bytes}", file.display());
        }
        assert_eq!(logits(&target, name), logits(&model_dir(name), name));
    }
}

#[test]
fn half_types_survive() {
    for (dtype, config_name) in [(FloatDType::BF16, "bfloat16"), (FloatDType::F16, "float16")] {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("half");
        let (config, model) = open(&model_dir("qwen3"), dtype);
        save(&model, &config, &target, None).unwrap();
        let (saved, again) = open(&target, dtype);
        assert_eq!(saved.dtype.unwrap().config_name(), config_name);
        assert!(model.named_parameters() == again.named_parameters());
        let stored = read(&target.join("model.safetensors"));
        assert!(
            stored
                .values()
                .all(|tensor| tensor.bytes.len() == 2 * tensor.values().len())
        );
    }
}

#[test]
fn nothing_is_overwritten() {
    let occupied = tempfile::tempdir().unwrap();
    fs::write(occupied.path().join("precious.txt"), "kept").unwrap();
    let (config, model) = open(&model_dir("llama"), FloatDType::F32);
    let error = save(&model, &config, occupied.path(), None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not empty"), "{error}");
    assert_eq!(fs::read_dir(occupied.path()).unwrap().count(), 1);
}

#[test]
fn configurations_survive_with_fields_that_are_not_ours() {
    for name in MODELS {
        let config = ModelConfig::from_file(&model_dir(name).join("config.json")).unwrap();
        let again = ModelConfig::from_json(&config.to_json(), "again".as_ref()).unwrap();
        assert_eq!(config, again);
        assert!(again.to_json().contains("\"eos_token_id\": 2"));
    }
}

/// The layers with a window are those in `layer_types`, or else those from `max_window_layers` on.
#[test]
fn windows_are_read_and_survive() {
    let kinds = json!(["sliding_attention", "full_attention"]);
    for (fields, layers) in [
        (json!({ "max_window_layers": 0 }), &[0, 1][..]),
        (json!({ "max_window_layers": 1 }), &[1]),
        (json!({}), &[]),
        (
            json!({ "layer_types": kinds, "max_window_layers": 1 }),
            &[0],
        ),
        (
            json!({ "max_window_layers": 0, "sliding_window": null }),
            &[],
        ),
        (
            json!({ "max_window_layers": 0, "use_sliding_window": false }),
            &[],
        ),
    ] {
        let dir = common::copy_of("qwen2");
        edit_config(dir.path(), |config| {
            config.remove("layer_types");
            config.remove("max_window_layers");
            config.insert("use_sliding_window".into(), json!(true));
            config.insert("sliding_window".into(), json!(8));
            config.extend(fields.as_object().unwrap().clone());
        });
        let config = ModelConfig::from_file(&dir.path().join("config.json")).unwrap();
        for layer in 0..2 {
            let expected = layers.contains(&layer).then_some(8);
            assert_eq!(config.window(layer), expected, "{fields}");
        }
        let again = ModelConfig::from_json(&config.to_json(), "again".as_ref()).unwrap();
        assert_eq!(config, again);
    }
}

/// `transformers` uses a size of 4096 if a file has no `sliding_window`.
#[test]
fn an_absent_window_has_a_size() {
    let dir = common::copy_of("qwen2");
    edit_config(dir.path(), |config| {
        config.remove("layer_types");
        config.remove("sliding_window");
        config.insert("max_window_layers".into(), json!(0));
        config.insert("use_sliding_window".into(), json!(true));
    });
    let config = ModelConfig::from_file(&dir.path().join("config.json")).unwrap();
    assert_eq!(config.window(0), Some(4096));

    let dir = common::copy_of("mistral");
    let path = dir.path().join("config.json");
    let full = ModelConfig::from_file(&path).unwrap();
    assert_eq!(full.window(0), None);
    assert!(full.to_json().contains("\"sliding_window\": null"));
    edit_config(dir.path(), |config| {
        config.remove("sliding_window").unwrap();
    });
    assert_eq!(ModelConfig::from_file(&path).unwrap().window(1), Some(4096));
}

/// As in transformers, the length of the first training that a file names outside of the rotary settings comes first.
#[test]
fn the_outer_length_of_the_first_training_comes_first() {
    for inner in [None, Some(100)] {
        let dir = common::copy_of("llama");
        edit_config(dir.path(), |config| {
            config.remove("rope_scaling");
            let mut rope = json!({"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0});
            if let Some(inner) = inner {
                rope["original_max_position_embeddings"] = json!(inner);
            }
            config.insert("rope_parameters".into(), rope);
            config.insert("original_max_position_embeddings".into(), json!(64));
        });
        let config = ModelConfig::from_file(&dir.path().join("config.json")).unwrap();
        let RopeScaling::Yarn {
            original_max_position_embeddings,
            ..
        } = config.rope.scaling
        else {
            panic!("{:?}", config.rope.scaling)
        };
        assert_eq!(original_max_position_embeddings, 64);
        let again = ModelConfig::from_json(&config.to_json(), "again".as_ref()).unwrap();
        assert_eq!(config, again);
    }
}

/// Without `layer_types`, every second layer of Gemma 2 and every sixth of Gemma 3 sees all tokens. Absent caps have a
/// value, and caps that are `null` have none.
#[test]
fn absent_fields_of_gemma_have_values() {
    let read = |name: &str, edit: fn(&mut serde_json::Map<String, serde_json::Value>)| {
        let dir = common::copy_of(name);
        edit_config(dir.path(), edit);
        let config = ModelConfig::from_file(&dir.path().join("config.json")).unwrap();
        let again = ModelConfig::from_json(&config.to_json(), "again".as_ref()).unwrap();
        assert_eq!(config, again);
        config
    };
    let windows = |config: &ModelConfig| [config.window(0), config.window(1)];
    let gemma2 = read("gemma2_sw8", |config| {
        for name in [
            "layer_types",
            "sliding_window",
            "attn_logit_softcapping",
            "hidden_activation",
            "tie_word_embeddings",
        ] {
            config.remove(name).unwrap();
        }
        config.insert("final_logit_softcapping".into(), json!(null));
    });
    assert_eq!(windows(&gemma2), [Some(4096), None]);
    assert!(gemma2.tie_word_embeddings);
    let scores = gemma2.scores.unwrap();
    assert_eq!(scores.attn_logit_softcapping, Some(50.0));
    assert_eq!(scores.final_logit_softcapping, None);

    let gemma3 = read("gemma3_sw8_linear", |config| {
        config.remove("layer_types").unwrap();
        config.remove("rope_parameters").unwrap();
    });
    assert_eq!(windows(&gemma3), [Some(8), Some(8)]);
    let local = gemma3.local_rope.unwrap();
    assert_eq!((gemma3.rope.theta, local.theta), (1e6, 1e4));
    let gemma3 = read("gemma3_sw8_linear", |config| {
        config.remove("layer_types").unwrap();
        config.insert("sliding_window_pattern".into(), json!(2));
    });
    assert_eq!(windows(&gemma3), [Some(8), None]);
}

/// Without lists, every fourth layer of Llama 4 is not rotated and sees all tokens, and every layer is sparse.
#[test]
fn absent_lists_of_llama_4_are_intervals() {
    let dir = common::copy_of("llama4_chunk8");
    let path = dir.path().join("config.json");
    edit_config(dir.path(), |config| {
        for name in ["layer_types", "moe_layers", "attn_scale"] {
            config.remove(name).unwrap();
        }
        config.insert("no_rope_layers".into(), json!([]));
    });
    let config = ModelConfig::from_file(&path).unwrap();
    assert_eq!([config.window(0), config.window(1)], [Some(8), Some(8)]);
    assert!(config.is_sparse(0) && config.is_sparse(1));
    let mixed = config.mixed.as_ref().unwrap();
    assert!(mixed.unrotated_layers.is_empty());
    assert_eq!(mixed.temperature.unwrap().attn_scale, 0.1);
    let again = ModelConfig::from_json(&config.to_json(), "again".as_ref()).unwrap();
    assert_eq!(config, again);
    edit_config(dir.path(), |config| {
        config.insert("no_rope_layer_interval".into(), json!(2));
        config.insert("interleave_moe_layer_step".into(), json!(2));
        config.insert("attn_temperature_tuning".into(), json!(false));
    });
    let config = ModelConfig::from_file(&path).unwrap();
    assert_eq!([config.window(0), config.window(1)], [Some(8), None]);
    assert_eq!([config.is_sparse(0), config.is_sparse(1)], [false, true]);
    let mixed = config.mixed.unwrap();
    assert_eq!(mixed.unrotated_layers, [1]);
    assert_eq!(mixed.temperature, None);
}

#[test]
fn transformers_4_spelling_is_the_same_model() {
    for name in MODELS {
        let old = common::copy_of(name);
        edit_config(old.path(), |config| {
            let dtype = config.remove("dtype").unwrap();
            config.insert("torch_dtype".into(), dtype);
            let config = match config.contains_key("text_config") {
                true => config["text_config"].as_object_mut().unwrap(),
                false => config,
            };
            let mut rope = config.remove("rope_parameters").unwrap();
            if let Some(local) = rope.get("sliding_attention") {
                config.insert("rope_local_base_freq".into(), local["rope_theta"].clone());
                rope = rope["full_attention"].clone();
            }
            let rope = rope.as_object_mut().unwrap();
            config.insert("rope_theta".into(), rope.remove("rope_theta").unwrap());
            if let Some(part) = rope.remove("partial_rotary_factor") {
                config.insert("partial_rotary_factor".into(), part);
            }
            if rope["rope_type"] == "longrope" {
                // It is also outside.
                rope.remove("original_max_position_embeddings").unwrap();
                rope.remove("rope_type").unwrap();
                rope.insert("type".into(), json!("longrope"));
            }
            if let Some(count) = config.get("num_local_experts").cloned()
                && config["model_type"] == "qwen3_moe"
            {
                config.remove("num_local_experts");
                config.insert("num_experts".into(), count);
            }
            let scaled = rope.get("rope_type") != Some(&json!("default"));
            let scaled = scaled || rope.contains_key("mrope_section");
            config.insert(
                "rope_scaling".into(),
                if scaled { json!(rope) } else { json!(null) },
            );
        });
        assert_eq!(
            logits(old.path(), name),
            logits(&model_dir(name), name),
            "{name}"
        );
    }
}

#[test]
fn absent_sizes_are_derived() {
    let dir = common::copy_of("llama");
    edit_config(dir.path(), |config| {
        config.remove("head_dim").unwrap();
        config.remove("rope_parameters").unwrap();
        config.insert(
            "rope_scaling".into(),
            json!({ "type": "linear", "factor": 2 }),
        );
    });
    let config = ModelConfig::from_file(&dir.path().join("config.json")).unwrap();
    assert_eq!(config.head_dim, 16);
    assert_eq!(config.rope.theta, 10_000.0);

    edit_config(dir.path(), |config| {
        config.remove("num_key_value_heads").unwrap();
    });
    let config = ModelConfig::from_file(&dir.path().join("config.json")).unwrap();
    assert_eq!(config.num_key_value_heads, 4);
}

#[test]
fn old_rotary_buffers_and_equal_tied_heads_are_accepted() {
    let dir = common::copy_of("llama_rope3_tied");
    common::edit_tensors(dir.path(), |file| {
        let buffer = common::Stored::f32(&[8], &[0.5; 8]);
        file.insert(
            "model.layers.0.self_attn.rotary_emb.inv_freq".into(),
            buffer,
        );
        let embedding = file["model.embed_tokens.weight"].clone();
        file.insert("lm_head.weight".into(), embedding);
    });
    assert_eq!(
        logits(dir.path(), "llama_rope3_tied"),
        logits(&model_dir("llama_rope3_tied"), "llama_rope3_tied")
    );
}

/// Published files of Gemma 3n hold the keys and values of all layers, also of those that use others.
#[test]
fn unused_keys_and_values_are_left_out() {
    let name = "gemma3n_kvshare";
    let dir = common::copy_of(name);
    common::edit_tensors(dir.path(), |file| {
        for layer in [2, 3] {
            for part in ["k_proj", "v_proj", "k_norm"] {
                let of = |layer| format!("model.layers.{layer}.self_attn.{part}.weight");
                let own = file[&of(0)].clone();
                assert!(file.insert(of(layer), own).is_none());
            }
        }
    });
    assert_eq!(logits(dir.path(), name), logits(&model_dir(name), name));
    common::edit_tensors(dir.path(), |file| {
        let own = file["model.layers.0.self_attn.k_proj.weight"].clone();
        file.insert("model.layers.4.self_attn.k_proj.weight".into(), own);
    });
    let error = load(dir.path(), &Device::default(), FloatDType::F32).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("model.layers.4.self_attn.k_proj.weight`: unexpected")
    );
}

#[test]
fn explicit_and_default_positions_agree() {
    let (_, model) = open(&model_dir("qwen3"), FloatDType::F32);
    let device = Device::default();
    let ids = Tensor::<2, Int>::from_data([[5, 6, 7, 8], [1, 2, 3, 4]], &device);
    let positions = Tensor::<2, Int>::from_data([[0, 1, 2, 3]], &device);
    let explicit = to_f64(&model.forward(ids.clone(), Some(positions)).into_data());
    let default = to_f64(&model.forward(ids.clone(), None).into_data());
    assert!(difference(&explicit, &default) < 1e-6);
    // Rotary positions are relative: a shift changes little, a stretch changes much.
    let shifted = Tensor::<2, Int>::from_data([[10, 11, 12, 13]], &device);
    let shifted = to_f64(&model.forward(ids.clone(), Some(shifted)).into_data());
    assert!(difference(&shifted, &default) < 1e-5);
    let stretched = Tensor::<2, Int>::from_data([[0, 9, 18, 27]], &device);
    let stretched = to_f64(&model.forward(ids, Some(stretched)).into_data());
    assert!(difference(&stretched, &default) > 1e-3);
}

#[test]
fn a_fresh_model_is_initialised_as_configured() {
    let config = ModelConfig::qwen3(Qwen3Size {
        vocab_size: 256,
        hidden_size: 64,
        intermediate_size: 160,
        num_hidden_layers: 3,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 32,
        max_position_embeddings: 128,
        tie_word_embeddings: true,
    })
    .unwrap();
    let device = Device::default();
    device.seed(7);
    let model = config.init(&device);
    let parameters = model.named_parameters();
    assert!(!parameters.contains_key("lm_head.weight"));
    assert_eq!(
        parameters["model.layers.2.mlp.gate_proj.weight"]
            .shape()
            .as_slice(),
        [160, 64]
    );
    for (name, data) in &parameters {
        let values = to_f64(data);
        if name.ends_with("norm.weight") {
            assert!(values.iter().all(|&x| x == 1.0), "{name}");
        } else {
            let deviation =
                (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt();
            assert!((0.018..0.022).contains(&deviation), "{name}: {deviation}");
        }
    }
    // The loss of an untrained model is about that of a guess.
    let ids = Tensor::<2, Int>::from_data([[1, 2, 3, 4, 5, 6, 7, 8]], &device);
    let loss = to_f64(&model.loss(ids, None).1.into_data())[0];
    assert!((loss - 256_f64.ln()).abs() < 0.3, "{loss}");

    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("fresh");
    save(&model, &config, &target, None).unwrap();
    let (_, again) = open(&target, FloatDType::F32);
    assert!(parameters == again.named_parameters());
}
