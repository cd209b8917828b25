//! Folders in Hugging Face layout that become GGUF files.

use super::{digest, quantize, refused};
use crate::common::{Floats, errors, fixture, floats, json, kernels};
use kernels_models::gguf::{File, Value};
use serde_json::{Map, json};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Copies a fixture with a tokenizer of its 128 tokens, after a change of its configuration.
fn folder(name: &str, to: &TempDir, change: impl FnOnce(&mut serde_json::Value)) -> PathBuf {
    let folder = to.path().join(name);
    fs::create_dir(&folder).unwrap();
    let weights = "model.safetensors";
    fs::copy(fixture(name).join(weights), folder.join(weights)).unwrap();
    let config = fs::read(fixture(name).join("config.json")).unwrap();
    let mut config = serde_json::from_slice(&config).unwrap();
    change(&mut config);
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let printable = (b'!'..=b'~').map(|byte| char::from(byte).to_string());
    let texts = ["<unk>", "<s>", "</s>"].map(str::to_owned).into_iter();
    let texts = texts
        .chain(printable)
        .chain(["th", "the"].map(str::to_owned));
    let vocabulary: Map<_, _> = (0..)
        .zip(texts)
        .map(|(id, text)| (text, json!(id)))
        .collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
    let tokenizer = json!({
        "added_tokens": [{"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, bytes]},
        "decoder": bytes,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [["t", "h"], ["th", "e"]]},
    });
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let settings =
        json!({"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{{ messages }}"});
    fs::write(folder.join("tokenizer_config.json"), settings.to_string()).unwrap();
    folder
}

fn logits(model: &Path, name: &str, scratch: &TempDir) -> Floats {
    let out = scratch.path().join("logits.safetensors");
    let args: [OsString; 7] = [
        "run".into(),
        "--model".into(),
        model.into(),
        "--inputs".into(),
        fixture(name).join("golden.safetensors").into(),
        "--outputs".into(),
        out.clone().into(),
    ];
    let output = kernels(args);
    assert!(output.status.success(), "{}", errors(&output));
    floats(&out).remove("logits").unwrap()
}

/// Files of every family compute what their folders compute.
#[test]
fn files_of_folders_are_the_same_models() {
    let scratch = TempDir::new().unwrap();
    // Published settings of the scaling, which llama.cpp's files have as divisors of frequencies.
    let published = |config: &mut serde_json::Value| {
        config["rope_parameters"]["original_max_position_embeddings"] = json!(8192);
        config["max_position_embeddings"] = json!(16384);
    };
    let linear = |config: &mut serde_json::Value| {
        config["rope_parameters"] =
            json!({"rope_type": "linear", "rope_theta": 20000.0, "factor": 2.0});
    };
    let yarn = |config: &mut serde_json::Value| {
        config["rope_parameters"] = json!({
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32,
        });
    };
    // Files have no list of layers: every sixth sees all tokens.
    let sliding = |config: &mut serde_json::Value| {
        config["layer_types"] = json!(["sliding_attention", "sliding_attention"]);
    };
    type Edit<'a> = &'a dyn Fn(&mut serde_json::Value);
    let families: [(&str, &str, Edit<'_>); 7] = [
        ("llama", "llama", &|_| ()),
        ("llama_rope3_tied", "llama", &published),
        ("mistral", "llama", &linear),
        ("qwen2", "qwen2", &yarn),
        ("qwen3", "qwen3", &|_| ()),
        ("gemma2_sw8", "gemma2", &|_| ()),
        ("gemma3_sw8_linear", "gemma3", &sliding),
    ];
    for (name, family, change) in families {
        let source = folder(name, &scratch, change);
        let expected = logits(&source, name, &scratch);
        for (to, least, most) in [("f32", 0.0, 1e-6), ("q8_0", 1e-4, 0.05)] {
            let out = scratch.path().join(format!("{name}-{to}.gguf"));
            let output = quantize(&source, to, &out);
            assert!(output.status.success(), "{name}: {}", errors(&output));
            let error = logits(&out, name, &scratch).distance_to_norm(&expected);
            assert!(error >= least && error < most, "{name}, {to}: {error}");
            let found = json(["inspect-model".as_ref(), out.as_os_str(), "--json".as_ref()]);
            assert_eq!(found["loads"], true, "{name}: {found}");
        }
        let file = File::open(&scratch.path().join(format!("{name}-q8_0.gguf"))).unwrap();
        let metadata = file.metadata();
        let architecture = metadata.string("general.architecture").unwrap();
        assert_eq!(architecture, Some(family));
        let tokens = metadata.strings("tokenizer.ggml.tokens").unwrap().unwrap();
        assert_eq!(
            (tokens.len(), tokens[98], tokens[127]),
            (128, "the", "[PAD127]")
        );
        let end = metadata.get("tokenizer.ggml.eos_token_id");
        assert_eq!(end, Some(&Value::Integer(2)));
    }
}

/// A file of floats that is quantised afterwards is the one that is quantised at once.
#[test]
fn floats_between_change_nothing() {
    let scratch = TempDir::new().unwrap();
    let source = folder("llama", &scratch, |_| ());
    let path = |name: &str| scratch.path().join(name);
    for (from, to, out) in [
        (&source, "f32", "floats.gguf"),
        (&path("floats.gguf"), "q4_0", "after.gguf"),
        (&source, "q4_0", "at-once.gguf"),
        (&path("floats.gguf"), "f16", "halves.gguf"),
        (&path("floats.gguf"), "bf16", "bfloats.gguf"),
        (&path("bfloats.gguf"), "f32", "wide.gguf"),
        (&path("wide.gguf"), "bf16", "bfloats-again.gguf"),
    ] {
        let output = quantize(from, to, &path(out));
        assert!(output.status.success(), "{out}: {}", errors(&output));
    }
    assert_eq!(digest(&path("after.gguf")), digest(&path("at-once.gguf")));
    assert_eq!(
        digest(&path("bfloats.gguf")),
        digest(&path("bfloats-again.gguf"))
    );
    let read = |name: &str| {
        File::open(&path(name))
            .unwrap()
            .read("blk.1.ffn_up.weight")
            .unwrap()
    };
    let (exact, halves, bfloats) = (
        read("floats.gguf"),
        read("halves.gguf"),
        read("bfloats.gguf"),
    );
    // Half of the last place; halves of small numbers have fewer places.
    let near = |rounded: &[f32], part: f32, least: f32| {
        let both = exact.iter().zip(rounded);
        both.clone().any(|(a, b)| a != b)
            && both.fold(true, |all, (a, b)| {
                all && (a - b).abs() <= a.abs() * part + least
            })
    };
    assert!(near(&halves, 1.0 / 2048.0, 6e-8));
    assert!(near(&bfloats, 1.0 / 256.0, 0.0) && !near(&bfloats, 1.0 / 1024.0, 0.0));
}

#[test]
fn settings_without_a_place_in_a_file_are_named() {
    let scratch = TempDir::new().unwrap();
    let said = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let source = folder(name, &scratch, change);
        let said = refused(&source, "q8_0");
        fs::remove_dir_all(source).unwrap();
        said
    };
    let none = |_: &mut serde_json::Value| ();
    let window = said("mistral_sw8", &none);
    assert!(
        window.contains("`sliding_window`: 8 is not written"),
        "{window}"
    );
    let scaling = said("llama_rope3_tied", &none);
    assert!(
        scaling.contains("`rope_parameters`: this value has no place"),
        "{scaling}"
    );
    let divisor = said("gemma2_sw8", &|config| {
        config["query_pre_attn_scalar"] = json!(32)
    });
    assert!(divisor.contains("`query_pre_attn_scalar`"), "{divisor}");
    let pattern = said("gemma3_sw8_linear", &none);
    assert!(pattern.contains("`sliding_window`"), "{pattern}");
    let family = said("mixtral", &none);
    assert!(
        family.contains("MixtralForCausalLM is not written"),
        "{family}"
    );
    let sizes = said("llama", &|config| config["intermediate_size"] = json!(64));
    assert!(sizes.contains("ffn") || sizes.contains("mlp"), "{sizes}");
    let bare = refused(&fixture("llama"), "q8_0");
    assert!(bare.contains("no tokenizer.json"), "{bare}");
    let quantised = refused(&fixture("../quantised/llama_nf4"), "q8_0");
    assert!(quantised.contains("quantised already"), "{quantised}");
}
