//! Tests of `kernels inspect-model`: what a checkpoint holds, and every reason why it would not load.

use crate::common::{self, errors, fixture, json, kernels, stdout};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn gguf(name: &str) -> PathBuf {
    fixture("../gguf").join(name)
}

/// Returns a copy of a fixture with a changed configuration.
fn changed(model: &str, change: impl FnOnce(&mut Map<String, Value>)) -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["config.json", "model.safetensors"] {
        // Tests make the weights of some fixtures, and none of those here needs them.
        let committed = common::committed(model).join(name);
        if committed.exists() {
            fs::copy(committed, folder.path().join(name)).unwrap();
        }
    }
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(config.as_object_mut().unwrap());
    fs::write(&path, config.to_string()).unwrap();
    folder
}

/// Returns the reasons and the remarks of a checkpoint that would not load.
fn problems(path: &Path) -> [Vec<String>; 2] {
    let output = kernels([
        "inspect-model".as_ref(),
        path.as_os_str(),
        "--json".as_ref(),
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(
        errors(&output).contains("would not load"),
        "{}",
        errors(&output)
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["loads"], false);
    ["problems", "remarks"].map(|name| {
        let list = found[name].as_array().unwrap();
        list.iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    })
}

#[test]
fn a_checkpoint_is_described() {
    let text = stdout(["inspect-model".as_ref(), fixture("llama").as_os_str()]);
    for words in [
        "LlamaForCausalLM (llama)",
        "2, 64 wide, with an MLP of 96",
        "4 heads of width 16, 2 of keys and values",
        "nothing",
        "it would load",
        "F32",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let found = json([
        "inspect-model".as_ref(),
        fixture("llama").as_os_str(),
        "--json".as_ref(),
    ]);
    let elements = &found["types"][0]["elements"];
    assert_eq!(&found["model"]["parameters"], elements, "{found}");
    assert_eq!(found["loads"], true);
}

#[test]
fn blocks_and_ties_of_a_gguf_file_are_shown() {
    let file = gguf("qwen2.gguf");
    let text = stdout(["inspect-model".as_ref(), file.as_os_str()]);
    for words in [
        "Qwen2ForCausalLM (qwen2)",
        "YaRN by 4",
        "the output projection is the embedding",
        "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0; 9 of 9 tensors stay quantised",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// The bits of a weight count scales, zeros and the groups of columns.
#[test]
fn encodings_and_bits_of_a_quantised_folder_are_shown() {
    let folder = fixture("../quantised/qwen3_gptq");
    let text = stdout(["inspect-model".as_ref(), folder.as_os_str()]);
    for words in [
        "gptq of 4 bits in groups of 32; 14 of 14 tensors stay quantised",
        "in memory",
        "model.layers.0 to model.layers.1, each",
        "bits a weight",
        "it would load",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let found = json([
        "inspect-model".as_ref(),
        folder.as_os_str(),
        "--json".as_ref(),
    ]);
    let own = &found["quantised"][0];
    assert_eq!(own["tensors"], 14, "{found}");
    // 4 bits, and for each group of 32 a half and a zero; a word for each column.
    let weights = own["weights"].as_u64().unwrap();
    let columns = 2 * (6 * 96 + 160);
    assert_eq!(own["bytes"], (weights * 148 / 256) + 4 * columns, "{found}");
    let layers = found["layers"].as_array().unwrap();
    let of_layers = layers.iter().map(|own| own["weights"].as_u64().unwrap());
    assert_eq!(found["model"]["parameters"], of_layers.sum::<u64>());
    assert_eq!(layers[0]["layer"], "model.embed_tokens", "{found}");
    assert_eq!(found["kept"]["bytes"], own["bytes"], "{found}");
    let floats = found["model"]["parameters"].as_u64().unwrap() - weights;
    let held = own["bytes"].as_u64().unwrap() + 4 * floats;
    assert_eq!(found["held_bytes"]["f32"], held, "{found}");
    let bits = own["bits_per_weight"].as_f64().unwrap();
    assert!((4.9..5.0).contains(&bits), "{found}");
}

#[test]
fn every_reason_is_named() {
    let folder = changed("llama", |config| {
        config.insert("hidden_act".into(), "gelu".into());
        config.insert("logit_scale".into(), 0.5.into());
        config.insert("rms_norm_eps".into(), (-1).into());
        config.insert(
            "rope_parameters".into(),
            serde_json::json!({ "rope_type": "dynamic" }),
        );
    });
    let [found, remarks] = problems(folder.path());
    for field in [
        "hidden_act",
        "logit_scale",
        "rms_norm_eps",
        "rope_parameters.rope_type",
    ] {
        let named = found
            .iter()
            .filter(|text| text.contains(&format!("field `{field}`")));
        assert_eq!(named.count(), 1, "{field}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(remarks[0].contains("not compared"), "{remarks:?}");
}

#[test]
fn reasons_in_inner_objects_are_named() {
    let folder = changed("qwen3_vl", |config| {
        let text = config["text_config"].as_object_mut().unwrap();
        text.insert("hidden_act".into(), "gelu".into());
        text.insert("attention_bias".into(), "yes".into());
    });
    let [found, _] = problems(folder.path());
    for field in ["hidden_act", "attention_bias"] {
        let field = format!("field `text_config.{field}`");
        let named = found.iter().filter(|text| text.contains(&field));
        assert_eq!(named.count(), 1, "{field}: {found:?}");
    }
    // The third problem is the missing weights.
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn every_missing_size_is_named() {
    let folder = changed("llama", |config| {
        config.remove("vocab_size");
        config.remove("hidden_size");
    });
    let [found, _] = problems(folder.path());
    for field in ["vocab_size", "hidden_size"] {
        let named = found
            .iter()
            .filter(|text| text.contains(&format!("field `{field}`: missing")));
        assert_eq!(named.count(), 1, "{field}: {found:?}");
    }
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn unknown_names_are_followed_by_the_nearest() {
    let folder = changed("llama", |config| {
        config.insert(
            "architectures".into(),
            serde_json::json!(["LamaForCausalLM"]),
        );
    });
    let [found, _] = problems(folder.path());
    let expected = "`LamaForCausalLM` is not supported; the nearest is LlamaForCausalLM;";
    assert!(found[0].contains(expected), "{found:?}");

    let folder = changed("llama", |config| {
        config.insert("num_attention_head".into(), 4.into());
    });
    let text = stdout(["inspect-model".as_ref(), folder.path().as_os_str()]);
    let expected = "field `num_attention_head` is not read; is `num_attention_heads` meant?";
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(expected), "{text}");

    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let (from, to) = (b"layers.0.self_attn.q_proj", b"layers.0.self_attn.q_porj");
    let at = bytes
        .windows(from.len())
        .position(|own| own == from)
        .unwrap();
    let changed = [&bytes[..at], &to[..], &bytes[at + from.len()..]].concat();
    fs::write(&path, changed).unwrap();
    let [found, _] = problems(folder.path());
    let expected = "tensor `model.layers.0.self_attn.q_porj.weight`: unexpected: LlamaForCausalLM of this configuration \
                    has no such parameter; the nearest missing one is `model.layers.0.self_attn.q_proj.weight`";
    assert!(
        found.iter().any(|text| text.contains(expected)),
        "{found:?}"
    );
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn every_missing_file_is_named() {
    let folder = changed("llama", |_| {});
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let map =
        serde_json::json!({ "weight_map": { "a": "one.safetensors", "b": "two.safetensors" } });
    let index = folder.path().join("model.safetensors.index.json");
    fs::write(index, map.to_string()).unwrap();
    let [found, _] = problems(folder.path());
    assert!(
        found[0].contains("one.safetensors") && found[1].contains("two.safetensors"),
        "{found:?}"
    );
}

#[test]
fn nothing_at_the_path_is_said() {
    let output = kernels(["inspect-model", "no/such/model"]);
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    assert!(text.contains("no/such/model: cannot open"), "{text}");
}

/// The tokenizer is opened as `generate` and `finetune` open it.
#[cfg(feature = "text")]
#[test]
fn a_tokenizer_that_would_not_load_is_named_and_one_with_more_tokens_is_not() {
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text/tiny");
    let folder = TempDir::new().unwrap();
    for entry in fs::read_dir(tiny).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.path().join("tokenizer.json");
    let usual = fs::read_to_string(&path).unwrap();
    let mut json: Value = serde_json::from_str(&usual).unwrap();
    let token = serde_json::json!({
        "id": 320, "content": "<image>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true,
    });
    json["added_tokens"].as_array_mut().unwrap().push(token);
    fs::write(&path, json.to_string()).unwrap();
    let found = common::json([
        "inspect-model".as_ref(),
        folder.path().as_os_str(),
        "--json".as_ref(),
    ]);
    let remark = found["remarks"][0].as_str().unwrap();
    assert!(
        found["loads"] == true && remark.contains("`<image>` with the id 320"),
        "{found}"
    );
    fs::write(&path, "{}").unwrap();
    let [found, _] = problems(folder.path());
    assert!(
        found[0].contains("tokenizer.json: not a tokenizer"),
        "{found:?}"
    );
    fs::write(&path, usual).unwrap();
    let settings = folder.path().join("generation_config.json");
    fs::write(settings, r#"{"eos_token_id": [2, "</s>"]}"#).unwrap();
    let [found, _] = problems(folder.path());
    assert!(
        found[0].contains("generation_config.json: field `eos_token_id`"),
        "{found:?}"
    );
}
