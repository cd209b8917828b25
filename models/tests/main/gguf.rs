//! Tests of GGUF files against the Python package `gguf` and transformers. `generate.py` beside the fixtures made both.

use crate::comparison::relative;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::gguf::{llama, text, word};
use crate::common::{fixtures, ints, read};
use burn::tensor::{Device, FloatDType, Tensor};
use kernels_models::gguf::{File, Value};
use kernels_models::{Architecture, ModelConfig, RopeScaling, load, load_with, save};

const FAMILIES: [&str; 7] = [
    "llama",
    "llama3",
    "llama_bias",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
];

fn fixture(name: &str) -> PathBuf {
    fixtures().join("gguf").join(name)
}

fn config_of(family: &str) -> ModelConfig {
    let path = fixture(&format!("{family}.gguf"));
    load(&path, &Device::flex(), FloatDType::F32).unwrap().0
}

/// Returns the distance of a file's logits to those of transformers, relative to the largest.
fn distance(family: &str, dtype: FloatDType) -> f64 {
    let device = Device::flex();
    let (_, model) = load(&fixture(&format!("{family}.gguf")), &device, dtype).unwrap();
    let golden = read(&fixture(&format!("{family}.safetensors")));
    let logits = model.forward(ints(&golden["input_ids"], &device), None);
    let found = logits.cast(FloatDType::F64).into_data();
    let expected = golden["logits"].values();
    relative(&found.try_to_vec::<f64>().unwrap(), &expected)
}

/// The rotary frequencies of both are f32 values, whose last bit may differ.
#[test]
fn logits_are_those_of_transformers() {
    for family in FAMILIES {
        let wide = distance(family, FloatDType::F64);
        assert!(wide < 1e-6, "{family}: {wide:e} in f64");
        let single = distance(family, FloatDType::F32);
        assert!(single < 2e-5, "{family}: {single:e} in f32");
    }
}

/// Weights in a half type are those in f32, rounded once.
#[test]
fn weights_are_rounded_once() {
    let path = fixture("llama.gguf");
    let load = |dtype| load(&path, &Device::flex(), dtype).unwrap().1;
    let wide = load(FloatDType::F32).named_parameters();
    for dtype in [FloatDType::BF16, FloatDType::F16] {
        for (name, found) in load(dtype).named_parameters() {
            let device = Device::flex();
            let expected = Tensor::<1>::from_data(
                burn::tensor::TensorData::new(
                    wide[&name].try_to_vec::<f32>().unwrap(),
                    [wide[&name].num_elements()],
                ),
                &device,
            );
            let expected = expected.cast(dtype).into_data();
            assert_eq!(found.as_bytes(), expected.as_bytes(), "{name}, {dtype:?}");
        }
    }
}

/// Every type of blocks, with random bits, bit for bit.
#[test]
fn blocks_are_dequantised_as_by_the_package() {
    let file = File::open(&fixture("blocks.gguf")).unwrap();
    let expected = read(&fixture("blocks.safetensors"));
    assert_eq!(expected.len(), 11);
    for (name, expected) in expected {
        let values = file.read(&name).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(bytes, expected.bytes, "{name}");
    }
    let error = file.read("Q4_2").unwrap_err().to_string();
    assert!(
        error.ends_with("blocks.gguf: field `Q4_2`: no tensor has this name"),
        "{error}"
    );
}

#[test]
fn metadata_become_a_configuration() {
    let config = config_of("llama3");
    assert_eq!(config.architecture, Architecture::Llama);
    assert!(config.tie_word_embeddings && !config.attention_bias);
    assert_eq!(config.rms_norm_eps, 1e-5);
    assert_eq!(
        config.rope.scaling,
        RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 8192,
        }
    );
    assert!(config_of("llama_bias").attention_bias);
    let qwen = config_of("qwen2");
    assert_eq!(qwen.architecture, Architecture::Qwen2);
    assert!(matches!(qwen.rope.scaling, RopeScaling::Yarn { factor, .. } if factor == 4.0));
    let gemma = config_of("gemma3");
    assert_eq!(gemma.window(0), Some(8));
    assert_eq!(gemma.window(5), None);
    assert_eq!(gemma.scores.unwrap().query_pre_attn_scalar, 16.0);
    assert_eq!(gemma.rope.scaling, RopeScaling::Linear { factor: 8.0 });
    assert_eq!(gemma.local_rope.unwrap().scaling, RopeScaling::Default);
}

#[test]
fn a_folder_with_one_file_is_that_model() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let load = || load(folder.path(), &device, FloatDType::F32);
    fs::copy(fixture("qwen3.gguf"), folder.path().join("one.gguf")).unwrap();
    assert_eq!(load().unwrap().0.architecture, Architecture::Qwen3);
    fs::copy(fixture("llama.gguf"), folder.path().join("other.gguf")).unwrap();
    let error = load().unwrap_err().to_string();
    let expected = "holds several GGUF files; name one of them: one.gguf, other.gguf";
    assert!(error.ends_with(expected), "{error}");
    // Files in Hugging Face layout come first.
    for file in ["config.json", "model.safetensors"] {
        let from = crate::common::model_dir("qwen2").join(file);
        fs::copy(from, folder.path().join(file)).unwrap();
    }
    assert_eq!(load().unwrap().0.architecture, Architecture::Qwen2);
}

/// A model of a GGUF file is written in Hugging Face layout and read back without a change.
#[test]
fn models_are_saved_in_the_other_layout() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    for family in FAMILIES {
        let path = fixture(&format!("{family}.gguf"));
        let (config, model) = load(&path, &device, FloatDType::F32).unwrap();
        let target = folder.path().join(family);
        save(&model, &config, &target, None).unwrap();
        let (again, copy) = load(&target, &device, FloatDType::F32).unwrap();
        assert_eq!(again.rope, config.rope, "{family}");
        let (before, after) = (model.named_parameters(), copy.named_parameters());
        assert!(before.keys().eq(after.keys()), "{family}");
        for (name, value) in before {
            assert_eq!(
                value.as_bytes(),
                after[&name].as_bytes(),
                "{family}: {name}"
            );
        }
    }
}

#[test]
fn the_tokenizer_is_in_the_metadata() {
    let file = File::open(&fixture("llama.gguf")).unwrap();
    let metadata = file.metadata();
    let tokens = metadata.strings("tokenizer.ggml.tokens").unwrap().unwrap();
    assert_eq!((tokens.len(), tokens[3]), (40, "A"));
    let types = metadata.integers("tokenizer.ggml.token_type").unwrap();
    assert_eq!(types.unwrap()[..4], [2, 3, 3, 1]);
    let merges = metadata.strings("tokenizer.ggml.merges").unwrap();
    assert_eq!(merges.unwrap(), ["A B", "C D"]);
    assert_eq!(
        metadata.integer("tokenizer.ggml.eos_token_id").unwrap(),
        Some(2)
    );
    assert_eq!(
        metadata.string("tokenizer.ggml.model").unwrap(),
        Some("gpt2")
    );
    assert_eq!(metadata.string("tokenizer.ggml.absent").unwrap(), None);
    assert_eq!(metadata.number("llama.rope.freq_base").unwrap(), Some(1e4));
    assert_eq!(
        metadata.get("tokenizer.ggml.bos_token_id"),
        Some(&Value::Integer(1))
    );
    let error = metadata
        .integer("tokenizer.ggml.tokens")
        .unwrap_err()
        .to_string();
    let expected =
        "llama.gguf: field `tokenizer.ggml.tokens`: expected an integer, found a list of 40";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn progress_counts_every_byte_once() {
    let mut seen = Vec::new();
    let mut note = |progress| seen.push(progress);
    let path = fixture("llama.gguf");
    load_with(&path, &Device::flex(), FloatDType::F32, &mut note).unwrap();
    assert_eq!(seen[0].read, 0);
    assert!(seen.is_sorted_by_key(|progress| progress.read));
    let last = seen.last().unwrap();
    assert_eq!(last.read, last.total);
    // 21 tensors, and the report before the first.
    assert_eq!(seen.len(), 22);
    let length = fs::metadata(&path).unwrap().len();
    assert!(last.total < length && last.total > length * 9 / 10);
}

/// Files of Mistral say `llama`. Only those have a window.
#[test]
fn a_llama_with_a_window_is_a_mistral() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mistral.gguf");
    let mut parts = llama(64, 32);
    let key = text("llama.attention.sliding_window");
    parts.metadata.extend([key, word(4), word(16)].concat());
    parts.entries += 1;
    fs::write(&path, parts.bytes()).unwrap();
    let (config, _) = load(&path, &Device::flex(), FloatDType::F32).unwrap();
    assert_eq!(config.architecture, Architecture::Mistral);
    assert_eq!(config.window(0), Some(16));
}

/// Makes a copy of a file with some bytes replaced by others of the same length, at every place.
fn changed(folder: &Path, family: &str, from: &[u8], to: &[u8]) -> PathBuf {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(fixture(&format!("{family}.gguf"))).unwrap();
    let places: Vec<usize> = (0..=bytes.len() - from.len())
        .filter(|&at| bytes[at..].starts_with(from))
        .collect();
    assert!(!places.is_empty(), "{:?}", String::from_utf8_lossy(from));
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    let path = folder.join("changed.gguf");
    fs::write(&path, bytes).unwrap();
    path
}

fn error_of(path: &Path) -> String {
    match load(path, &Device::flex(), FloatDType::F32) {
        Ok(_) => panic!("{} was accepted", path.display()),
        Err(error) => error.to_string(),
    }
}

/// A key with its type and the value after it, as they lie in a file.
fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [key.as_bytes(), &kind.to_le_bytes(), value].concat()
}

#[test]
fn models_that_are_not_understood_are_refused_with_the_key() {
    const U32: u32 = 4;
    let folder = tempfile::tempdir().unwrap();
    let word = |number: u32| number.to_le_bytes();
    let size =
        |key: &str, from: u32, to: u32| (entry(key, U32, &word(from)), entry(key, U32, &word(to)));
    let named = |from: &str, to: &str| (from.as_bytes().to_vec(), to.as_bytes().to_vec());
    #[rustfmt::skip] // one case, one line
    let cases = [
        ("llama", named("general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama", "general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llamo"), "field `general.architecture`: `llamo` is not read from GGUF files; the nearest is llama; read are llama, qwen2, qwen3, gemma2, gemma3"),
        ("llama", named("general.architecture", "general.architectura"), "field `general.architecture`: missing"),
        ("llama", named("llama.embedding_length", "llama.embedding_lengtx"), "field `llama.embedding_lengtx`: 32 is not supported"),
        ("llama", named("llama.block_count", "llama.xlock_count"), "field `llama.xlock_count`: 2 is not supported"),
        ("llama", named("tokenizer.ggml.pre", "llama.expert.count"), "field `llama.expert.count`: `smollm` is not supported"),
        ("llama", size("llama.block_count", 2, 16_000), "field `llama.block_count`: 16000 contradicts the tensors, which are of 2 layers"),
        ("llama", size("llama.vocab_size", 40, 41), "field `llama.vocab_size`: 41 contradicts the embedding, which has 40 rows"),
        ("llama", size("llama.attention.head_count_kv", 2, 3), "field `num_key_value_heads`: 3 does not divide"),
        ("llama", size("llama.rope.dimension_count", 8, 4), "field `partial_rotary_factor`"),
        ("llama", size("llama.attention.head_count", 4, 0), "field `llama.attention.head_count`: 0 heads do not divide the width 32"),
        ("qwen3", size("qwen3.attention.value_length", 16, 8), "field `qwen3.attention.value_length`: 8 differs from the width of keys, 16"),
        ("qwen2", named("yarn", "lamb"), "field `rope_scaling.rope_type`: `lamb` is not supported; supported: default, linear, llama3, yarn"),
        ("llama3", last_divisor(8.0, 7.0), "field `rope_freqs.weight`: holds divisors of rotary frequencies"),
        ("llama", named("blk.0.attn_q.weight", "blk.0.attn_x.weight"), "tensor `model.layers.0.self_attn.q_proj.weight`: missing; expected shape [32, 32]"),
        ("llama", named("blk.0.attn_q.weight", "blk.0.attn_x.weight"), "tensor `blk.0.attn_x.weight`: unexpected: LlamaForCausalLM of this configuration has no such parameter"),
        ("llama", size("llama.feed_forward_length", 64, 96), "tensor `model.layers.0.mlp.gate_proj.weight`: expected shape [96, 32], found [64, 32]"),
    ];
    for (family, (from, to), expected) in cases {
        let error = error_of(&changed(folder.path(), family, &from, &to));
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(error.contains("changed.gguf"), "{error}");
    }
}

/// The last two divisors of `llama3.gguf`, of which the last is the largest, and the same with another last.
fn last_divisor(from: f32, to: f32) -> (Vec<u8>, Vec<u8>) {
    let bytes = fs::read(fixture("llama3.gguf")).unwrap();
    let (one, from) = (1.0_f32.to_le_bytes(), from.to_le_bytes());
    let is_last = |at: &usize| bytes[*at..].starts_with(&from) && bytes[at - 8..].starts_with(&one);
    let at = (8..bytes.len()).find(is_last).expect("the divisors");
    let before = &bytes[at - 8..at];
    (
        [before, &from].concat(),
        [before, &to.to_le_bytes()].concat(),
    )
}

#[test]
fn types_that_are_not_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    // The type follows the name, the number of axes and the axes. Q4_0 has the size of IQ4_NL.
    let header = |kind: u32| {
        let axes = [32_u64.to_le_bytes(), 32_u64.to_le_bytes()].concat();
        let name = b"blk.0.attn_q.weight".to_vec();
        [
            name,
            2_u32.to_le_bytes().to_vec(),
            axes,
            kind.to_le_bytes().to_vec(),
        ]
        .concat()
    };
    let file = changed(folder.path(), "qwen2", &header(2), &header(20));
    let error = error_of(&file);
    let expected = "tensor `model.layers.0.self_attn.q_proj.weight`: expected dtype F32, F16, BF16, F64, Q8_0, Q4_0, \
                    Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K or MXFP4, found IQ4_NL";
    assert!(error.contains(expected), "{error}");
}
