//! Vision towers alone: results, gradients, sites, configurations and tensors.

use super::{TOWERS, features, floats, golden, policies, refusal};
use crate::common::{
    self, check_gradients, copy_of, edit_config, edit_tensors, model_dir, relative_l2, to_f64,
};
use crate::comparison::relative;
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report;
use kernels_models::{ModelConfig, load, load_vision_tower};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn towers_are_those_of_transformers() {
    for name in TOWERS {
        let golden = golden(name);
        for (kernels, _policy) in policies() {
            for (dtype, suffix, tolerance) in [
                (FloatDType::F32, "", 1e-5),
                (FloatDType::F64, "_f64", 1e-12),
            ] {
                let device = Device::default().autodiff();
                let label = format!("{name}, kernels {kernels}, {dtype:?}");
                let tower = load_vision_tower(&model_dir(name), &device, dtype).unwrap();
                let mut loss: Option<Tensor<1>> = None;
                let results = features(&tower, &golden, &device);
                let stored = golden.keys().filter(|key| key.starts_with("out.")).count();
                assert_eq!(results.len(), stored, "{label}");
                for (result, features) in results {
                    let expected = golden[&format!("out{suffix}.{result}")].values();
                    let error = relative(&to_f64(&features.to_data()), &expected);
                    assert!(error < tolerance, "{label}: {result} off by {error:e}");
                    let weights = floats(&golden[&format!("loss_weights.{result}")], &device);
                    let product = (features * weights.cast(dtype)).sum();
                    loss = Some(loss.map_or(product.clone(), |loss| loss + product));
                }
                let gradients = tower.gradients(&loss.unwrap().backward());
                check_gradients(&label, &golden, &gradients);
            }
        }
    }
}

/// In half types every operation rounds. The bound is the distance of `transformers`' run from the exact result, with some room
/// for chance.
#[test]
fn half_types_are_as_exact_as_transformers() {
    for name in TOWERS {
        let golden = golden(name);
        for (kernels, _policy) in policies() {
            let device = Device::default();
            for (dtype, most) in [(FloatDType::BF16, 1.3), (FloatDType::F16, 0.2)] {
                let tower = load_vision_tower(&model_dir(name), &device, dtype).unwrap();
                for (result, features) in features(&tower, &golden, &device) {
                    let exact = golden[&format!("out_f64.{result}")].values();
                    let theirs =
                        relative_l2(&golden[&format!("out_bf16.{result}")].values(), &exact);
                    let ours = relative_l2(&to_f64(&features.to_data()), &exact);
                    assert!(
                        ours < most * theirs,
                        "{name}, kernels {kernels}, {dtype:?}: {result} off by {ours:e}, theirs by {theirs:e}"
                    );
                }
            }
        }
    }
}

/// The gradient of each parameter of a tower is within a tenth of the exact one: it is a sum over all patches of products that
/// are rounded at each of some twenty operations, each by up to 2⁻⁸.
#[test]
fn gradients_in_bf16_are_near_the_exact_ones() {
    for name in TOWERS {
        let golden = golden(name);
        for (kernels, _policy) in policies() {
            let [exact, found] = [FloatDType::F64, FloatDType::BF16].map(|dtype| {
                let device = Device::default().autodiff();
                let tower = load_vision_tower(&model_dir(name), &device, dtype).unwrap();
                let results = features(&tower, &golden, &device).into_iter();
                let losses = results.map(|(result, own)| {
                    let weights = floats(&golden[&format!("loss_weights.{result}")], &device);
                    (own.cast(FloatDType::F32) * weights).sum()
                });
                let loss = losses.reduce(|sum, loss| sum + loss).unwrap();
                tower.gradients(&loss.backward())
            });
            assert_eq!(exact.len(), found.len());
            for (parameter, exact) in &exact {
                let error = relative_l2(&to_f64(&found[parameter]), &to_f64(exact));
                assert!(
                    error < 0.1,
                    "{name}, kernels {kernels}: {parameter} off by {error:e}"
                );
            }
        }
    }
}

/// Every norm, unit, rotation, attention and product is a site, whose kernel runs on a CPU.
#[test]
fn sites_of_towers_run_kernels() {
    let sites = [
        "RmsNorm::forward",
        "RmsNorm::forward_sum",
        "VisionMlp::forward",
        "LayerNorm::forward",
    ];
    let both = ["apply_rotary_pos_emb_vision", "packed_attention"];
    for (name, own) in [
        ("qwen2_5_vl_tower", &sites[..3]),
        ("qwen3_vl_tower", &sites[3..]),
    ] {
        let _policy = policy::scope("all".parse::<Policy>().unwrap());
        let device = Device::default();
        let tower = load_vision_tower(&model_dir(name), &device, FloatDType::F32).unwrap();
        features(&tower, &golden(name), &device);
        let rows = report::report().rows;
        let embeds = ["embed", "embed_with_bias"][usize::from(name == "qwen3_vl_tower")];
        for site in own.iter().chain(&both).chain([&embeds]) {
            let ran = |row: &report::ReportRow| {
                let fused = row.call.as_ref().is_some_and(|call| call.kernel.is_some());
                fused && row.site.contains("vision") && row.site.ends_with(site)
            };
            assert!(rows.iter().any(ran), "{name}: no kernel ran for {site}");
        }
    }
}

/// The published files have names of their own for some fields.
#[test]
fn published_configurations_of_towers_are_read() {
    let text = std::fs::read_to_string(common::fixtures().join("published.json")).unwrap();
    let published: Value = serde_json::from_str(&text).unwrap();
    for (name, depth, values) in [
        ("Qwen2.5-VL", 32, 1176),
        ("Qwen3-VL", 24, 1536),
        ("Qwen3.5", 27, 1536),
        ("Qwen3.5, sparse", 27, 1536),
    ] {
        let config = ModelConfig::from_json(&published[name].to_string(), Path::new("config.json"));
        let vision = config.unwrap().vision_config(Path::new("config.json"));
        let vision = vision.unwrap();
        assert_eq!((vision.depth, vision.pixels()), (depth, values), "{name}");
    }
}

#[test]
fn wrong_configurations_are_refused() {
    let cases: [(&str, &str, Value, &str); 15] = [
        ("qwen3_vl", "depth", json!(null), "missing"),
        ("qwen3_vl", "depth", json!(5000), "at most 1024"),
        ("qwen3_vl", "hidden_size", json!(18), "heads of whole fours"),
        (
            "qwen3_vl",
            "num_position_embeddings",
            json!(15),
            "not a square number",
        ),
        (
            "qwen3_vl",
            "deepstack_visual_indexes",
            json!([2, 0]),
            "in order",
        ),
        (
            "qwen3_vl",
            "deepstack_visual_indexes",
            json!([0, 7]),
            "below `depth`",
        ),
        (
            "qwen3_vl",
            "deepstack_visual_indexes",
            json!([0, 1, 2]),
            "2 layers",
        ),
        (
            "qwen3_vl",
            "out_hidden_size",
            json!(64),
            "contradicts `hidden_size`",
        ),
        ("qwen3_vl", "hidden_act", json!("silu"), "gelu_pytorch_tanh"),
        ("qwen3_vl", "model_type", json!("siglip"), "qwen3_vl_vision"),
        (
            "qwen3_vl",
            "rope_parameters",
            json!({ "rope_theta": 5.0 }),
            "10000",
        ),
        ("qwen3_vl", "patch_size", json!(1000), "at most 256"),
        ("qwen2_5_vl", "window_size", json!(3), "block of patches, 4"),
        (
            "qwen2_5_vl",
            "fullatt_block_indexes",
            json!([3]),
            "below `depth`",
        ),
        ("qwen2_5_vl", "intermediate_size", json!(2147483647), ""),
    ];
    let device = Device::default();
    for (family, field, value, words) in cases {
        let dir = copy_of(&format!("{family}_pictures"));
        edit_config(dir.path(), |config| {
            config["vision_config"][field] = value.clone();
        });
        let said = refusal(dir.path());
        let named = match field {
            "hidden_size" => "vision_config.num_heads".into(),
            // The shapes of the file are others.
            "intermediate_size" => "expected shape".into(),
            field => format!("vision_config.{field}"),
        };
        assert!(
            said.contains(&named) && said.contains(words),
            "{field}: {said}"
        );
        // The text model does not read it.
        load(dir.path(), &device, FloatDType::F32).unwrap();
    }
    for (field, value, words) in [
        ("image_token_id", json!(null), "missing"),
        ("video_token_id", json!(64), "not in 0..64"),
        ("vision_config", json!(null), "missing"),
    ] {
        let dir = copy_of("qwen3_vl_pictures");
        edit_config(dir.path(), |config| {
            drop(config.insert(field.into(), value))
        });
        let said = refusal(dir.path());
        assert!(said.contains(field) && said.contains(words), "{said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, common::gguf::llama(64, 96).bytes()).unwrap();
    let said = refusal(&file);
    assert!(said.contains("GGUF file holds no vision tower"), "{said}");
    let said = load_vision_tower(&model_dir("llama"), &device, FloatDType::F32).unwrap_err();
    assert!(said.to_string().contains("is not read"), "{said}");
}

/// Tensors that a tower lacks or does not have are named.
#[test]
fn wrong_tensors_of_towers_are_refused() {
    let device = Device::default();
    for (name, prefix) in [
        ("qwen2_5_vl_pictures", "visual."),
        ("qwen3_vl_pictures", "model.visual."),
        ("qwen3_vl_tower", ""),
    ] {
        let dir = copy_of(name);
        edit_tensors(dir.path(), |file| {
            let norm = file
                .remove(&format!("{prefix}blocks.1.norm1.weight"))
                .unwrap();
            file.insert(format!("{prefix}blocks.1.norm9.weight"), norm);
            file.insert(
                format!("{prefix}blocks.9.norm1.weight"),
                common::Stored::f32(&[1], &[0.0]),
            );
        });
        let mut said = vec![
            load_vision_tower(dir.path(), &device, FloatDType::F32)
                .unwrap_err()
                .to_string(),
        ];
        if !prefix.is_empty() {
            said.push(refusal(dir.path()));
        }
        for said in said {
            for words in [
                "blocks.1.norm1.weight`: missing",
                "blocks.1.norm9.weight`: unexpected",
                "blocks.9.norm1.weight`: unexpected",
            ] {
                assert!(said.contains(&format!("{prefix}{words}")), "{name}: {said}");
            }
        }
    }
}
