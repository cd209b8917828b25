//! Whole models: pictures among tokens, decoding behind them, and saved models.

use super::{TOWERS, WHOLE, features, floats, golden, pictures, policies, whole};
use crate::common::{
    File, Stored, axes, check_gradients, ints, model_dir, read, relative_l2, to_f64,
};
use crate::comparison::{difference, relative};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use kernels_models::{Batch, CausalLm, is_vision_tower, load, load_vision_tower, save};

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
