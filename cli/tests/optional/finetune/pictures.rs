//! Records with pictures: losses of transformers, runs that end and go on, and bad input.

use super::{Place, lines, refuses, succeeds};
use crate::common::command;
use crate::generate::pictures::{cases, checkpoint, fixture};
use crate::models;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

const CHECKPOINTS: [&str; 2] = ["qwen2_5_vl", "qwen3_vl"];

/// A step of AdamW as in the goldens, on all records.
const STEPS: [&str; 8] = [
    "--steps=3",
    "--batch=3",
    "--seq=160",
    "--lr=1e-2",
    "--warmup=0",
    "--schedule=constant",
    "--weight-decay=0",
    "--held-out=0",
];

fn goldens() -> Value {
    let text = fs::read_to_string(fixture("training.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn record(at: usize) -> Value {
    goldens()["records"][at]["record"].clone()
}

/// A folder with the pictures.
fn place() -> Place {
    let place = Place::new();
    for picture in ["wide.png", "tall.png"] {
        fs::copy(fixture(picture), place.path(picture)).unwrap();
    }
    place
}

fn begin(place: &Place, model: &Path, run: &str, extra: &[&str]) -> Command {
    let option = |text: &str| text.split('=').next().map(str::to_owned);
    let is_given = |step: &&&str| extra.iter().any(|extra| option(extra) == option(step));
    let steps = STEPS.iter().filter(|step| !is_given(step));
    let all: Vec<&str> = steps.chain(extra).copied().collect();
    place.begin_on(model, (run, "data.jsonl"), &all)
}

fn numbers(place: &Place, run: &str, name: &str) -> Vec<f64> {
    let points = place.points(run);
    let steps = points.iter().filter(|point| point["split"] == "train");
    steps.map(|point| point[name].as_f64().unwrap()).collect()
}

#[track_caller]
fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs() / expected;
    assert!(error < tolerance, "{what}: {found}, not {expected}");
}

/// Packed, with padding, and with layers that are computed twice.
#[test]
fn steps_have_the_losses_of_transformers() {
    let goldens = goldens();
    for name in CHECKPOINTS {
        let model = checkpoint(name);
        let place = place();
        for (case, golden) in goldens[name].as_object().unwrap() {
            let chosen = golden["records"].as_array().unwrap().iter();
            let records = chosen.map(|at| record(at.as_u64().unwrap() as usize));
            place.write("data.jsonl", &lines(records));
            for (way, extra) in [
                ("packed", &[][..]),
                ("padded", &["--no-packing"]),
                ("recomputed", &["--gradient-checkpointing"]),
                ("reference", &["--kernels=none"]),
            ] {
                let run = format!("{name}-{case}-{way}");
                succeeds(begin(&place, model.path(), &run, extra));
                let (losses, norms) = (
                    numbers(&place, &run, "loss"),
                    numbers(&place, &run, "grad_norm"),
                );
                for step in 0..3 {
                    let what = format!("{run}, step {}", step + 1);
                    let expected = |name: &str| golden[name][step].as_f64().unwrap();
                    let tolerance = if step == 0 { 1e-5 } else { 1e-4 };
                    near(&what, losses[step], expected("losses"), tolerance);
                    near(&what, norms[step], expected("norms"), 1e-3);
                }
            }
        }
    }
}

/// In bf16, the tower has the dtype of the embeddings, in whole models and below adapters.
#[test]
fn the_first_loss_in_bf16_is_near() {
    let goldens = goldens();
    for name in CHECKPOINTS {
        let (model, place) = (checkpoint(name), place());
        let cases = goldens[name].as_object().unwrap();
        let (case, golden) = cases.iter().next().unwrap();
        let chosen = golden["records"].as_array().unwrap().iter();
        let records = chosen.map(|at| record(at.as_u64().unwrap() as usize));
        place.write("data.jsonl", &lines(records));
        for (way, extra) in [
            ("whole", &[][..]),
            ("recomputed", &["--gradient-checkpointing"]),
            ("lora", &["--lora-rank=2"]),
        ] {
            let run = format!("{name}-{case}-{way}");
            let extra = [&["--dtype=bf16", "--steps=1"][..], extra].concat();
            succeeds(begin(&place, model.path(), &run, &extra));
            let losses = numbers(&place, &run, "loss");
            near(&run, losses[0], golden["losses"][0].as_f64().unwrap(), 1e-2);
        }
    }
}

/// Returns the tensors of a file whose names begin so.
fn part(file: &Path, begin: &str) -> models::File {
    let mut tensors = models::read(file);
    tensors.retain(|name, _| name.starts_with(begin));
    tensors
}

/// The tower stays as it is, in whole models, below adapters and merged, and the trained model generates with pictures.
#[test]
fn models_are_saved_with_their_frozen_tower() {
    let (model, place) = (checkpoint("qwen2_5_vl"), place());
    place.write("data.jsonl", &lines((0..3).map(record)));
    succeeds(begin(&place, model.path(), "whole", &[]));
    succeeds(begin(
        &place,
        model.path(),
        "lora",
        &["--lora-rank=2", "--merge"],
    ));
    let before = part(&model.path().join("model.safetensors"), "model.visual.");
    let before = match before.is_empty() {
        true => part(&model.path().join("model.safetensors"), "visual."),
        false => before,
    };
    assert!(!before.is_empty());
    let begin = before
        .keys()
        .next()
        .unwrap()
        .split("visual.")
        .next()
        .unwrap();
    for run in ["whole", "lora"] {
        let folder = place.path(run).join("checkpoint");
        let after = part(
            &folder.join("model.safetensors"),
            &format!("{begin}visual."),
        );
        assert!(before == after, "{run}");
        let mut generate = command();
        generate.args([
            "generate",
            "--chat",
            "--prompt=What is it?",
            "--max-new-tokens=2",
        ]);
        generate.arg("--model").arg(&folder);
        generate.arg("--image").arg(fixture("wide.png"));
        succeeds(generate);
    }
    let adapters = models::read(&place.path("lora").join("adapter/adapter_model.safetensors"));
    assert!(!adapters.is_empty());
    assert!(adapters.keys().all(|name| !name.contains("visual")));
}

/// A run that was killed goes on to the bit, unless a picture has changed.
#[test]
fn a_run_goes_on_with_the_same_pictures() {
    let (model, place) = (checkpoint("qwen3_vl"), place());
    place.write("data.jsonl", &lines((0..9).map(|at| record(at % 3))));
    let eval = place.write("eval.jsonl", &lines((1..3).map(record)));
    let eval = format!("--eval-data={}", eval.display());
    let begin = |run: &str| {
        let extra = [
            eval.as_str(),
            "--lora-rank=2",
            "--steps=12",
            "--batch=2",
            "--seq=160",
            "--save-steps=2",
            "--validate-steps=3",
        ];
        place.begin_on(model.path(), (run, "data.jsonl"), &extra)
    };
    succeeds(begin("whole"));
    let mut child = begin("cut").spawn().unwrap();
    let metrics = place.path("cut").join("metrics.jsonl");
    while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 4 {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let resume = || {
        let mut command = command();
        command.args(["finetune", "--quiet", "--resume"]);
        command.arg(place.path("cut"));
        command
    };
    let picture = fs::read(place.path("wide.png")).unwrap();
    fs::copy(fixture("tall.png"), place.path("wide.png")).unwrap();
    refuses(resume(), 1, &["`data.", " there and "]);
    fs::write(place.path("wide.png"), picture).unwrap();
    succeeds(resume());
    assert_eq!(place.losses("cut"), place.losses("whole"));
}

#[test]
fn a_plan_counts_pictures_and_placeholders_are_never_learned() {
    let (model, place) = (checkpoint("qwen2_5_vl"), place());
    place.write("data.jsonl", &lines((0..3).map(record)));
    let plan = |extra: &[&str]| -> Value {
        let mut command = begin(&place, model.path(), "plan", extra);
        let output = succeeds({
            command.args(["--dry-run", "--json"]);
            command
        });
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let found = plan(&["--no-packing"]);
    let records = goldens()["records"].as_array().unwrap().clone();
    let sum = |name: &str| -> u64 {
        let numbers = records.iter().map(|record| record[name].as_u64().unwrap());
        numbers.sum()
    };
    assert_eq!(found["data"]["pictures"], 3);
    assert_eq!(found["data"]["tokens"], sum("tokens"));
    assert_eq!(found["data"]["targets"], sum("learned"));
    assert!(found["memory"]["pictures"].as_u64().unwrap() > 0);
    // All tokens but the first of each record, and those of pictures.
    let all = plan(&["--all-tokens", "--no-packing"]);
    let parts = all["example"].as_array().unwrap().iter();
    let is_picture = |part: &&Value| part["text"].as_str().unwrap().contains("<|image_pad|>");
    let pictures: Vec<&Value> = parts.filter(is_picture).collect();
    assert_eq!(pictures.len(), 1);
    // One placeholder stands for all tokens of a picture, which are not learned.
    let text = pictures[0]["text"].as_str().unwrap();
    assert_eq!(
        (text, &pictures[0]["learned"]),
        ("<|image_pad|>", &json!(false))
    );
    let grids = cases("qwen2_5_vl")
        .into_iter()
        .map(|case| case["grids"][0].clone());
    let tokens = |grid: Value| -> u64 {
        let sides = grid.as_array().unwrap().iter();
        sides.map(|side| side.as_u64().unwrap()).product::<u64>() / 4
    };
    let [wide, tall]: [u64; 2] = grids
        .take(2)
        .map(tokens)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let expected = sum("tokens") - 3 - 2 * wide - tall;
    assert_eq!(all["data"]["targets"].as_u64(), Some(expected));

    // The picture of 24 tokens does not fit, so that the example ends before it, without an answer.
    place.write("data.jsonl", &lines([record(0)].into_iter()));
    let cut = &plan(&["--all-tokens", "--seq=20"])["data"];
    let tokens = cut["tokens"].as_u64().unwrap();
    assert!(tokens < 20, "{cut}");
    assert_eq!(cut["targets"].as_u64(), Some(tokens - 1));
    assert_eq!((&cut["cut"], &cut["pictures"]), (&json!(1), &Value::Null));
    let mut short = begin(&place, model.path(), "short", &["--seq=30"]);
    short.arg("--dry-run");
    refuses(
        short,
        1,
        &["no example has a token to learn within 30 tokens"],
    );
}

#[test]
fn pictures_that_can_not_be_seen_are_refused_with_their_record() {
    let (model, place) = (checkpoint("qwen2_5_vl"), place());
    let bytes = fs::read(fixture("wide.png")).unwrap();
    fs::write(place.path("cut.png"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(place.path("notes.png"), "no picture").unwrap();
    let mut empty = bytes.clone();
    empty[16..20].fill(0);
    fs::write(place.path("empty.png"), empty).unwrap();
    let with = |question: &str, images: Value| {
        let mut changed = record(0);
        changed["messages"][0]["content"] = json!(question);
        changed["images"] = images;
        changed
    };
    for (bad, words) in [
        (with("<image>", json!(["none.png"])), &["none.png"][..]),
        (with("<image>", json!(["cut.png"])), &["cut.png"]),
        (
            with("<image>", json!(["empty.png"])),
            &["empty.png", "has no pixels"],
        ),
        (
            with("<image>", json!(["notes.png"])),
            &["neither PNG nor JPEG"],
        ),
        (
            with("<image> <|image_pad|>", json!(["wide.png"])),
            &["has 2 placeholders (token 322) for 1 picture"],
        ),
        (
            with("<image> <|video_pad|>", json!(["wide.png"])),
            &["token 323 stands for a part of a clip"],
        ),
        (
            with("a", json!(["wide.png"])),
            &["the record names 1 picture"],
        ),
        (
            with("<|image_pad|>", json!([])),
            &["has 1 placeholder (token 322) for 0 pictures"],
        ),
    ] {
        place.write("data.jsonl", &lines([record(0), bad].into_iter()));
        let words = [&["data.jsonl:2: "][..], words].concat();
        refuses(begin(&place, model.path(), "bad", &[]), 1, &words);
        assert!(!place.path("bad").exists());
    }
    place.write("data.jsonl", &lines([record(2), record(0)].into_iter()));
    let words = [
        "data.jsonl:2: the record has pictures",
        "a vision tower of LlamaForCausalLM is not read",
    ];
    refuses(
        begin(&place, &super::tiny(), "bad", &["--seq=48"]),
        1,
        &words,
    );
    let teacher = format!("--teacher={}", model.path().display());
    let words = ["data.jsonl:2: the record has pictures, but --loss distill"];
    let distil = ["--loss=distill", teacher.as_str()];
    refuses(begin(&place, model.path(), "bad", &distil), 1, &words);
}
