//! Folders of models: configuration, index, and the headers of safetensors files.

use crate::{target, text};
use burn::tensor::{Device, FloatDType};
use kernels_fuzz::{Target, fuzz};
use kernels_io::header::Header;
use kernels_models::{ModelConfig, load};
use safetensors::tensor::Metadata;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[test]
fn config() {
    let words = [
        "\"architectures\": [\"LlamaForCausalLM\"],",
        "\"model_type\": \"qwen3_moe\",",
        "\"rope_parameters\": {",
        "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0},",
        "\"num_hidden_layers\":",
        "\"head_dim\":",
        "\"mlp_only_layers\": [",
        "null",
        "true",
        "1e308",
        "-0.0",
        "\\u001b",
        "\u{9b}",
    ];
    let origin = Path::new("config.json");
    fuzz(target("config", &words), |input| {
        let config =
            ModelConfig::from_json(text(input)?, origin).map_err(|error| error.to_string())?;
        let written = config.to_json();
        match ModelConfig::from_json(&written, origin) {
            Ok(again) => assert_eq!(again, config, "{written}"),
            Err(error) => panic!("{error}: {written}"),
        }
        Ok(())
    });
}

#[test]
fn header() {
    let words = [
        "\"dtype\":\"F32\"",
        "\"dtype\":\"BF16\"",
        "\"shape\":[",
        "\"data_offsets\":[0,8]",
        "\"__metadata__\":{",
        "\\u001b",
    ];
    fuzz(target("header", &words), |input| {
        let length = input.len() as u64;
        let header = Header::read(&mut &input[..], length).map_err(|error| error.to_string())?;
        let metadata = &header.metadata;
        assert_eq!(header.start + metadata.data_len() as u64, length);
        for (name, info) in metadata.tensors() {
            let (begin, end) = info.data_offsets;
            assert!(begin <= end && end <= metadata.data_len(), "{name}");
            let elements: usize = info.shape.iter().product();
            assert_eq!(elements * info.dtype.bitsize(), 8 * (end - begin), "{name}");
        }
        let written = serde_json::to_vec(metadata).expect("names and numbers are JSON");
        let again: Metadata = serde_json::from_slice(&written).expect("what was written");
        assert_eq!(in_order(&again), in_order(metadata));
        Ok(())
    });
}

fn in_order(metadata: &Metadata) -> BTreeMap<String, String> {
    let tensors = metadata.tensors().into_iter();
    tensors
        .map(|(name, info)| (name, format!("{info:?}")))
        .collect()
}

#[test]
fn index() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/models/llama");
    let folder = tempfile::tempdir().expect("a folder");
    let there = |name| folder.path().join(name);
    for (from, to) in [
        ("config.json", "config.json"),
        ("model.safetensors", "part.safetensors"),
    ] {
        fs::copy(fixture.join(from), there(to)).expect("a copy");
    }
    let words = [
        "\"weight_map\":{",
        "\"part.safetensors\"",
        "\"../part.safetensors\"",
        "\"config.json\"",
        "\".\"",
        "\"..\"",
        "\"C:\"",
        "\"model.embed_tokens.weight\":",
        "\\u0000",
        "\\u001b",
    ];
    // Reading also loads a small model.
    let target = Target {
        memory: 8 << 20,
        ..target("index", &words)
    };
    fuzz(target, |input| {
        fs::write(there("model.safetensors.index.json"), input).expect("a file");
        let loaded = load(folder.path(), &Device::flex(), FloatDType::F32);
        loaded.map(drop).map_err(|error| error.to_string())
    });
}
