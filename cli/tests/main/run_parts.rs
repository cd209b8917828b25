//! Tests of `kernels run` with parts of Omni checkpoints, with embeddings, and with weights of results.

use crate::common::{Floats, check_gradients, command, errors, fixture, floats};
use crate::models::{File, Stored, read, write};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

const CODE2WAV: &str = "qwen3_omni_code2wav";

/// Runs a checkpoint on inputs. Returns the results, or the error that the program prints.
pub fn run(
    model: &Path,
    inputs: &File,
    extra: &[&str],
) -> Result<BTreeMap<String, Floats>, String> {
    let folder = TempDir::new().unwrap();
    let (input, output) = (
        folder.path().join("in.safetensors"),
        folder.path().join("out"),
    );
    write(&input, inputs);
    let mut command = command();
    command.arg("run").arg("--model").arg(model);
    command
        .arg("--inputs")
        .arg(&input)
        .arg("--outputs")
        .arg(&output);
    let result = command.args(extra).output().unwrap();
    match result.status.success() {
        true => Ok(floats(&output)),
        false => {
            // 2 if the command line is already wrong.
            assert!(matches!(result.status.code(), Some(1 | 2)));
            assert!(!output.exists());
            Err(errors(&result))
        }
    }
}

fn golden(name: &str) -> File {
    read(&fixture(name).join("golden.safetensors"))
}

#[track_caller]
fn refused(result: Result<BTreeMap<String, Floats>, String>, words: &[&str]) {
    let said = result.map(|results| results.len()).unwrap_err();
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

/// The gradients of results without a loss begin with their weights.
#[test]
fn results_have_weights() {
    let (model, golden) = (fixture(CODE2WAV), golden(CODE2WAV));
    for policy in ["--kernels=all", "--kernels=none"] {
        let found = run(&model, &golden, &["--grads", policy]).unwrap();
        let expected = golden["out.hidden"].values();
        let hidden = &found["out.hidden"];
        assert_eq!(hidden.shape, golden["out.hidden"].shape);
        let error = crate::common::comparison::relative(&hidden.values, &expected);
        assert!(error < 2e-5, "{policy}: off by {error:e}");
        let loss = (found["loss"].values[0] - golden["loss"].values()[0]).abs();
        assert!(loss < 1e-5, "{policy}: the loss is off by {loss:e}");
        check_gradients(policy, CODE2WAV, &found);
    }
    let mut inputs = golden.clone();
    inputs.retain(|name, _| name == "inputs_embeds");
    let found = run(&model, &inputs, &[]).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["out.hidden"]);
    refused(
        run(&model, &inputs, &["--grads"]),
        &["in.safetensors", "`loss_weights.hidden` is missing"],
    );

    let embedded = &golden["inputs_embeds"];
    let with = |name: &str, tensor: Stored| {
        let mut inputs = inputs.clone();
        inputs.insert(name.into(), tensor);
        run(&model, &inputs, &[])
    };
    let ids = Stored {
        dtype: safetensors::Dtype::I64,
        shape: vec![1, 1],
        bytes: vec![0; 8],
    };
    let small = || Stored::f32(&[1, 1, 1], &[1.0]);
    for (name, tensor, words) in [
        (
            "loss_weights.hidden",
            small(),
            &["[2, 17, 32], found [1, 1, 1]"][..],
        ),
        (
            "loss_weights.logits",
            small(),
            &[
                "`loss_weights.logits` does not belong to a result",
                "`out.hidden`",
            ],
        ),
        (
            "inputs_embeds",
            small(),
            &["inputs_embeds", "a width of 32, found 1"],
        ),
        (
            "inputs_embeds",
            Stored::f32(&[1, 1], &[1.0]),
            &["[b, s, width], found [1, 1]"],
        ),
        (
            "inputs_embeds",
            Stored::f32(&[1, 1, 1], &[f32::NAN]),
            &["element 0 is NaN"],
        ),
        ("inputs_embeds", ids.clone(), &["`inputs_embeds`", "[1, 1]"]),
        (
            "input_ids",
            ids,
            &["the transformer of a vocoder does not take the tensor `input_ids`"],
        ),
        (
            "input_features",
            small(),
            &["`input_features` is for an encoder of audio, which is not supported"],
        ),
        (
            "pixels",
            embedded.clone(),
            &["`pixels` is unknown", "`inputs_embeds`"],
        ),
    ] {
        refused(with(name, tensor), words);
    }
    refused(
        run(&model, &File::new(), &[]),
        &["`inputs_embeds` is missing"],
    );
}

/// Embedded tokens in place of ids give the same logits.
#[test]
fn embeddings_are_inputs_of_language_models() {
    let name = "qwen3_omni_talker";
    let (model, golden) = (fixture(name), golden(name));
    let table = &read(&model.join("model.safetensors"))["model.codec_embedding.weight"];
    let width = table.shape[1];
    let (rows, ids) = (table.values(), golden["input_ids"].values());
    let embedded = ids
        .iter()
        .flat_map(|id| rows[*id as usize * width..][..width].to_vec());
    let embedded: Vec<f32> = embedded.map(|value| value as f32).collect();
    let mut inputs = golden.clone();
    inputs.retain(|name, _| name.ends_with("_ids"));
    let mut shape = golden["input_ids"].shape.clone();
    shape.push(width);
    inputs.insert("inputs_embeds".into(), Stored::f32(&shape, &embedded));
    let found = run(&model, &inputs, &["--grads"]).unwrap();
    let expected = golden["logits"].values();
    let error = crate::common::comparison::relative(&found["logits"].values, &expected);
    assert!(error < 2e-5, "off by {error:e}");
    assert!(!found.contains_key("grad.model.codec_embedding.weight"));
    assert!(found.contains_key("grad.codec_head.weight"));
    inputs.insert("loss_weights.logits".into(), Stored::f32(&[1], &[1.0]));
    refused(
        run(&model, &inputs, &[]),
        &["this model has a loss of its own"],
    );
}

#[test]
fn parts_are_named() {
    let name = "qwen3_omni_code_predictor";
    let (model, golden) = (fixture(name), golden(name));
    run(&model, &golden, &["--part", "code-predictor"]).unwrap();
    refused(
        run(&model, &golden, &["--part", "talker"]),
        &["not a checkpoint with a talker", "leave out the part"],
    );
    refused(
        run(&model, &golden, &["--part", "token2wav"]),
        &["'token2wav'", "thinker, talker, code-predictor, code2wav"],
    );
    let mut inputs = golden.clone();
    inputs.remove("input_ids");
    refused(
        run(&model, &inputs, &[]),
        &["in.safetensors", "`input_ids` is missing"],
    );
    let result = command()
        .args(["generate", "--prompt", "a", "--model"])
        .arg(&model)
        .output()
        .unwrap();
    assert!(!result.status.success());
}
