//! Runs whose loss is of answers that are compared or judged.

use super::{Place, errors, lines, refuses, succeeds, tiny};
use crate::common::command;
use serde_json::{Value, json};
use std::fs;

/// Pairs whose chosen answers have one form.
pub fn pairs(count: usize) -> String {
    let pair = |n: usize| {
        json!({
            "prompt": [{"role": "user", "content": format!("What is {n} and {n}?")}],
            "chosen": [{"role": "assistant", "content": format!("It is {}.", n + n)}],
            "rejected": [{"role": "assistant", "content": format!("No. {n}")}],
        })
    };
    lines((0..count).map(pair))
}

fn number(point: &Value, name: &str) -> f64 {
    let value = point[name].as_f64();
    value.unwrap_or_else(|| panic!("{name} is missing in {point}"))
}

/// Returns the data of records, each between its length in 8 bytes with a checksum of 4, and another checksum.
fn records(mut events: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some((length, rest)) = events.split_first_chunk::<8>() {
        let length = u64::from_le_bytes(*length) as usize;
        found.push(&rest[4..4 + length]);
        events = &rest[4 + length + 4..];
    }
    found
}

#[test]
fn a_model_learns_to_prefer() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(16));
    for (loss, first) in [
        ("dpo", Some(2f64.ln())),
        ("ipo", Some(25.0)),
        ("hinge", Some(1.0)),
        ("orpo", None),
        ("simpo", None),
        ("kto", Some(0.5)),
    ] {
        let run = place.path(loss);
        let options = [
            &format!("--loss={loss}"),
            "--steps=20",
            "--lr=3e-3",
            "--held-out=0.25",
            "--validate-steps=10",
            "--tensorboard",
        ];
        succeeds(place.begin(loss, "pairs.jsonl", &options));
        let points = place.points(loss);
        let train: Vec<&Value> = points.iter().filter(|p| p["split"] == "train").collect();
        let valid: Vec<&Value> = points.iter().filter(|p| p["split"] == "valid").collect();
        assert_eq!((train.len(), valid.len()), (20, 2), "{loss}");
        if let Some(expected) = first {
            // Both models are equal in the first step.
            let found = number(train[0], "loss");
            assert!(
                (found - expected).abs() < 1e-4 * expected,
                "{loss}: {found}"
            );
            assert!(number(train[0], "rewards/chosen").abs() < 1e-4, "{loss}");
        }
        let last = valid[1];
        assert!(number(last, "loss") < number(train[0], "loss"), "{loss}");
        assert!(number(last, "rewards/margins") > 0.01, "{loss}: {last}");
        let names: &[&str] = match loss {
            "kto" => &["kl"],
            _ => &["rewards/accuracies", "logps_per_token/chosen"],
        };
        for name in [&["logps/chosen", "logps/rejected"], names].concat() {
            number(last, name);
        }
        if loss != "kto" {
            assert_eq!(number(last, "rewards/accuracies"), 1.0, "{loss}");
        }
        let summary = place.summary(loss);
        assert_eq!(summary["perplexity"], Value::Null);
        let prompts = if loss == "kto" { 32 } else { 16 };
        assert_eq!(summary["data"]["examples"], prompts * 3 / 4, "{loss}");
        assert!(run.join("checkpoint/model.safetensors").exists());
        let table = fs::read_to_string(run.join("metrics.csv")).unwrap();
        let (head, _) = table.split_once("\r\n").unwrap();
        assert!(head.contains(",rewards/margins,"), "{head}");
        assert!(run.join("rewards.svg").exists());
        for name in ["entropy", "mean_token_accuracy"] {
            number(last, name);
        }
        let events = fs::read(run.join("events.out.tfevents.kernels")).unwrap();
        // The version, and an event for each point.
        assert_eq!(records(&events).len(), points.len() + 1);
        let last = records(&events).pop().unwrap();
        assert!(last.windows(20).any(|part| part == b"eval/rewards/margins"));
    }
}

/// A run that goes on has the losses of one that was not interrupted, and the same reference.
#[test]
fn a_run_with_a_reference_goes_on_with_the_same_losses() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(12));
    for (loss, extra) in [
        ("dpo", "--lora-rank=4"),
        ("ipo", "--precompute-reference"),
        ("kto", "--clip=1"),
    ] {
        let options = [
            &format!("--loss={loss}"),
            extra,
            "--steps=8",
            "--held-out=0.2",
        ];
        let whole = format!("{loss}-whole");
        succeeds(place.begin(&whole, "pairs.jsonl", &options));
        let cut = format!("{loss}-cut");
        let saving = [&options[..], &["--save-steps=2"]].concat();
        let mut child = place.begin(&cut, "pairs.jsonl", &saving).spawn().unwrap();
        let metrics = place.path(&cut).join("metrics.jsonl");
        while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 4 {
            assert!(child.try_wait().unwrap().is_none(), "it ended too early");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let resume = |extra: &[&str]| {
            let mut command = command();
            command.args(["finetune", "--quiet", "--resume"]);
            command.arg(place.path(&cut)).args(extra);
            command
        };
        refuses(resume(&["--beta=0.2"]), 1, &["settings.loss.beta"]);
        succeeds(resume(&[]));
        assert_eq!(place.losses(&cut), place.losses(&whole), "{loss}");
    }
}

/// The reference's log-probabilities are the same before training as in its steps, and a run that goes on reads them.
#[test]
fn a_precomputed_reference_changes_no_loss() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(8));
    let options = [
        "--loss=dpo",
        "--held-out=0.25",
        "--validate-steps=2",
        "--steps=4",
    ];
    succeeds(place.begin("live", "pairs.jsonl", &options));
    let precomputed = [&options[..], &["--precompute-reference", "--save-steps=2"]].concat();
    succeeds(place.begin("first", "pairs.jsonl", &precomputed));
    let (live, first) = (place.losses("live"), place.losses("first"));
    assert_eq!(live.len(), first.len());
    for (live, first) in live.iter().zip(&first) {
        assert!((live - first).abs() < 1e-4 * live, "{live} and {first}");
    }
    let file = place.path("first/reference.json");
    let known: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(known["log_probs"].as_array().unwrap().len(), 16);
}

#[test]
fn a_dry_run_shows_both_answers_and_counts_the_reference() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(4));
    let shown = |extra: &[&str]| {
        let options = [&["--loss=dpo", "--dry-run", "--held-out=0"], extra].concat();
        let output = succeeds(place.begin("run", "pairs.jsonl", &options));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = shown(&[]);
    for expected in [
        "⟦It is 0.<|im_end|>\n⟧",
        "The rejected answer:\n",
        "⟦No. 0<|im_end|>\n⟧",
        "1 × 2 pairs",
        ", reference 1)",
    ] {
        assert!(text.contains(expected), "`{expected}` is not in {text}");
    }
    assert!(!place.path("run").exists());
    assert!(!shown(&["--reference-free"]).contains("reference 1"));
}

#[test]
fn log_probabilities_of_records_take_the_place_of_a_reference() {
    let place = Place::new();
    let record = |known: bool| {
        let mut record = json!({"prompt": "The river", "chosen": " has", "rejected": " is"});
        if known {
            record["ref_chosen_logps"] = json!(-9.0);
            record["ref_rejected_logps"] = json!(-8.0);
        }
        record
    };
    place.write("known.jsonl", &lines((0..4).map(|_| record(true))));
    place.write("some.jsonl", &lines((0..4).map(|n| record(n > 1))));
    let run = |data: &str, extra: &[&str]| {
        place.begin("run", data, &[&["--loss=dpo", "--steps=1"], extra].concat())
    };
    succeeds(run("known.jsonl", &["--held-out=0"]));
    let point = &place.points("run")[0];
    let reward = 0.1 * (number(point, "logps/chosen") + 9.0);
    assert!((number(point, "rewards/chosen") - reward).abs() < 1e-6);
    let other = |data: &str, extra: &[&str]| {
        let options = [&["--loss=dpo", "--dry-run"], extra].concat();
        place.begin("other", data, &options)
    };
    refuses(
        other("some.jsonl", &[]),
        1,
        &["2 of 4 records", "in all or in none"],
    );
    let tiny = tiny().display().to_string();
    let named = format!("--reference={tiny}");
    refuses(
        other("known.jsonl", &[&named]),
        1,
        &["--reference names a model"],
    );
    refuses(
        other("known.jsonl", &["--reference-free"]),
        1,
        &["ask for none"],
    );
}

#[test]
fn bad_preferences_are_told_before_a_step() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(4));
    place.write("text.txt", "a text");
    let single = json!({"prompt": "a", "completion": " b", "label": true});
    place.write("one.jsonl", &lines([single.clone()].into_iter()));
    let same = |n: usize| json!({"prompt": format!("a{n}"), "completion": " b", "label": true});
    place.write("same.jsonl", &lines((0..3).map(same)));
    let long = json!({"prompt": "a river ".repeat(40), "chosen": " b", "rejected": " c"});
    place.write("long.jsonl", &lines([long.clone()].into_iter()));
    let short = json!({"prompt": "a", "chosen": " b", "rejected": " c"});
    place.write(
        "mixed.jsonl",
        &lines([long, short.clone(), short].into_iter()),
    );
    let equal = json!({"prompt": "a", "chosen": " b", "rejected": " b"});
    let bad = json!({"prompt": "a", "completion": " b", "label": 1});
    place.write("bad.jsonl", &lines([equal, bad].into_iter()));
    for (data, options, words) in [
        (
            "bad.jsonl",
            &["--loss=dpo"][..],
            &[
                "bad.jsonl:1",
                "are equal",
                "bad.jsonl:2",
                "`chosen` is missing",
            ][..],
        ),
        (
            "bad.jsonl",
            &["--loss=kto"],
            &["bad.jsonl:2", "`label` must be true or false"],
        ),
        ("text.txt", &["--loss=dpo"], &["a text has no answers"]),
        (
            "one.jsonl",
            &["--loss=kto"],
            &["all records have one prompt"],
        ),
        (
            "one.jsonl",
            &["--loss=dpo"],
            &["one.jsonl:1: `chosen` is missing", "pairs", "--loss kto"],
        ),
        (
            "pairs.jsonl",
            &["--loss=sft"],
            &["pairs.jsonl:1", "is a pair, for --loss dpo"],
        ),
        (
            "long.jsonl",
            &["--loss=dpo"],
            &["no record has room", "--seq"],
        ),
        (
            "pairs.jsonl",
            &["--loss=dpo", "--all-tokens"],
            &["--all-tokens"],
        ),
        (
            "pairs.jsonl",
            &["--loss=dpo", "--gamma=1"],
            &["--gamma", "simpo"],
        ),
        (
            "pairs.jsonl",
            &["--loss=robust", "--label-smoothing=0.5"],
            &["--label-smoothing", "below 0.5"],
        ),
        (
            "pairs.jsonl",
            &["--loss=dpo", "--lora-rank=2", "--lora-dropout=0.1"],
            &["--lora-dropout", "without dropout"],
        ),
        (
            "pairs.jsonl",
            &["--loss=dpo", "--reference=/none"],
            &["/none"],
        ),
    ] {
        refuses(place.begin("run", data, options), 1, words);
        assert!(!place.path("run").exists(), "{data} {options:?}");
    }
    let begin = |data: &str, loss: &str| place.begin("run", data, &[loss, "--dry-run"]);
    let said = errors(&succeeds(begin("mixed.jsonl", "--loss=dpo")));
    assert!(
        said.contains("1 records have no room") && said.contains("mixed.jsonl:1"),
        "{said}"
    );
    refuses(
        begin("same.jsonl", "--loss=kto"),
        1,
        &["all 3 answers are desirable", "`label` is false"],
    );
    let bad = |n: usize| json!({"prompt": format!("a{n}"), "completion": " b", "label": false});
    place.write("bad.jsonl", &lines((0..3).map(bad)));
    let said = errors(&succeeds(begin("bad.jsonl", "--loss=kto")));
    assert!(said.contains("all 3 answers are undesirable"), "{said}");
}
