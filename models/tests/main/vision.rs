//! Vision towers, alone and in whole models, against those of `transformers`.

use crate::comparison::{difference, relative};

use std::path::Path;

use crate::common::{
    self, File, Stored, axes, check_gradients, copy_of, edit_config, edit_tensors, ints, model_dir,
    read, relative_l2, to_f64,
};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report;
use kernels_models::{
    Batch, CausalLm, ModelConfig, QuantisedWeights, VisionTower, is_vision_tower, load,
    load_vision_tower, load_with_vision, save,
};
use serde_json::{Value, json};

const TOWERS: [&str; 3] = ["qwen2_5_vl_tower", "qwen2_5_omni_tower", "qwen3_vl_tower"];
const WHOLE: [&str; 4] = [
    "qwen2_5_vl_pictures",
    "qwen3_vl_pictures",
    "qwen3_5_pictures",
    "qwen3_vl_moe_pictures",
];

fn golden(name: &str) -> File {
    read(&model_dir(name).join("golden.safetensors"))
}

fn floats(tensor: &Stored, device: &Device) -> Tensor<2> {
    let data = TensorData::new(tensor.values(), tensor.shape.clone());
    Tensor::from_data(data, (device, DType::F32))
}

fn whole(dir: &Path, device: &Device, dtype: FloatDType) -> (ModelConfig, CausalLm) {
    load_with_vision(dir, device, dtype, QuantisedWeights::Decoded, &mut |_| {}).unwrap()
}

/// Returns what is wrong with a model with its tower.
#[track_caller]
fn refusal(dir: &Path) -> String {
    let (device, decoded) = (Device::default(), QuantisedWeights::Decoded);
    let loaded = load_with_vision(dir, &device, FloatDType::F32, decoded, &mut |_| {});
    loaded.unwrap_err().to_string()
}

/// Returns the patches of pictures and their sizes.
fn pictures(golden: &File, device: &Device) -> (Tensor<2>, Tensor<2, Int>) {
    (
        floats(&golden["pixel_values"], device),
        ints(&golden["image_grid_thw"], device),
    )
}

/// Returns the results of a tower by name.
fn features(tower: &VisionTower, golden: &File, device: &Device) -> Vec<(String, Tensor<2>)> {
    let (pixels, grid) = pictures(golden, device);
    let grids = tower.config().grids(&pixels, &grid).unwrap();
    let found = tower.forward(pixels, &grids);
    let deepstack = found.deepstack.into_iter().enumerate();
    let deepstack = deepstack.map(|(at, own)| (format!("deepstack.{at}"), own));
    std::iter::once(("embeddings".to_owned(), found.embeddings))
        .chain(deepstack)
        .collect()
}

fn policies() -> impl Iterator<Item = (&'static str, policy::ScopeGuard)> {
    let scoped =
        |kernels: &'static str| (kernels, policy::scope(kernels.parse::<Policy>().unwrap()));
    ["none", "all"].into_iter().map(scoped)
}

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

fn batch(golden: &File, device: &Device, positions: bool) -> Batch {
    let batch = Batch::new(ints(&golden["input_ids"], device));
    let batch = batch
        .masked(&ints(&golden["attention_mask"], device))
        .unwrap();
    let batch = match positions {
        true => batch.at_axes(axes(golden, device)),
        false => batch,
    };
    let (pixels, grid) = pictures(golden, device);
    batch.with_pictures(pixels, grid)
}

/// Returns the logits of tokens. Those of padding are meaningless.
fn of_tokens(golden: &File, logits: &[f64]) -> Vec<f64> {
    let mask = golden["attention_mask"].values();
    let rows = logits.chunks(logits.len() / mask.len()).zip(&mask);
    rows.filter(|(_, token)| **token == 1.0)
        .flat_map(|(row, _)| row.iter().copied())
        .collect()
}

/// Positions are found, or given.
#[test]
fn models_see_pictures_as_transformers() {
    for name in WHOLE {
        let golden = golden(name);
        for (kernels, _policy) in policies() {
            for (dtype, suffix, tolerance) in [
                (FloatDType::F32, "", 2e-5),
                (FloatDType::F64, "_f64", 1e-12),
            ] {
                for positions in [false, true] {
                    let label =
                        format!("{name}, kernels {kernels}, {dtype:?}, positions: {positions}");
                    let device = Device::default().autodiff();
                    let (_, model) = whole(&model_dir(name), &device, dtype);
                    let batch = batch(&golden, &device, positions);
                    model.check_batch_with_loss(&batch).unwrap();
                    let (logits, loss) = model.loss_of(batch);
                    let found = of_tokens(&golden, &to_f64(&logits.to_data()));
                    let expected = of_tokens(&golden, &golden[&format!("logits{suffix}")].values());
                    let error = relative(&found, &expected);
                    assert!(error < tolerance, "{label}: logits off by {error:e}");
                    let expected = golden[&format!("loss{suffix}")].values()[0];
                    let error = (to_f64(&loss.to_data())[0] - expected).abs();
                    assert!(error < tolerance, "{label}: loss off by {error:e}");
                    check_gradients(&label, &golden, &model.gradients(&loss.backward()));
                }
            }
        }
    }
}

/// Rounding chooses other experts in the sparse model, which `half_mixtures.rs` compares without pictures.
#[test]
fn pictures_in_bf16_are_as_exact_as_transformers() {
    for name in &WHOLE[..3] {
        let golden = golden(name);
        let (_, model) = whole(&model_dir(name), &Device::default(), FloatDType::BF16);
        for (kernels, _policy) in policies() {
            let batch = batch(&golden, &Device::default(), false);
            let logits = model.output_of(batch).logits;
            let values = |key: &str| of_tokens(&golden, &golden[key].values());
            let exact = values("logits_f64");
            let theirs = relative_l2(&values("logits_bf16"), &exact);
            let ours = relative_l2(&of_tokens(&golden, &to_f64(&logits.into_data())), &exact);
            assert!(
                ours < 1.3 * theirs,
                "{name}, kernels {kernels}: off by {ours:e}, transformers by {theirs:e}"
            );
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

/// Without pictures, a model with its tower is the text model that `load` reads.
#[test]
fn text_needs_no_tower() {
    let device = Device::default();
    for name in WHOLE {
        let (config, text) = load(&model_dir(name), &device, FloatDType::F32).unwrap();
        assert!(text.vision_tower().is_none());
        let (same, model) = whole(&model_dir(name), &device, FloatDType::F32);
        assert_eq!(config, same);
        let ids = || Tensor::<2, Int>::from_data([[5, 6, 7, 60]], &device);
        let logits = |model: &CausalLm| model.forward(ids(), None).into_data();
        assert_eq!(logits(&text), logits(&model), "{name}");
        let error = text
            .check_batch(&batch(&golden(name), &device, false))
            .unwrap_err();
        assert!(
            error.to_string().contains("without a vision tower"),
            "{error}"
        );
    }
}

/// A model is saved with its tower, which can also be read alone.
#[test]
fn whole_models_are_saved() {
    let device = Device::default();
    for name in WHOLE {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("whole");
        let (config, model) = whole(&model_dir(name), &device, FloatDType::F32);
        save(&model, &config, &target, None).unwrap();
        let before = read(&model_dir(name).join("model.safetensors"));
        assert!(before == read(&target.join("model.safetensors")), "{name}");
        let (again, _) = whole(&target, &device, FloatDType::F32);
        assert_eq!(config, again);
        assert!(!is_vision_tower(&target).unwrap());
        let alone = load_vision_tower(&target, &device, FloatDType::F32).unwrap();
        let golden = golden(name);
        let expected = features(model.vision_tower().unwrap(), &golden, &device);
        for ((_, found), (_, expected)) in
            features(&alone, &golden, &device).into_iter().zip(expected)
        {
            assert_eq!(found.into_data(), expected.into_data());
        }
    }
    for name in TOWERS {
        assert!(is_vision_tower(&model_dir(name)).unwrap());
    }
}

#[test]
fn pictures_that_do_not_fit_are_refused() {
    let device = Device::default();
    let golden = golden("qwen3_vl_pictures");
    let (_, model) = whole(&model_dir("qwen3_vl_pictures"), &device, FloatDType::F32);
    let said = |change: &dyn Fn(&mut File)| {
        let mut changed = golden.clone();
        change(&mut changed);
        let error = model.check_batch(&batch(&changed, &device, false));
        error.unwrap_err().to_string()
    };
    let sizes = |file: &mut File, rows: &[[i64; 3]]| {
        let numbers = rows.as_flattened().iter();
        let grid = Stored {
            dtype: safetensors::Dtype::I64,
            shape: vec![rows.len(), 3],
            bytes: numbers.flat_map(|number| number.to_le_bytes()).collect(),
        };
        file.insert("image_grid_thw".into(), grid);
    };
    type Change<'a> = &'a dyn Fn(&mut File);
    let cases: [(Change<'_>, &str); 7] = [
        (
            &|file| sizes(file, &[[1, 4, 6], [1, 2, 6]]),
            "pixel_values: has 44 patches, but the pictures of image_grid_thw have 36",
        ),
        (
            &|file| sizes(file, &[[1, 4, 5], [1, 2, 6], [1, 4, 2]]),
            "row 0: 4 rows of 5 patches",
        ),
        (
            &|file| sizes(file, &[[0, 4, 6], [1, 2, 6], [1, 4, 2]]),
            "row 0: the number of frames",
        ),
        (
            &|file| {
                let all = i64::from(i32::MAX) - 1;
                sizes(file, &[[all, all, all]]);
            },
            "but the pictures of image_grid_thw have",
        ),
        (
            &|file| drop(file.insert("pixel_values".into(), Stored::f32(&[44, 3], &[0.0; 132]))),
            "expected 24 values of each patch, found shape [44, 3]",
        ),
        (
            // One picture of two rows is now two, and the last has no tokens.
            &|file| sizes(file, &[[1, 4, 6], [1, 2, 6], [1, 2, 2], [1, 2, 2]]),
            "",
        ),
        (
            &|file| {
                let ids = file.get_mut("input_ids").unwrap();
                let text = 5_i64.to_le_bytes();
                let mark = 60_i64.to_le_bytes();
                let at = ids.bytes.chunks(8).position(|id| id == mark).unwrap();
                ids.bytes[8 * at..8 * at + 8].copy_from_slice(&text);
            },
            "expected 6 tokens 60 for a picture, found 5",
        ),
    ];
    for (change, words) in cases {
        if words.is_empty() {
            // The same tokens stand for both.
            let mut changed = golden.clone();
            change(&mut changed);
            model.check_batch(&batch(&changed, &device, false)).unwrap();
            continue;
        }
        let said = said(change);
        assert!(said.contains(words), "{said}");
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

/// Tokens behind pictures are at the positions that they have in a pass over all tokens.
#[test]
fn decoding_goes_on_behind_pictures() {
    let device = Device::default();
    for name in WHOLE {
        let golden = golden(name);
        let (config, model) = whole(&model_dir(name), &device, FloatDType::F32);
        // A picture of four rows of six patches becomes six tokens.
        let pictures = || {
            let pixels = floats(&golden["pixel_values"], &device).narrow(0, 0, 24);
            let grid = Tensor::<2, Int>::from_data([[1, 4, 6]], (&device, DType::I64));
            (pixels, grid)
        };
        let ids = [[5, 62, 60, 60, 60, 60, 60, 60, 63, 7, 8, 9, 10]];
        let ids = Tensor::<2, Int>::from_data(ids, (&device, DType::I64));
        for (kernels, _policy) in policies() {
            let (pixels, grid) = pictures();
            let batch = Batch::new(ids.clone()).with_pictures(pixels, grid);
            model.check_batch(&batch).unwrap();
            let all = model.output_of(batch).logits;
            let check = |found: Tensor<3>, at: usize| {
                let expected = to_f64(&all.clone().narrow(1, at, 1).into_data());
                let worst = difference(&to_f64(&found.into_data()), &expected);
                assert!(
                    worst < 1e-4,
                    "{name}, kernels {kernels}, token {at}: {worst:e}"
                );
            };
            let mut cache = config.cache();
            let (pixels, grid) = pictures();
            let prompt = ids.clone().narrow(1, 0, 9);
            let logits = model.next_with_pictures(prompt.clone(), pixels, grid, &mut cache);
            check(logits.unwrap(), 8);
            for at in 9..13 {
                let next = model.next(ids.clone().narrow(1, at, 1), &mut cache);
                check(next.unwrap(), at);
            }
            let three = Tensor::cat(vec![ids.clone().narrow(1, 0, 1); 3], 0);
            let said = model.next(three, &mut cache).unwrap_err().to_string();
            assert!(
                said.contains("it holds 1 sequences, but input_ids 3"),
                "{said}"
            );
            let (pixels, grid) = pictures();
            let again = model.next_with_pictures(prompt, pixels, grid, &mut cache);
            let said = again.unwrap_err().to_string();
            assert!(
                said.contains("pictures are among the first tokens"),
                "{said}"
            );
            // A cleared cache counts all tokens again.
            cache.clear();
            let text = ids.clone().narrow(1, 9, 4);
            let expected = model.forward(text.clone(), None).narrow(1, 3, 1);
            model
                .next(text.clone().narrow(1, 0, 3), &mut cache)
                .unwrap();
            let found = model.next(text.narrow(1, 3, 1), &mut cache).unwrap();
            let [found, expected] = [found, expected].map(|own| to_f64(&own.into_data()));
            assert!(
                difference(&found, &expected) < 1e-4,
                "{name}, kernels {kernels}"
            );
        }
    }
}
