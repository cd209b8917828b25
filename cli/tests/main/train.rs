//! Tests of `kernels train` in short runs.

use crate::common::{command, errors, floats, kernels, write_ids};
use safetensors::Dtype;
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

const SMALL: [&str; 6] = [
    "--steps=4",
    "--batch=2",
    "--seq=32",
    "--quiet",
    "--lr=1e-3",
    "--out",
];

/// Trains on a part of a book, unless `extra` names another corpus.
fn train(out: &Path, extra: &[&str]) -> Output {
    let mut command = command();
    command.arg("train").args(SMALL).arg(out).args(extra);
    if !extra.iter().any(|arg| arg.starts_with("--corpus")) {
        let text = out.with_file_name("text.txt");
        std::fs::write(&text, &include_bytes!("../../corpus/alice.txt")[..4000]).unwrap();
        command.arg("--corpus").arg(text);
    }
    command.output().unwrap()
}

fn metrics(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn losses(run: &Path) -> Vec<f64> {
    metrics(run)
        .iter()
        .map(|point| point["loss"].as_f64().unwrap())
        .collect()
}

#[test]
fn a_run_leaves_everything_it_promises() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    let result = train(&run, &["--json"]);
    assert!(result.status.success(), "{}", errors(&result));
    assert_eq!(errors(&result), "", "quiet");

    let mut names: Vec<_> = std::fs::read_dir(&run)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "checkpoint",
        "config.toml",
        "loss.svg",
        "metrics.csv",
        "metrics.jsonl",
        "sample.txt",
        "summary.json",
        "train.json",
    ];
    assert_eq!(names, expected);

    let points = metrics(&run);
    let splits: Vec<_> = points
        .iter()
        .map(|point| point["split"].as_str().unwrap())
        .collect();
    assert_eq!(splits, ["train", "train", "train", "train", "valid"]);
    let first = points[0].as_object().unwrap();
    for field in [
        "step",
        "epoch",
        "split",
        "loss",
        "tokens_per_s",
        "lr",
        "grad_norm",
        #[cfg(target_os = "linux")]
        "memory_bytes",
        "seconds",
        "entropy",
        "mean_token_accuracy",
    ] {
        assert!(first.contains_key(field), "{field}");
    }
    assert_eq!(points[3]["step"], 4);

    let summary: Value = serde_json::from_slice(&result.stdout).unwrap();
    let written = std::fs::read(run.join("summary.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), summary);
    let loss = summary["validation_loss"].as_f64().unwrap();
    assert_eq!(points[4]["loss"].as_f64(), Some(loss));
    assert!((summary["perplexity"].as_f64().unwrap() - loss.exp()).abs() < 1e-9);
    assert!(summary["throughput"]["ratio"].as_f64().unwrap() > 0.0);
    assert!(!summary["sample"].as_str().unwrap().is_empty());

    let settings = std::fs::read(run.join("train.json")).unwrap();
    let settings: Value = serde_json::from_slice(&settings).unwrap();
    assert_eq!(settings["settings"]["seed"], 42);
    assert!(
        std::fs::read_to_string(run.join("loss.svg"))
            .unwrap()
            .contains("validation")
    );

    reads_back(&run.join("checkpoint"));
}

#[test]
fn the_summary_shows_what_ran_and_calls_the_optimisers_step_one() {
    let folder = TempDir::new().unwrap();
    let (run, text) = (folder.path().join("run"), folder.path().join("text.txt"));
    std::fs::write(&text, &include_bytes!("../../corpus/alice.txt")[..4000]).unwrap();
    let mut command = command();
    command
        .env("COLUMNS", "200")
        .args(["train", "--steps=2", "--batch=2", "--seq=32"]);
    let result = command
        .arg("--out")
        .arg(&run)
        .arg("--corpus")
        .arg(&text)
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", errors(&result));
    let text = String::from_utf8(result.stdout).unwrap();
    let steps: Vec<_> = text
        .lines()
        .filter(|line| line.contains("npu_fused_adam_w"))
        .collect();
    assert!(!steps.is_empty(), "{text}");
    for step in steps {
        assert!(
            step.contains("cpu f32 optimiser step") && !step.contains("inference"),
            "{step}"
        );
    }
    assert!(!text.contains("MixtralSparseMoe"), "{text}");
    assert!(
        text.contains("sites were not reached; `dispatch` in "),
        "{text}"
    );
    let summary = std::fs::read_to_string(run.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let rows = summary["dispatch"]["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["call"].is_null()));
    let step = rows
        .iter()
        .find(|row| row["kernel"] == "npu_fused_adam_w")
        .unwrap();
    assert_eq!(
        step["call"]["mode"], "inference",
        "programs read what was asked"
    );
}

/// Checks that `kernels run` reads the checkpoint.
fn reads_back(checkpoint: &Path) {
    let folder = TempDir::new().unwrap();
    let inputs = folder.path().join("in.safetensors");
    let output = folder.path().join("out.safetensors");
    write_ids(
        &inputs,
        &[("input_ids", Dtype::I64, &[1, 4], &[65, 66, 67, 68])],
    );
    let result = kernels([
        "run".as_ref(),
        "--model".as_ref(),
        checkpoint.as_os_str(),
        "--inputs".as_ref(),
        inputs.as_os_str(),
        "--outputs".as_ref(),
        output.as_os_str(),
    ]);
    assert!(result.status.success(), "{}", errors(&result));
    assert_eq!(floats(&output)["logits"].shape, [1, 4, 256]);
}

#[test]
fn a_seed_decides_the_run_and_kernels_only_round() {
    let folder = TempDir::new().unwrap();
    let run = |name: &str, extra: &[&str]| {
        let run = folder.path().join(name);
        let result = train(&run, extra);
        assert!(result.status.success(), "{}", errors(&result));
        let weights = std::fs::read(run.join("checkpoint/model.safetensors")).unwrap();
        let sample = std::fs::read(run.join("sample.txt")).unwrap();
        (losses(&run), weights, sample)
    };
    let first = run("first", &[]);
    let again = run("again", &[]);
    assert_eq!(first.0, again.0);
    assert!(first.1 == again.1, "the weights differ");
    assert!(first.2 == again.2, "the samples differ");
    assert_ne!(run("other", &["--seed=8"]).0, first.0);

    let reference = run("reference", &["--kernels=none"]).0;
    for (fused, plain) in first.0.iter().zip(&reference) {
        assert!((fused - plain).abs() < 1e-4 * plain, "{fused} and {plain}");
    }
}

/// Losses in bf16 are those in f32 but for its rounding, and the checkpoint has the parameters, in f32.
#[test]
fn bf16_follows_f32_and_keeps_its_parameters_in_f32() {
    let folder = TempDir::new().unwrap();
    for preset in ["--preset=qwen3", "--preset=qwen3-moe"] {
        let run = |dtype: &str| {
            let run = folder
                .path()
                .join(format!("{preset}{dtype}").replace('-', ""));
            let result = train(&run, &[preset, &format!("--dtype={dtype}")]);
            assert!(result.status.success(), "{}", errors(&result));
            let settings = std::fs::read(run.join("train.json")).unwrap();
            let settings: Value = serde_json::from_slice(&settings).unwrap();
            assert_eq!(settings["settings"]["dtype"], dtype);
            reads_back(&run.join("checkpoint"));
            losses(&run)
        };
        let (wide, half) = (run("f32"), run("bf16"));
        assert_ne!(wide, half);
        for (half, wide) in half.iter().zip(&wide) {
            assert!((half - wide).abs() < 0.01 * wide, "{half} and {wide}");
        }
    }
}

#[test]
fn a_mixture_of_experts_is_trained_and_its_balance_recorded() {
    let folder = TempDir::new().unwrap();
    let run = |name: &str, extra: &[&str]| {
        let run = folder.path().join(name);
        let result = train(&run, &[&["--preset=qwen3-moe", "--json"], extra].concat());
        assert!(result.status.success(), "{}", errors(&result));
        let summary: Value = serde_json::from_slice(&result.stdout).unwrap();
        (run, summary)
    };
    let (fused, summary) = run("fused", &[]);
    let points = metrics(&fused);
    assert_eq!(points.len(), 5);
    for point in &points {
        // Two experts for each token, used evenly, give a loss of 2; one expert for all would give 8.
        // `models/tests/main/learning.rs` tests that training lowers it where a mixture starts unevenly.
        let loss = point["load_balancing_loss"].as_f64().unwrap();
        assert!((1.5..8.0).contains(&loss), "{point}");
    }
    let load_balancing = &summary["load_balancing"];
    assert_eq!(
        load_balancing["validation_loss"],
        points[4]["load_balancing_loss"]
    );
    assert_eq!(load_balancing["even"], 2.0);

    let config = std::fs::read(fused.join("checkpoint/config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["model_type"], "qwen3_moe");
    assert_eq!(config["output_router_logits"], true);
    assert_eq!(
        config["router_aux_loss_coef"],
        load_balancing["coefficient"]
    );
    reads_back(&fused.join("checkpoint"));

    let (reference, _) = run("reference", &["--kernels=none"]);
    for (fused, plain) in losses(&fused).iter().zip(losses(&reference)) {
        assert!((fused - plain).abs() < 1e-4 * plain, "{fused} and {plain}");
    }
}

#[test]
fn a_policy_without_kernels_has_no_speed_to_compare() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let result = train(&out, &["--kernels=none", "--json"]);
    let summary: Value = serde_json::from_slice(&result.stdout).unwrap();
    assert!(summary["throughput"].is_null());
}

/// Checks that the run fails with `code`, prints each of `words` and leaves no checkpoint.
fn refuses(result: &Output, code: i32, out: &Path, words: &[&str]) {
    let said = errors(result);
    assert_eq!(result.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    assert!(!out.join("checkpoint").exists());
}

#[test]
fn what_cannot_be_done_is_refused() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let short = folder.path().join("short.txt");
    std::fs::write(&short, "too short").unwrap();
    let short = format!("--corpus={}", short.display());

    refuses(
        &train(&out, &["--corpus=no/such.txt"]),
        1,
        &out,
        &["no/such.txt"],
    );
    refuses(
        &train(&out, &[&short]),
        1,
        &out,
        &["short.txt", "320 bytes"],
    );
    refuses(
        &train(&out, &["--dtype=f16"]),
        2,
        &out,
        &["loss scaling", "bf16"],
    );
    if cfg!(not(feature = "npu")) {
        refuses(
            &train(&out, &["--device=npu"]),
            2,
            &out,
            &["`npu` needs a build with `--features npu`"],
        );
    }
    refuses(
        &train(&out, &["--preset=gpt"]),
        2,
        &out,
        &["gpt", "qwen3", "qwen3-moe"],
    );
    refuses(&train(&out, &["--kernels=some"]), 2, &out, &["`some`"]);
    assert!(!out.exists(), "refused before anything was written");

    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("notes.txt"), "mine").unwrap();
    refuses(&train(&out, &[]), 1, &out, &["not empty", "--out"]);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1);
}

#[test]
fn a_corpus_of_ones_own_is_learned_from() {
    let folder = TempDir::new().unwrap();
    let text = folder.path().join("text.bin");
    std::fs::write(&text, [0, 255, 128, 7].repeat(500)).unwrap();
    let out = folder.path().join("run");
    let result = command()
        .args([
            "train",
            "--steps=30",
            "--batch=2",
            "--seq=32",
            "--quiet",
            "--lr=1e-3",
        ])
        .arg("--out")
        .arg(&out)
        .arg("--corpus")
        .arg(&text)
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", errors(&result));
    let losses = losses(&out);
    // 256 bytes are equally likely at first. A model that knew only which bytes there are would be at ln 4, 1.39.
    assert!(losses[0] > 5.0, "{losses:?}");
    assert!(*losses.last().unwrap() < 1.2, "{losses:?}");
}
