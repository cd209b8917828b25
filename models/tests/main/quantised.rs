//! Tests of checkpoints whose experts are stored in MXFP4, or whose matrices in FP8.

use std::path::Path;

use crate::common::{
    Stored, copy_of, edit_config, edit_tensors, fixtures, model_dir, read, to_f64,
};
use burn::tensor::{Device, FloatDType};
use kernels_models::{ModelConfig, inspect, load, save};
use safetensors::Dtype;
use serde_json::json;
use tempfile::TempDir;

const STACK: &str = "model.layers.0.mlp.experts.gate_up_proj";

/// Writes a model of one layer with two experts, whose gates and ups are those of the fixture: `[2, 96, 6]`.
fn quantised() -> TempDir {
    let config = copy_of("gpt_oss_sw8");
    edit_config(config.path(), |config| {
        for (name, size) in [
            ("hidden_size", 96),
            ("intermediate_size", 3),
            ("num_local_experts", 2),
            ("num_experts_per_tok", 1),
            ("num_hidden_layers", 1),
        ] {
            config.insert(name.into(), json!(size));
        }
        config.insert("layer_types".into(), json!(["full_attention"]));
    });
    let config = ModelConfig::from_file(&config.path().join("config.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    save(&config.init(&Device::default()), &config, dir.path(), None).unwrap();
    let mut packed = read(&fixtures().join("ops/mxfp4.safetensors"));
    edit_tensors(dir.path(), |file| {
        file.remove(STACK).unwrap();
        for part in ["blocks", "scales"] {
            file.insert(format!("{STACK}_{part}"), packed.remove(part).unwrap());
        }
    });
    edit_config(dir.path(), |config| {
        let quantised = json!({ "quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"] });
        config.insert("quantization_config".into(), quantised);
    });
    dir
}

fn error_of(dir: &Path) -> String {
    let error = load(dir, &Device::default(), FloatDType::F32).unwrap_err();
    error.to_string()
}

/// Weights are those that `transformers` makes of the file. Saved, they are floats, and the configuration says so.
#[test]
fn weights_are_those_of_transformers() {
    let dir = quantised();
    let expected = read(&fixtures().join("ops/mxfp4.safetensors"))["weights"].values();
    for dtype in [FloatDType::F32, FloatDType::F64, FloatDType::BF16] {
        let (config, model) = load(dir.path(), &Device::default(), dtype).unwrap();
        let parameters = model.named_parameters();
        assert_eq!(parameters[STACK].shape().as_slice(), [2, 96, 6]);
        // All numbers of 4 bits times a power of two are exact in bf16, too.
        assert_eq!(to_f64(&parameters[STACK]), expected, "{dtype:?}");

        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("floats");
        save(&model, &config, &target, None).unwrap();
        assert!(!config.to_json().contains("quantization_config"));
        let (_, again) = load(&target, &Device::default(), dtype).unwrap();
        assert!(parameters == again.named_parameters());
    }
}

#[test]
fn incomplete_or_other_formats_are_refused() {
    let dir = quantised();
    edit_tensors(dir.path(), |file| {
        file.remove(&format!("{STACK}_scales")).unwrap();
    });
    let error = error_of(dir.path());
    let says = format!("`{STACK}_scales`: missing; expected shape [2, 6, 3]");
    assert!(error.contains(&says), "{error}");

    let dir = quantised();
    edit_tensors(dir.path(), |file| {
        let blocks = file.get_mut(&format!("{STACK}_blocks")).unwrap();
        blocks.shape = vec![2, 6, 16, 3];
    });
    let error = error_of(dir.path());
    assert!(error.contains("expected shape [2, 6, 3, 16]"), "{error}");

    let dir = quantised();
    edit_tensors(dir.path(), |file| {
        let name = format!("{STACK}_scales");
        let scales = Stored::f32(&[2, 6, 3], &[1.0; 36]);
        assert!(
            file.insert(name, scales)
                .is_some_and(|old| old.dtype == Dtype::U8)
        );
    });
    let error = error_of(dir.path());
    assert!(error.contains("expected dtype U8, found F32"), "{error}");

    let dir = quantised();
    edit_tensors(dir.path(), |file| {
        let scales = file.get_mut(&format!("{STACK}_scales")).unwrap();
        *scales.bytes.last_mut().unwrap() = 255;
    });
    let says = format!("tensor `{STACK}_scales`: part \"scales\": number 35 is 255, which is NaN");
    let error = error_of(dir.path());
    assert!(error.contains(&says), "{error}");
    // Before a weight is read.
    let found = inspect(dir.path(), &Device::default()).unwrap().problems;
    assert!(found.len() == 1 && found[0].contains(&says), "{found:?}");

    let dir = quantised();
    edit_tensors(dir.path(), |file| {
        file.insert(STACK.into(), Stored::f32(&[2, 96, 6], &[0.0; 1152]));
    });
    let error = error_of(dir.path());
    assert!(error.contains("holds what"), "{error}");

    for (method, says) in [
        (json!("quark"), "and mxfp4"),
        (json!(null), "not supported"),
    ] {
        let dir = quantised();
        edit_config(dir.path(), |config| {
            config["quantization_config"]["quant_method"] = method;
        });
        let error = error_of(dir.path());
        let field = "field `quantization_config.quant_method`: ";
        assert!(error.contains(field) && error.contains(says), "{error}");
    }
}

/// Only gpt-oss has such files.
#[test]
fn other_families_have_no_quantised_weights() {
    let file = read(&model_dir("llama4_chunk8").join("model.safetensors"));
    let name = "model.layers.1.feed_forward.experts.gate_up_proj";
    assert!(file.contains_key(name));
    let dir = copy_of("llama4_chunk8");
    edit_tensors(dir.path(), |file| {
        let stack = file.remove(name).unwrap();
        file.insert(format!("{name}_blocks"), stack);
    });
    let error = error_of(dir.path());
    assert!(error.contains(&format!("`{name}`: missing")), "{error}");
    assert!(
        error.contains(&format!("`{name}_blocks`: unexpected")),
        "{error}"
    );
}

/// Matrices of DeepSeek-V3: more rows than a block has, more columns, and a part of the experts of a layer.
const MATRICES: [(&str, [usize; 2]); 3] = [
    ("model.layers.0.mlp.gate_proj.weight", [160, 64]),
    ("model.layers.0.mlp.down_proj.weight", [64, 160]),
    ("model.layers.1.mlp.experts.3.up_proj.weight", [48, 64]),
];

fn byte(at: usize) -> u8 {
    match (at * 37 + at / 256) % 256 {
        // Not a number.
        127 | 255 => 1,
        byte => byte as u8,
    }
}

fn factor(row: usize, column: usize) -> f32 {
    0.01 + row as f32 * 0.125 + column as f32 * 0.3
}

/// Writes a DeepSeek-V3 with some matrices in FP8.
fn of_8_bits() -> TempDir {
    let config = copy_of("deepseek_v3_yarn");
    edit_config(config.path(), |config| {
        config.insert("intermediate_size".into(), json!(160));
    });
    let config = ModelConfig::from_file(&config.path().join("config.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    save(&config.init(&Device::default()), &config, dir.path(), None).unwrap();
    edit_tensors(dir.path(), |file| {
        for (name, shape @ [rows, columns]) in MATRICES {
            let bytes = (0..rows * columns).map(byte).collect();
            let weight = Stored {
                dtype: Dtype::F8_E4M3,
                shape: shape.to_vec(),
                bytes,
            };
            assert_eq!(file.insert(name.into(), weight).unwrap().shape, shape);
            let blocks = [rows.div_ceil(128), columns.div_ceil(128)];
            let factors =
                (0..blocks[0] * blocks[1]).map(|at| factor(at / blocks[1], at % blocks[1]));
            let scales = Stored::f32(&blocks, &factors.collect::<Vec<_>>());
            file.insert(format!("{name}_scale_inv"), scales);
        }
    });
    edit_config(dir.path(), |config| {
        let quantised = json!({
            "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]
        });
        config.insert("quantization_config".into(), quantised);
    });
    dir
}

#[test]
fn numbers_of_8_bits_are_those_of_torch() {
    let dir = of_8_bits();
    let numbers = read(&fixtures().join("ops/fp8.safetensors"))["numbers"].values();
    for dtype in [FloatDType::F32, FloatDType::F64] {
        let (config, model) = load(dir.path(), &Device::default(), dtype).unwrap();
        let parameters = model.named_parameters();
        for (name, [rows, columns]) in MATRICES {
            let expected = (0..rows * columns).map(|at| {
                let (row, column) = (at / columns, at % columns);
                let factor = factor(row / 128, column / 128);
                // As torch computes it, in f32.
                f64::from(numbers[usize::from(byte(at))] as f32 * factor)
            });
            let expected: Vec<f64> = expected.collect();
            assert_eq!(to_f64(&parameters[name]), expected, "{name}, {dtype:?}");
        }
        assert!(!config.to_json().contains("quantization_config"));
    }
}

#[test]
fn wrong_factors_are_refused() {
    let (name, _) = MATRICES[0];
    let scales = format!("{name}_scale_inv");
    let dir = of_8_bits();
    edit_tensors(dir.path(), |file| drop(file.remove(&scales).unwrap()));
    let error = error_of(dir.path());
    // Without factors, nothing says that these are the numbers of a weight.
    let says = format!("`{name}`: expected dtype F16, BF16, F32 or F64, found F8_E4M3");
    assert!(error.contains(&says), "{error}");

    let dir = of_8_bits();
    edit_tensors(dir.path(), |file| {
        file.get_mut(&scales).unwrap().shape = vec![1, 2]
    });
    let error = error_of(dir.path());
    let says = "has shape [1, 2]; expected [2, 1]";
    assert!(
        error.contains(&format!("`{name}`: ")) && error.contains(says),
        "{error}"
    );

    let dir = of_8_bits();
    edit_config(dir.path(), |config| {
        config["quantization_config"]["weight_block_size"] = json!([64, 64]);
    });
    let error = error_of(dir.path());
    let says = "has shape [2, 1]; expected [3, 1]";
    assert!(error.contains(says), "{error}");

    // No configuration says how these are meant.
    let dir = copy_of("llama");
    edit_tensors(dir.path(), |file| {
        let weight = file.get_mut("model.layers.0.mlp.gate_proj.weight").unwrap();
        weight.dtype = Dtype::F8_E4M3;
        weight.bytes.truncate(96 * 64);
    });
    let error = error_of(dir.path());
    assert!(
        error.contains("expected dtype F16, BF16, F32 or F64, found F8_E4M3"),
        "{error}"
    );
}
