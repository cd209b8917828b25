//! Checkpoints: configuration, index, the headers of safetensors files, and GGUF files; importance matrices.

use crate::{target, text};
use burn::tensor::{Device, FloatDType};
use kernels_cli::Importance;
use kernels_fuzz::{Target, fuzz};
use kernels_io::header::Header;
use kernels_models::{Generation, ModelConfig, Qwen3Size, inspect, load};
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
        "\"vision_config\": {\"depth\":",
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
        // Most families have no vision tower, which is an error.
        drop(config.vision_config(origin));
        Ok(())
    });
}

#[test]
fn generation_config() {
    let words = [
        "\"eos_token_id\": [2, 7],",
        "\"do_sample\": true,",
        "\"temperature\": 0.7,",
        "\"top_k\": 0,",
        "\"top_p\":",
        "\"max_new_tokens\":",
        "\"repetition_penalty\":",
        "\"num_beams\": 1",
        "null",
        "1e308",
        "-0.0",
        "\\u001b",
    ];
    let size = Qwen3Size {
        vocab_size: 64,
        hidden_size: 8,
        intermediate_size: 8,
        num_hidden_layers: 1,
        num_attention_heads: 1,
        num_key_value_heads: 1,
        head_dim: 8,
        max_position_embeddings: 16,
        tie_word_embeddings: true,
    };
    let config = ModelConfig::qwen3(size).expect("sizes in range");
    let origin = Path::new("generation_config.json");
    fuzz(target("generation_config", &words), |input| {
        let settings = Generation::from_json(text(input)?, origin, &config);
        let settings = settings.map_err(|error| error.to_string())?;
        assert!(settings.end_tokens.iter().all(|&token| token < 64));
        let chosen = settings.probabilities(&[1.0, -2.0, 0.5], &[0, 2]);
        let total: f64 = chosen.iter().map(|(_, probability)| probability).sum();
        assert!((total - 1.0).abs() < 1e-9, "{chosen:?} {settings:?}");
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

#[test]
fn gguf() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let words = [
        "GGUF\x03\0\0\0",
        "general.architecture",
        "\x05\0\0\0\0\0\0\0llama",
        "llama.block_count\x04\0\0\0",
        "llama.rope.scaling.type\x08\0\0\0",
        "blk.0.attn_q.weight\x02\0\0\0",
        "\x09\0\0\0\x08\0\0\0\x02\0\0\0\0\0\0\0",
        "\u{1b}",
    ];
    // The number of entries, at most 100,000, is reserved at once. Reading also loads a small model.
    let target = Target {
        memory: 24 << 20,
        ..target("gguf", &words)
    };
    fuzz(target, |input| {
        fs::write(&path, input).expect("a file");
        loaded(&path)
    });
}

#[test]
fn importance() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("matrix");
    let words = [
        "GGUF\x03\0\0\0",
        "general.type\x08\0\0\0",
        "\x07\0\0\0\0\0\0\0imatrix",
        "w.in_sum2\x02\0\0\0",
        "w.counts\x02\0\0\0",
        "\x01\0\0\0w",
        "\0\0\0\u{7f}",
        "\u{1b}",
    ];
    // The reader of GGUF files reserves the number of entries, at most 100,000, at once.
    let target = Target {
        memory: 24 << 20,
        ..target("importance", &words)
    };
    fuzz(target, |input| {
        fs::write(&path, input).expect("a file");
        let matrix = Importance::open(&path).map_err(|error| format!("{error:#}"))?;
        // The weight has one matrix or two.
        let of = |dims: &[u64]| {
            let found = matrix.of("w", dims);
            found.map_err(|error| format!("{error:#}"))
        };
        let found = of(&[2, 3]).or_else(|_| of(&[2, 3, 2]))?;
        assert!(found.is_none_or(|means| {
            [2, 4].contains(&means.len())
                && means.iter().all(|mean| mean.is_finite() && *mean >= 0.0)
        }));
        Ok(())
    });
}

#[test]
fn quantised() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = [
        "\"quantization_config\":{\"quant_method\":\"",
        "\"group_size\":-1",
        "\"desc_act\":true",
        "\"symmetric\":false",
        "\"strategy\":\"block\",\"block_structure\":[8,8]",
        "\"dtype\":\"BF16\"",
        "\"blocksize\":",
        "\"nested_blocksize\":",
        "model.layers.0.mlp.gate_proj.",
        "\u{7f}\0\0\u{7f}",
        "\\u001b",
    ];
    // Reading also loads a small model.
    let target = Target {
        memory: 24 << 20,
        ..target("quantised", &words)
    };
    // The configuration is the first line of an input, and the weights follow.
    fuzz(target, |input| {
        let end = input.iter().position(|&byte| byte == b'\n');
        let (config, weights) = input.split_at(end.ok_or("no configuration")?);
        fs::write(folder.path().join("config.json"), config).expect("a file");
        fs::write(folder.path().join("model.safetensors"), &weights[1..]).expect("a file");
        loaded(folder.path())
    });
}

/// Loads a checkpoint. An inspection finds the same problems, but numbers that are not finite.
fn loaded(path: &Path) -> Result<(), String> {
    let loaded = load(path, &Device::flex(), FloatDType::F32);
    let inspected = inspect(path, &Device::flex()).expect("a path to something");
    let loaded = loaded.map(drop).map_err(|error| error.to_string());
    let decoded = |error: &String| error.contains("its scale or its code is not a finite number");
    let is_whole = loaded.is_ok() || loaded.as_ref().is_err_and(decoded);
    assert_eq!(is_whole, inspected.problems.is_empty(), "{loaded:?}");
    loaded
}
