//! Tests of `kernels tune`, and of policies that tune.

use crate::common::{command, errors, fixture, json, kernels, stdout};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// Small sizes, which take a second or two.
const SMALL: [&str; 2] = ["--batch=2", "--tokens=8"];

fn tune(args: &[&str]) -> Vec<Value> {
    let report = json([&["tune", "--json"][..], &SMALL, args].concat());
    report["rows"].as_array().unwrap().clone()
}

/// Every class is decided, and has both times.
fn assert_decided(rows: &[Value], mode: &str) {
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["mode"], mode, "{row}");
        assert!(row["choice"].is_string() && row["kept"].is_null(), "{row}");
        assert!(
            row["kernel_ms"].is_number() && row["reference_ms"].is_number(),
            "{row}"
        );
    }
    let has = |word: &str| {
        rows.iter()
            .any(|row| row["site"].as_str().unwrap().contains(word))
    };
    assert!(
        has("RmsNorm") && has("attention") && has("linear"),
        "{rows:?}"
    );
}

#[test]
fn choices_are_written_and_read_by_a_policy() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("choices.toml");
    let out = format!("--out={}", path.display());
    let text = stdout([&["tune", "--wide"][..], &SMALL, &[&out]].concat());
    assert!(
        text.contains("times as fast")
            && text.contains("cpu f32 optimiser step")
            && text.contains("BURN_KERNELS=tune:"),
        "{text}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let toml = std::fs::read_to_string(&path).unwrap();
    assert!(
        toml.starts_with("release = \"") && toml.contains("kind = \"cpu\""),
        "{toml}"
    );

    // The choices of the file are not measured again.
    let policy = format!("--kernels=tune:{}", path.display());
    let rows = tune(&[&policy]);
    // A step of the optimiser has no mode of its own.
    let is_step = |row: &Value| row["site"].as_str().unwrap().contains("AdamW");
    let (steps, training): (Vec<_>, Vec<_>) = rows.iter().cloned().partition(is_step);
    assert_decided(&training, "training");
    assert!(!steps.is_empty(), "{rows:?}");
    assert!(rows.iter().all(|row| row["from_file"] == true), "{rows:?}");
    let plan = json(["plan", "--json", &policy]);
    assert!(
        plan["policy"].as_str().unwrap().contains("all,tune:"),
        "{plan}"
    );
    assert!(
        plan["notes"].to_string().contains("sizes of tensors"),
        "{plan}"
    );

    std::fs::write(&path, toml.replace("kind =", "knid =")).unwrap();
    let result = command()
        .env("BURN_KERNELS", format!("tune:{}", path.display()))
        .arg("list")
        .output()
        .unwrap();
    assert_eq!(result.status.code(), Some(1));
    let said = errors(&result);
    assert!(
        said.contains("choices.toml") && said.contains("knid"),
        "{said}"
    );
}

#[test]
fn the_sizes_of_a_checkpoint_are_measured_by_its_configuration_alone() {
    let folder = TempDir::new().unwrap();
    let config = fixture("qwen3").join("config.json");
    std::fs::copy(&config, folder.path().join("config.json")).unwrap();
    let model = format!("--model={}", folder.path().display());
    let rows = tune(&[&model, "--mode=inference", "--dtype=bf16"]);
    assert_decided(&rows, "inference");
    assert!(rows.iter().all(|row| row["dtype"] == "bf16"), "{rows:?}");
}

fn refused(args: &[&str]) -> String {
    let result = kernels([&["tune"][..], args].concat());
    assert_ne!(result.status.code(), Some(0));
    errors(&result)
}

#[test]
fn what_cannot_be_measured_is_an_error_before_the_work() {
    let none = Path::new("/no/such/folder");
    let model = format!("--model={}", none.display());
    assert!(refused(&[&model]).contains("config.json"));
    assert!(refused(&["--dtype=f16"]).contains("loss scaling"));
    assert!(refused(&["--tokens=1"]).contains("from 2 to 1000000000"));
    assert!(refused(&[&model, "--preset=qwen3"]).contains("cannot be used with"));
    let folder = TempDir::new().unwrap();
    let out = format!("--out={}", folder.path().display());
    assert!(refused(&[&out]).contains("--out names a file"));
    let missing = format!("--out={}", folder.path().join("none/x.toml").display());
    assert!(refused(&[&missing]).contains("does not exist"));
    let qwen3 = format!("--model={}", fixture("qwen3").display());
    assert!(refused(&[&qwen3, "--tokens=100000000"]).contains("max_position_embeddings"));
    let said = refused(&["--batch=2", "--tokens=8", "--kernels=none"]);
    assert!(said.contains("nothing to choose"), "{said}");
    let said = refused(&["--batch=2", "--tokens=8", "--kernels=deterministic"]);
    assert!(said.contains("deterministic, and times are not"), "{said}");
}

#[test]
fn a_run_with_a_policy_that_tunes_says_what_it_chose() {
    let folder = TempDir::new().unwrap();
    let outputs = folder.path().join("outputs.safetensors");
    let model = fixture("qwen3");
    let inputs = model.join("golden.safetensors");
    let result = command()
        .env("BURN_KERNELS_VERIFY", "off")
        .env("COLUMNS", "400")
        .args(["run", "--kernels=tune", "--model", model.to_str().unwrap()])
        .args([
            "--inputs",
            inputs.to_str().unwrap(),
            "--outputs",
            outputs.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", errors(&result));
    let said = errors(&result);
    assert!(
        said.contains("calls measured") || said.contains("times as fast"),
        "{said}"
    );
}
