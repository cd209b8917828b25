//! Tests the memory that loading and generation take.

use crate::common::gguf::llama_of;
use crate::common::{Stored, edit_config, edit_tensors};
use crate::counting::{Since, alone};

use std::fs;
use std::path::{Path, PathBuf};

use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn_kernels::live::{self, Sampling};
use kernels_models::{
    AdapterConfig, ExpertStorage, ModelConfig, QuantisedWeights, Qwen3MoeSize, Qwen3Size, load,
    load_as, save, save_with,
};
use safetensors::Dtype;
use serde_json::json;

/// The number of bytes that a piece of a tensor and the rest of a load may take beside the model.
const BESIDE: usize = 6 << 20;

/// Nearly all of each model is in few large tensors, more than a piece each. No layout of the checkpoint may need a second
/// copy of one, in the same dtype or in another.
#[test]
fn no_tensor_is_held_twice() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    experts(folder.path());
    matrices(folder.path());
    blocks(folder.path());
    quantised(folder.path());
    vocabulary(folder.path());
}

fn size() -> Qwen3Size {
    Qwen3Size {
        vocab_size: 64,
        hidden_size: 256,
        intermediate_size: 64,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        num_key_value_heads: 2,
        head_dim: 32,
        max_position_embeddings: 64,
        tie_word_embeddings: true,
    }
}

/// The experts of one layer, 36 MiB in f32.
fn experts(folder: &Path) {
    let config = ModelConfig::qwen3_moe(Qwen3MoeSize {
        dense: size(),
        num_experts: 48,
        num_experts_per_tok: 2,
        moe_intermediate_size: 256,
        router_aux_loss_coef: 0.0,
    })
    .unwrap();
    for experts in [ExpertStorage::PerExpert, ExpertStorage::Stacked] {
        let target = folder.join(format!("{experts:?}"));
        let model = config.init(&Device::default());
        save_with(&model, &config, &target, None, experts).unwrap();
        drop(model);
        measure(&target, 36 << 20);
    }
}

/// The matrices of an MLP, 16 MiB each in f32, stored in two dtypes.
fn matrices(folder: &Path) {
    let config = ModelConfig::qwen3(Qwen3Size {
        hidden_size: 1024,
        intermediate_size: 4096,
        ..size()
    });
    let config = config.unwrap();
    let device = Device::default();
    let [single, half] = ["f32", "bf16"].map(|name| folder.join(name));
    save(&config.init(&device), &config, &single, None).unwrap();
    let (_, model) = load(&single, &device, FloatDType::BF16).unwrap();
    save(&model, &config, &half, None).unwrap();
    drop(model);
    for path in [single, half] {
        measure(&path, 48 << 20);
    }
}

/// The same in quantised blocks.
fn blocks(folder: &Path) {
    measure(&of_blocks(folder), 64 << 20);
}

/// Writes a GGUF file of these.
fn of_blocks(folder: &Path) -> PathBuf {
    write(folder, crate::common::gguf::llama(1024, 4096))
}

fn write(folder: &Path, parts: crate::common::gguf::Parts) -> PathBuf {
    let path = folder.join("blocks.gguf");
    let header = parts.header();
    fs::write(&path, &header).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len((header.len() + parts.data) as u64).unwrap();
    path
}

/// Quantised weights that stay so take the bytes of the file. Neither a pass forward nor the gradients of adapters make floats
/// of a matrix, which would be 16 MiB.
#[test]
fn kept_weights_take_the_bytes_of_the_file() {
    let _alone = alone();
    let _unverified = live::scope(Sampling::off());
    let folder = tempfile::tempdir().unwrap();
    let path = of_blocks(folder.path());
    let file = fs::metadata(&path).unwrap().len() as usize;
    let device = Device::flex().autodiff();
    let since = Since::now();
    let kept = QuantisedWeights::Kept;
    let (_, model) = load_as(&path, &device, FloatDType::F32, kept, &mut |_| {}).unwrap();
    let (held, peak) = (since.held() as usize, since.peak());
    assert!(held < file + file / 10, "{held} bytes for a file of {file}");
    // Rows in the model's order are a second copy of one matrix.
    assert!(
        peak < held + (5 << 20) + BESIDE,
        "{peak} bytes, {held} after"
    );

    let model = model.with_adapters(&adapters(), 1).unwrap();
    let ids = Tensor::<2, Int>::zeros([2, 9], &device);
    let since = Since::now();
    let (_, loss) = model.loss(ids, None);
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    assert_eq!(gradients.len(), 2 * 7);
    let peak = since.peak();
    assert!(peak < 14 << 20, "{peak} bytes beside the model");
}

fn adapters() -> AdapterConfig {
    AdapterConfig {
        rank: 2,
        alpha: 4.0,
        dropout: 0.0,
        rank_stabilised: false,
        targets: Vec::new(),
        patterns: Default::default(),
    }
}

/// A model that is nearly all embedding, which is its output projection too: 64 MiB in floats. Lookups, logits, losses
/// and gradients of adapters take its bytes.
#[test]
fn a_kept_embedding_takes_the_bytes_of_the_file() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (vocabulary, hidden) = (1 << 16, 256);
    let path = write(
        folder.path(),
        llama_of(vocabulary as u64, hidden as u64, 256),
    );
    let file = fs::metadata(&path).unwrap().len() as usize;
    let in_floats = vocabulary * hidden * 4;
    let kept = QuantisedWeights::Kept;
    for dtype in [FloatDType::F32, FloatDType::BF16] {
        let since = Since::now();
        let (config, model) = load_as(&path, &Device::flex(), dtype, kept, &mut |_| {}).unwrap();
        let (held, peak) = (since.held() as usize, since.peak());
        assert!(held < file + file / 10, "{held} bytes for a file of {file}");
        assert!(peak < held + BESIDE, "{peak} bytes, {held} after");
        // The first call is verified.
        let since = Since::now();
        let mut cache = config.cache();
        let mut ids = Tensor::<2, Int>::from_data([[1, 2, 65535]], &Device::flex());
        for _ in 0..3 {
            let logits = model.next(ids, &mut cache).unwrap();
            ids = logits.argmax(2).squeeze_dim(2);
        }
        let peak = since.peak();
        assert!(peak < in_floats / 2, "{peak} bytes in generation");
    }

    let device = Device::flex().autodiff();
    let (_, model) = load_as(&path, &device, FloatDType::F32, kept, &mut |_| {}).unwrap();
    let model = model.with_adapters(&adapters(), 1).unwrap();
    for _ in 0..2 {
        let since = Since::now();
        let ids = Tensor::<2, Int>::from_data([[1, 2, 65535, 4]], &device);
        let loss = model.training_losses(ids, None).total;
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        assert_eq!(gradients.len(), 2 * 7);
        let peak = since.peak();
        assert!(peak < in_floats / 2, "{peak} bytes in training");
    }
}

/// Writes a gpt-oss of one layer whose experts are nearly all of it, in MXFP4: 24 MiB of bytes, 192 MiB in floats. All
/// numbers are zero.
fn of_experts(folder: &Path) -> PathBuf {
    let (count, hidden, width) = (16, 1024, 1024);
    let path = folder.join("experts");
    fs::create_dir(&path).unwrap();
    let published = crate::common::fixtures().join("quantised/gpt_oss_mxfp4/config.json");
    fs::copy(published, path.join("config.json")).unwrap();
    edit_config(&path, |config| {
        for (name, size) in [
            ("hidden_size", hidden),
            ("intermediate_size", width),
            ("num_local_experts", count),
            ("num_hidden_layers", 1),
        ] {
            config.insert(name.into(), json!(size));
        }
        config.insert("layer_types".into(), json!(["full_attention"]));
    });
    let (heads, of_head, vocabulary) = (4, 8, 48);
    let (queries, keys) = (heads * of_head, 2 * of_head);
    let floats: [(&str, &[usize]); 18] = [
        ("model.embed_tokens.weight", &[vocabulary, hidden]),
        ("model.norm.weight", &[hidden]),
        ("lm_head.weight", &[vocabulary, hidden]),
        ("input_layernorm.weight", &[hidden]),
        ("post_attention_layernorm.weight", &[hidden]),
        ("self_attn.q_proj.weight", &[queries, hidden]),
        ("self_attn.q_proj.bias", &[queries]),
        ("self_attn.k_proj.weight", &[keys, hidden]),
        ("self_attn.k_proj.bias", &[keys]),
        ("self_attn.v_proj.weight", &[keys, hidden]),
        ("self_attn.v_proj.bias", &[keys]),
        ("self_attn.o_proj.weight", &[hidden, queries]),
        ("self_attn.o_proj.bias", &[hidden]),
        ("self_attn.sinks", &[heads]),
        ("mlp.router.weight", &[count, hidden]),
        ("mlp.router.bias", &[count]),
        ("mlp.experts.gate_up_proj_bias", &[count, 2 * width]),
        ("mlp.experts.down_proj_bias", &[count, hidden]),
    ];
    let bytes: [(&str, &[usize]); 4] = [
        ("gate_up_proj_blocks", &[count, 2 * width, hidden / 32, 16]),
        ("gate_up_proj_scales", &[count, 2 * width, hidden / 32]),
        ("down_proj_blocks", &[count, hidden, width / 32, 16]),
        ("down_proj_scales", &[count, hidden, width / 32]),
    ];
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    let mut add = |name: String, dtype: &str, size: usize, shape: &[usize]| {
        let begin = end;
        end += shape.iter().product::<usize>() * size;
        let tensor = json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]});
        header.insert(name, tensor);
    };
    for (name, shape) in floats {
        let is_outside = name.starts_with("model.") || name.starts_with("lm_head.");
        let start = if is_outside { "" } else { "model.layers.0." };
        add(format!("{start}{name}"), "BF16", 2, shape);
    }
    for (name, shape) in bytes {
        add(format!("model.layers.0.mlp.experts.{name}"), "U8", 1, shape);
    }
    let mut header = serde_json::to_vec(&header).unwrap();
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = (header.len() as u64).to_le_bytes();
    let file = path.join("model.safetensors");
    fs::write(&file, [&length[..], &header].concat()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&file).unwrap();
    file.set_len((8 + header.len() + end) as u64).unwrap();
    path
}

#[test]
fn kept_experts_take_the_bytes_of_the_file() {
    let _alone = alone();
    let _unverified = live::scope(Sampling::off());
    let folder = tempfile::tempdir().unwrap();
    let path = of_experts(folder.path());
    let file = fs::metadata(path.join("model.safetensors")).unwrap().len() as usize;
    let in_floats = 16 * 3 * 1024 * 1024 * 4;
    let device = Device::flex().autodiff();
    for dtype in [FloatDType::F32, FloatDType::BF16] {
        let since = Since::now();
        let kept = QuantisedWeights::Kept;
        let (_, model) = load_as(&path, &device, dtype, kept, &mut |_| {}).unwrap();
        let (held, peak) = (since.held() as usize, since.peak());
        assert!(held < file + file / 10, "{held} bytes for a file of {file}");
        assert!(peak < held + BESIDE, "{peak} bytes, {held} after");
        let model = model.with_adapters(&adapters(), 1).unwrap();
        let since = Since::now();
        let ids = Tensor::<2, Int>::from_data([[1, 2, 3, 4, 5, 6, 7]], &device);
        let loss = model.training_losses(ids, None).total;
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        assert!(gradients.len() >= 2 * 4);
        let peak = since.peak();
        assert!(peak < in_floats / 8, "{peak} bytes beside the model");
    }
}

/// The same in a folder, in 8 bits with a scale for each row. One matrix is in memory as it is stored, 4 MiB.
fn quantised(folder: &Path) {
    let path = folder.join("int8");
    let config = ModelConfig::qwen3(Qwen3Size {
        hidden_size: 1024,
        intermediate_size: 4096,
        ..size()
    });
    let config = config.unwrap();
    save(&config.init(&Device::default()), &config, &path, None).unwrap();
    edit_tensors(&path, |file| {
        for layer in ["gate_proj", "up_proj", "down_proj"] {
            let layer = format!("model.layers.0.mlp.{layer}");
            let weight = file.get_mut(&format!("{layer}.weight")).unwrap();
            weight.dtype = Dtype::I8;
            weight.bytes.truncate(1024 * 4096);
            let rows = weight.shape[0];
            let scales = Stored::f32(&[rows], &vec![0.5; rows]);
            file.insert(format!("{layer}.SCB"), scales);
        }
    });
    edit_config(&path, |config| {
        let int8 = json!({"quant_method": "bitsandbytes", "load_in_8bit": true});
        config.insert("quantization_config".into(), int8);
    });
    measure_beside(&path, 48 << 20, BESIDE + (4 << 20));
}

/// A model that is nearly all embedding, tied to the output projection or beside it. In the computing dtype, no more than a
/// quarter of the weights is in memory beside them: neither while they are loaded nor in generation, where live
/// verification compares every call.
fn vocabulary(folder: &Path) {
    let device = Device::default();
    let _verified = live::scope("every:1".parse::<Sampling>().unwrap());
    for tied in [true, false] {
        let config = ModelConfig::qwen3(Qwen3Size {
            vocab_size: 1 << 16,
            tie_word_embeddings: tied,
            ..size()
        });
        let config = config.unwrap();
        let path = folder.join(format!("tied-{tied}"));
        save(&config.init(&device), &config, &path, None).unwrap();
        for dtype in [
            FloatDType::F64,
            FloatDType::F32,
            FloatDType::BF16,
            FloatDType::F16,
        ] {
            let since = Since::now();
            let (config, model) = load(&path, &device, dtype).unwrap();
            let weights = since.held() as usize;
            let mut cache = config.cache();
            let mut ids = Tensor::<2, Int>::from_data([[1, 2, 3]], &device);
            for _ in 0..3 {
                let logits = model.next(ids, &mut cache).unwrap();
                ids = logits.argmax(2).squeeze_dim(2);
            }
            let peak = since.peak();
            assert!(
                peak < weights + weights / 4 + 2 * BESIDE,
                "tied {tied}, {dtype:?}: {peak} bytes for weights of {weights}"
            );
        }
    }
}

/// Loads a model of more than so many bytes in f32, in two dtypes.
fn measure(path: &Path, bytes: usize) {
    measure_beside(path, bytes, BESIDE);
}

/// Does the same, and allows so many bytes beside the model.
fn measure_beside(path: &Path, bytes: usize, beside: usize) {
    for (dtype, bytes) in [(FloatDType::F32, bytes), (FloatDType::BF16, bytes / 2)] {
        let since = Since::now();
        let model = load(path, &Device::default(), dtype).unwrap();
        let (after, peak) = (since.held() as usize, since.peak());
        let what = format!("{}, {dtype:?}", path.display());
        assert!(after > bytes, "{what}: {after}");
        assert!(
            peak < after + beside,
            "{what}: {peak} bytes for a model of {after}"
        );
        drop(model);
    }
}
