//! Tests of checkpoints as they are published: fields of other programs, names, indices, and files in place of others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::common::{File, Stored, copy_of, edit_config, edit_tensors, fixtures, read, write};
use burn::tensor::{Device, FloatDType, TensorData};
use kernels_models::{Architecture, ModelConfig, inspect, load};
use serde_json::{Map, Value, json};

/// The configurations of a published checkpoint of each family, and of several of some; long lists are cut.
fn configurations() -> BTreeMap<String, Map<String, Value>> {
    let text = fs::read_to_string(fixtures().join("published.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn parse(config: &Map<String, Value>) -> Result<ModelConfig, String> {
    let json = Value::Object(config.clone()).to_string();
    ModelConfig::from_json(&json, Path::new("config.json")).map_err(|error| error.to_string())
}

/// Returns the object of the text model.
fn text(config: &mut Map<String, Value>) -> &mut Map<String, Value> {
    match config.contains_key("text_config") {
        true => config["text_config"].as_object_mut().unwrap(),
        false => config,
    }
}

#[test]
fn published_configurations_are_read() {
    let mut families = BTreeSet::new();
    for (name, config) in configurations() {
        let read = parse(&config).unwrap_or_else(|error| panic!("{name}: {error}"));
        families.insert(read.architecture.class_name());
    }
    assert_eq!(families.len(), Architecture::ALL.len());
}

/// transformers saves the kind of positions under both names. The old one is not a scaling.
#[test]
fn saved_positions_of_three_axes_are_those_of_the_published_file() {
    let published = configurations()["Qwen2.5-VL"].clone();
    let mut saved = published.clone();
    let fields = text(&mut saved);
    for name in ["rope_theta", "rope_scaling"] {
        fields.remove(name);
    }
    let rope = json!({
        "mrope_section": [16, 24, 24], "rope_theta": 1_000_000.0, "rope_type": "default", "type": "mrope",
    });
    fields.insert("rope_parameters".into(), rope);
    assert_eq!(parse(&saved).unwrap().rope, parse(&published).unwrap().rope);
    text(&mut saved)["rope_parameters"]["type"] = json!("linear");
    let said = parse(&saved).unwrap_err();
    assert!(said.contains("`linear` contradicts `rope_type`"), "{said}");
}

/// transformers saves the text model's default beside the field of the whole model, which alone counts there.
#[test]
fn saved_sparse_text_models_are_tied_as_the_whole_model() {
    let configurations = configurations();
    let read = |name: &str| {
        let mut config = configurations[name].clone();
        config.insert("tie_word_embeddings".into(), json!(false));
        text(&mut config).insert("tie_word_embeddings".into(), json!(true));
        parse(&config).map(|read| read.tie_word_embeddings)
    };
    assert_eq!(read("Qwen3-VL, sparse"), Ok(false));
    let said = read("Qwen3-VL").unwrap_err();
    assert!(
        said.contains("contradicts the outer `tie_word_embeddings`"),
        "{said}"
    );
}

/// Fields of other programs, of other parts of `transformers` and of training alone don't keep a model from being read.
/// Fields that change logits do, in every family.
#[test]
fn fields_of_other_programs_pass_and_fields_that_count_do_not() {
    let pass = json!({
        "_name_or_path": "/root/.cache/model", "_attn_implementation_autoset": true, "_flash_attn_2_enabled": true,
        "attention_dropout": 0.1, "hidden_dropout": 0.1, "resid_pdrop": 0.1, "residual_dropout": 0.1, "embd_pdrop": 0.1,
        "attn_pdrop": 0.1, "router_jitter_noise": 0.01, "classifier_dropout": null, "pretraining_tp": 4,
        "is_encoder_decoder": false, "add_cross_attention": false, "pruned_heads": {}, "is_llama_config": true,
        "rope_interleaved": false, "use_mrope": false, "cache_implementation": "hybrid", "for_llm_compressor": false,
        "ep_size": 1, "seq_aux": true, "aux_loss_alpha": 0.001, "full_attn_mod": 1, "interpolate_factor": 1,
        "transformers.js_config": { "dtype": "q4" }, "unsloth_version": "2025.3", "id2label": { "0": "LABEL_0" },
        "temperature": 0.6, "top_p": 0.9, "torchscript": false, "tokenizer_class": "PreTrainedTokenizerFast",
        "initial_context_length": 4096, "output_attentions": false, "problem_type": null, "auto_map": {},
    });
    let refused = [
        ("logit_scale", json!(0.5)),
        ("residual_multiplier", json!(0.22)),
        ("clip_qkv", json!(8.0)),
        ("rope_interleaved", json!(true)),
        ("alibi", json!(true)),
        ("lm_head_bias", json!(true)),
        ("compression_config", json!({ "bits": 4 })),
        ("parallel_residual", json!(true)),
    ];
    for (name, config) in configurations() {
        let mut more = config.clone();
        let own = text(&mut more);
        for (field, value) in pass.as_object().unwrap() {
            own.insert(field.clone(), value.clone());
        }
        let read = parse(&more).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.dropout(), Some(("attention_dropout", 0.1)), "{name}");
        for (field, value) in &refused {
            let mut wrong = config.clone();
            text(&mut wrong).insert((*field).into(), value.clone());
            let error = parse(&wrong).unwrap_err();
            assert!(error.contains(&format!("{field}`: ")), "{name}: {error}");
        }
    }
}

#[test]
fn dropout_of_the_family_is_known() {
    let mut all = configurations();
    let dropout = |config: &Map<String, Value>| parse(config).unwrap().dropout();
    let seed = all.get_mut("Seed-OSS").unwrap();
    assert_eq!(dropout(seed), Some(("attention_dropout", 0.1)));
    seed.insert("attention_dropout".into(), json!(0.0));
    seed.remove("residual_dropout");
    assert_eq!(dropout(seed), Some(("residual_dropout", 0.1)));
    seed.insert("residual_dropout".into(), json!(0));
    assert_eq!(dropout(seed), None);
    assert_eq!(dropout(&all["Llama 1"]), None);
}

/// Loads a model and returns its parameters and the remarks on the checkpoint.
fn loaded(dir: &Path) -> (BTreeMap<String, TensorData>, String) {
    let device = Device::default();
    let found = inspect(dir, &device).unwrap();
    assert_eq!(found.problems, Vec::<String>::new(), "{:?}", found.remarks);
    let (_, model) = load(dir, &device, FloatDType::F32).unwrap();
    (model.named_parameters(), found.remarks.join("\n"))
}

fn weights(dir: &Path) -> File {
    read(&dir.join("model.safetensors"))
}

/// A base model that was saved alone, with or without its class's name.
#[test]
fn names_without_a_beginning_are_read() {
    for class in ["LlamaForCausalLM", "LlamaModel"] {
        let dir = copy_of("llama_rope3_tied");
        let (whole, _) = loaded(dir.path());
        edit_config(dir.path(), |config| {
            config.insert("architectures".into(), json!([class]));
        });
        edit_tensors(dir.path(), |file| {
            let names: Vec<String> = file.keys().cloned().collect();
            for name in names {
                let tensor = file.remove(&name).unwrap();
                file.insert(name.strip_prefix("model.").unwrap().into(), tensor);
            }
            file.insert("score.weight".into(), Stored::f32(&[2, 64], &[0.0; 128]));
            file.insert("rotary_emb.inv_freq".into(), Stored::f32(&[8], &[0.0; 8]));
        });
        let (bare, remarks) = loaded(dir.path());
        assert!(whole == bare, "{class}");
        for words in ["lack `model.`", "tensor `model.score.weight` is not loaded"] {
            assert!(remarks.contains(words), "{remarks}");
        }
    }
}

/// Splits the checkpoint into two files with an index that lists every tensor, and changes these.
fn split(dir: &Path, change: impl FnOnce(&mut [File; 2], &mut Map<String, Value>)) {
    let mut files = [File::new(), File::new()];
    let mut map = Map::new();
    for (at, (name, tensor)) in weights(dir).into_iter().enumerate() {
        map.insert(name.clone(), json!(format!("{}.safetensors", at % 2)));
        files[at % 2].insert(name, tensor);
    }
    change(&mut files, &mut map);
    fs::remove_file(dir.join("model.safetensors")).unwrap();
    for (at, file) in files.iter().enumerate() {
        write(&dir.join(format!("{at}.safetensors")), file);
    }
    let index = json!({ "metadata": {}, "weight_map": map });
    fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

#[test]
fn tensors_are_read_whatever_the_index_says() {
    const NORM: &str = "model.norm.weight";
    let dir = copy_of("llama");
    let (whole, remarks) = loaded(dir.path());
    assert_eq!(remarks, "");
    split(dir.path(), |files, map| {
        // Unlisted: a parameter, a buffer and another head. In both files: a parameter. Nowhere: a buffer.
        map.remove("lm_head.weight");
        let small = Stored::f32(&[2], &[0.0; 2]);
        for name in ["model.rotary_emb.inv_freq", "v_head.summary.bias\x1b[2J"] {
            files[0].insert(name.into(), small.clone());
        }
        let norm = files
            .iter()
            .find_map(|file| file.get(NORM))
            .unwrap()
            .clone();
        files[0].insert(
            NORM.into(),
            Stored {
                bytes: vec![0; norm.bytes.len()],
                ..norm.clone()
            },
        );
        files[1].insert(NORM.into(), norm);
        let buffer = "model.layers.0.self_attn.rotary_emb.inv_freq";
        map.insert(buffer.into(), json!("1.safetensors"));
    });
    let (parts, remarks) = loaded(dir.path());
    assert!(whole == parts, "the last file counts");
    for words in [
        "tensor `model.norm.weight` is also in a later file, which is read",
        "3 tensors, such as `lm_head.weight`, are in a file, and not in model.safetensors.index.json",
        "tensor `model.layers.0.self_attn.rotary_emb.inv_freq` is not in the file that",
        "tensor `v_head.summary.bias\\u{1b}[2J` is not loaded",
    ] {
        assert!(remarks.contains(words), "{remarks}");
    }
}

/// A parameter that no file has is an error, and the remarks say what may be the reason.
#[test]
fn reasons_of_errors_are_noted() {
    let error_of = |dir: &Path| {
        let loaded = load(dir, &Device::default(), FloatDType::F32);
        loaded.map(drop).unwrap_err().to_string()
    };
    let dir = copy_of("llama");
    split(dir.path(), |files, _| {
        files
            .iter_mut()
            .for_each(|file| drop(file.remove("lm_head.weight")));
    });
    let error = error_of(dir.path());
    for words in [
        "tensor `lm_head.weight`: missing",
        "note: tensor `lm_head.weight` is not in the file that",
    ] {
        assert!(error.contains(words), "{error}");
    }

    // A file of something else beside the index.
    let stray = dir.path().join("model.safetensors");
    write(
        &stray,
        &File::from([("adapter".into(), Stored::f32(&[1], &[0.0]))]),
    );
    let error = error_of(dir.path());
    let words =
        "note: model.safetensors is read, and model.safetensors.index.json beside it is not";
    assert!(error.contains(words), "{error}");
    fs::write(&stray, "<!DOCTYPE html>").unwrap();
    let error = error_of(dir.path());
    for words in [
        "text that begins with `<!DOCTYP`",
        "index.json beside it is not",
    ] {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn pointers_and_links_without_a_target_are_named() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n";
    for name in [
        "config.json",
        "model.safetensors",
        "model.safetensors.index.json",
        "m.gguf",
    ] {
        let dir = copy_of("llama");
        if name != "config.json" {
            fs::remove_file(dir.path().join("model.safetensors")).unwrap();
        }
        let path = dir.path().join(name);
        let problem = || {
            let found = inspect(dir.path(), &Device::default()).unwrap();
            let error = load(dir.path(), &Device::default(), FloatDType::F32).map(drop);
            let error = error.unwrap_err().to_string();
            assert_eq!(found.problems[0], error);
            error
        };
        fs::write(&path, pointer).unwrap();
        let error = problem();
        assert!(
            error.contains(&format!("{name} is a Git LFS pointer")),
            "{error}"
        );
        assert!(error.contains("git lfs pull"), "{error}");
        #[cfg(unix)]
        {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("../blobs/absent", &path).unwrap();
            let error = problem();
            assert!(
                error.contains(&format!("{name} is a broken link: ../blobs/absent")),
                "{error}"
            );
        }
    }
}
