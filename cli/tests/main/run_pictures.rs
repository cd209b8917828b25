//! Tests of `kernels run` with pictures: vision towers alone, and whole models.

use crate::common::{Floats, floats};
use crate::models::{self, File};
use crate::run_parts;
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A change of the inputs.
type Change<'a> = &'a dyn Fn(&mut File);

/// Runs a fixture on changed inputs.
fn run(
    model: &str,
    extra: &[&str],
    change: impl FnOnce(&mut File),
) -> Result<BTreeMap<String, Floats>, String> {
    let mut own = models::read(&expected(model));
    own.retain(|name, _| !name.starts_with("grad_by_"));
    change(&mut own);
    run_parts::run(&models::model_dir(model), &own, extra)
}

fn expected(model: &str) -> PathBuf {
    models::model_dir(model).join("golden.safetensors")
}

/// Compares the results, the loss, and those gradients that the fixture stores in full.
fn check(model: &str, found: &BTreeMap<String, Floats>, results: &[&str]) {
    let expected = floats(&expected(model));
    for result in results {
        let error = found[*result].distance_to_largest(&expected[*result]);
        assert!(error < 2e-5, "{model}: {result} is off by {error:e}");
    }
    let loss = (found["loss"].values[0] - expected["loss"].values[0]).abs();
    assert!(loss < 1e-5, "{model}: the loss is off by {loss:e}");
    let gradients = expected
        .iter()
        .filter(|(name, _)| name.starts_with("grad."));
    let mut compared = 0;
    for (name, gradient) in gradients {
        let error = found[name].distance_to_largest(gradient);
        assert!(error < 1e-4, "{model}: {name} is off by {error:e}");
        compared += 1;
    }
    assert!(compared > 10, "{model}");
}

#[test]
fn towers_run_alone() {
    for (model, results) in [
        ("qwen2_5_vl_tower", &["out.embeddings"][..]),
        ("qwen2_5_omni_tower", &["out.embeddings"]),
        (
            "qwen3_vl_tower",
            &["out.embeddings", "out.deepstack.0", "out.deepstack.1"],
        ),
    ] {
        let found = run(model, &["--grads"], |_| {}).unwrap();
        check(model, &found, results);
        // Without weights there is no loss.
        let found = run(model, &[], |file| {
            file.retain(|name, _| !name.starts_with("loss_weights"))
        })
        .unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        let mut sorted = results.to_vec();
        sorted.sort_unstable();
        assert_eq!(names, sorted);
    }
}

/// The logits of padding are meaningless, so they are not compared.
#[test]
fn models_find_the_positions_of_tokens_and_pictures() {
    for model in [
        "qwen2_5_vl_pictures",
        "qwen3_vl_pictures",
        "qwen3_5_pictures",
    ] {
        let mask = models::read(&expected(model))["attention_mask"].values();
        for drops in [true, false] {
            let mut found = run(model, &["--grads"], |file| {
                if drops {
                    file.remove("position_ids");
                }
            })
            .unwrap();
            let stored = &floats(&expected(model))["logits"];
            let logits = found.get_mut("logits").unwrap();
            let vocabulary = logits.values.len() / mask.len();
            for at in (0..mask.len()).filter(|&at| mask[at] == 0.0) {
                let own = at * vocabulary..(at + 1) * vocabulary;
                logits.values[own.clone()].copy_from_slice(&stored.values[own]);
            }
            check(model, &found, &["logits"]);
        }
    }
}

#[test]
fn pictures_that_do_not_fit_are_named() {
    let said =
        |model: &str, extra: &[&str], change: Change<'_>| run(model, extra, change).err().unwrap();
    let text = models::Stored {
        dtype: Dtype::I64,
        shape: vec![1, 2],
        bytes: [1_i64, 2].map(i64::to_le_bytes).concat(),
    };
    let tower = "qwen3_vl_tower";
    let cases: [(&str, &[&str], Change<'_>, &str); 7] = [
        (
            tower,
            &[],
            &|file| drop(file.remove("image_grid_thw")),
            "`image_grid_thw` is missing",
        ),
        (
            tower,
            &[],
            &|file| drop(file.remove("pixel_values")),
            "`pixel_values` is missing",
        ),
        (
            tower,
            &[],
            &|file| drop(file.insert("input_ids".into(), text.clone())),
            "a vision tower does not take the tensor `input_ids`",
        ),
        (
            tower,
            &["--grads"],
            &|file| drop(file.remove("loss_weights.deepstack.0")),
            "`loss_weights.deepstack.0` is missing",
        ),
        (
            tower,
            &[],
            &|file| {
                let weights = file["loss_weights.embeddings"].clone();
                file.insert("loss_weights.hidden".into(), weights);
            },
            "`loss_weights.hidden` does not belong to a result",
        ),
        (
            "qwen3_vl_pictures",
            &[],
            &|file| {
                drop(file.insert(
                    "pixel_values".into(),
                    models::Stored::f32(&[44, 3], &[0.0; 132]),
                ))
            },
            "expected 24 values of each patch",
        ),
        (
            "qwen3_vl_pictures",
            &[],
            &|file| drop(file.remove("input_ids")),
            "`input_ids` is missing",
        ),
    ];
    for (model, extra, change, words) in cases {
        let said = said(model, extra, change);
        assert!(
            said.starts_with("error: ") && said.contains(words),
            "{said}"
        );
        assert!(said.contains("in.safetensors"), "{said}");
    }
    // A text model does not take pictures.
    let pictures = models::read(&expected("qwen3_vl_pictures"));
    let said = said("llama", &[], &|file| {
        for name in ["pixel_values", "image_grid_thw"] {
            file.insert(name.into(), pictures[name].clone());
        }
    });
    assert!(
        said.contains("vision tower of LlamaForCausalLM is not read"),
        "{said}"
    );
}
