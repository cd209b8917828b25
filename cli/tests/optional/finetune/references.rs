//! The models that answers are compared by: which can score them, and that a run goes on with the same.

use super::preferences::pairs;
use super::{Place, errors, lines, refuses, succeeds, tiny};
use crate::common::command;
use burn::tensor::Device;
use kernels_models::ModelConfig;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn copied(place: &Place, from: &Path, name: &str) -> PathBuf {
    let to = place.path(name);
    fs::create_dir(&to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to
}

/// Returns a folder with the weights of another model of the tiny one's kind, and these fields of its configuration.
fn reference(place: &Place, name: &str, changed: &Value) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let folder = copied(place, &fixtures.join("preference/tiny-reference"), name);
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for (field, value) in changed.as_object().unwrap() {
        config[field] = value.clone();
    }
    fs::write(path, config.to_string()).unwrap();
    folder
}

fn option(folder: &Path) -> String {
    format!("--reference={}", folder.display())
}

#[test]
fn models_that_cannot_score_the_answers_are_refused_before_weights_are_read() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(4));
    for (name, changed, words) in [
        (
            "short",
            json!({"max_position_embeddings": 16}),
            ["--seq is 48", "short has 16 positions"],
        ),
        (
            "small",
            json!({"vocab_size": 300}),
            ["has 300 tokens", "of the model 320"],
        ),
    ] {
        let folder = reference(&place, name, &changed);
        fs::remove_file(folder.join("model.safetensors")).unwrap();
        let run = place.begin("run", "pairs.jsonl", &["--loss=dpo", &option(&folder)]);
        refuses(run, 1, &words);
    }
    let folder = reference(&place, "other-tokens", &json!({}));
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    let text = fs::read_to_string(tiny().join("tokenizer.json")).unwrap();
    let mut tokenizer: Value = serde_json::from_str(&text).unwrap();
    let vocabulary = &mut tokenizer["model"]["vocab"];
    let (one, other) = (vocabulary["!"].clone(), vocabulary["#"].clone());
    (vocabulary["!"], vocabulary["#"]) = (other, one);
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let run = place.begin("run", "pairs.jsonl", &["--loss=dpo", &option(&folder)]);
    refuses(
        run,
        1,
        &[
            "its tokenizer is another one",
            "`!` has the id 3",
            "and 5 there",
        ],
    );
    assert!(!place.path("run").exists());
}

/// A model of another family and size, whose caps of scores keep documents out of one sequence.
#[test]
fn a_reference_can_be_of_another_family() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(4));
    let config = json!({
        "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "vocab_size": 320, "hidden_size": 16,
        "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "sliding_window": 32, "query_pre_attn_scalar": 8,
        "rope_theta": 10000.0, "hidden_activation": "gelu_pytorch_tanh",
    });
    let file = place.write("gemma.json", &config.to_string());
    let config = ModelConfig::from_file(&file).unwrap();
    let folder = place.path("gemma");
    kernels_models::save(&config.init(&Device::flex()), &config, &folder, None).unwrap();
    let options = ["--loss=dpo", &option(&folder), "--steps=2", "--held-out=0"];
    let said = errors(&succeeds(place.begin("run", "pairs.jsonl", &options)));
    assert!(
        said.contains("each example has a sequence of its own"),
        "{said}"
    );
    let losses = place.losses("run");
    assert_eq!(losses.len(), 2);
    // The two models differ from the first step on.
    assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
    assert!((losses[0] - 2f64.ln()).abs() > 1e-3, "{losses:?}");
}

/// Changes one bit of a file in its last bytes, which are of a weight.
fn change(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() - 2;
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_run_goes_on_with_the_same_reference_alone() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(6));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let base = copied(&place, &tiny(), "base");
    let named = reference(&place, "named", &json!({}));
    let adapter = copied(&place, &fixtures.join("preference/tiny-adapter"), "adapter");
    for (name, extra, changed, words) in [
        (
            "by-name",
            option(&named),
            named.join("model.safetensors"),
            "a reference of other weights",
        ),
        (
            "as-begun",
            "--beta=0.2".to_owned(),
            base.join("model.safetensors"),
            "other weights: those of the checkpoint that --model names",
        ),
        (
            "adapted",
            format!("--adapter={}", adapter.display()),
            adapter.join("adapter_model.safetensors"),
            "a reference of other weights",
        ),
    ] {
        let mut begin = command();
        begin.args([
            "finetune",
            "--loss=dpo",
            "--steps=2",
            "--seq=48",
            "--held-out=0",
        ]);
        begin.arg("--model").arg(&base).arg(extra);
        begin.arg("--data").arg(place.path("pairs.jsonl"));
        begin.arg("--out").arg(place.path(name));
        succeeds(begin);
        // The run as it was before its results were written.
        fs::remove_file(place.path(name).join("summary.json")).unwrap();
        let resume = || {
            let mut command = command();
            command.args(["finetune", "--quiet", "--resume"]);
            command.arg(place.path(name));
            command
        };
        change(&changed);
        refuses(resume(), 1, &[words, "put the former ones back"]);
        change(&changed);
        succeeds(resume());
    }
}

/// A run that goes on needs no model of a reference whose log-probabilities it has.
#[test]
fn a_precomputed_reference_is_not_loaded_again() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(6));
    let named = reference(&place, "named", &json!({}));
    let options = [
        "--loss=dpo",
        "--precompute-reference",
        &option(&named),
        "--held-out=0",
    ];
    succeeds(place.begin("run", "pairs.jsonl", &options));
    let losses = place.losses("run");
    fs::remove_file(place.path("run/summary.json")).unwrap();
    fs::remove_dir_all(&named).unwrap();
    let mut resume = command();
    resume.args(["finetune", "--quiet", "--resume"]);
    resume.arg(place.path("run"));
    succeeds(resume);
    assert_eq!(place.losses("run"), losses);
}

/// A run that was killed while it computed them goes on with those that it has, if they are of its data and reference.
#[test]
fn a_part_of_a_precomputed_reference_is_not_computed_again() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(6));
    let options = ["--loss=dpo", "--precompute-reference", "--held-out=0"];
    succeeds(place.begin("run", "pairs.jsonl", &options));
    let file = place.path("run/reference.json");
    let read = || -> Value { serde_json::from_slice(&fs::read(&file).unwrap()).unwrap() };
    let whole = read();
    let all = whole["log_probs"].as_array().unwrap();
    assert_eq!(all.len(), 12);
    let part = place.path("run/reference.part.json");
    let resume = |field: &str, value: Value| {
        let mut some = whole.clone();
        some["log_probs"] = json!(vec![-7.0; 8]);
        some[field] = value;
        fs::write(&part, some.to_string()).unwrap();
        for name in ["summary.json", "reference.json"] {
            let _ = fs::remove_file(place.path("run").join(name));
        }
        let mut resume = command();
        resume.args(["finetune", "--quiet", "--resume"]);
        resume.arg(place.path("run"));
        resume
    };
    refuses(
        resume("fingerprint", json!("1")),
        1,
        &["belongs to other data"],
    );
    refuses(
        resume("reference", json!("1")),
        1,
        &["belongs to other weights"],
    );
    let same = whole["fingerprint"].clone();
    succeeds(resume("fingerprint", same));
    let found = read();
    let found = found["log_probs"].as_array().unwrap();
    assert_eq!(found[..8], vec![json!(-7.0); 8]);
    assert_eq!(found[8..], all[8..]);
    assert!(!part.exists());
}

#[test]
fn recorded_references_are_of_whole_answers_and_of_no_other_prompts() {
    let place = Place::new();
    let record = |n: usize, known: bool| {
        let mut record = json!({
            "prompt": format!("The river {n}"), "chosen": " has it all, and more.", "rejected": " is",
        });
        if known {
            record["ref_chosen_logps"] = json!(-9.0);
            record["ref_rejected_logps"] = json!(-8.0);
        }
        record
    };
    place.write("known.jsonl", &lines((0..4).map(|n| record(n, true))));
    let begin = |run: &str, options: &[&str]| place.begin(run, "known.jsonl", options);
    refuses(
        begin("cut", &["--loss=dpo", "--seq=16"]),
        1,
        &[
            "known.jsonl:1: an answer ends after 16 tokens",
            "a larger --seq keeps it",
        ],
    );
    refuses(
        begin("kto", &["--loss=kto"]),
        1,
        &["--loss kto also compares with answers behind other prompts"],
    );
    // Both answers of a pair bring their own to a loss of single answers.
    let options = [
        "--loss=apo-zero-unpaired",
        "--steps=1",
        "--batch=8",
        "--held-out=0",
    ];
    succeeds(begin("single", &options));
    let point = &place.points("single")[0];
    let number = |name: &str| point[name].as_f64().unwrap();
    for (kind, known) in [("chosen", 9.0), ("rejected", 8.0)] {
        let reward = 0.1 * (number(&format!("logps/{kind}")) + known);
        let found = number(&format!("rewards/{kind}"));
        assert!(
            (found - reward).abs() < 1e-5,
            "{kind}: {found}, not {reward}"
        );
    }
}

#[test]
fn pairs_that_are_equal_as_far_as_they_are_read_are_left_out() {
    let place = Place::new();
    let pair = |end: [&str; 2]| {
        let [chosen, rejected] = end.map(|end| format!(" {}{end}", "a river ".repeat(12)));
        json!({"prompt": "The", "chosen": chosen, "rejected": rejected})
    };
    let short = json!({"prompt": "The", "chosen": " river", "rejected": " sea"});
    let records = [pair(["here", "there"]), short.clone(), short];
    place.write("pairs.jsonl", &lines(records.into_iter()));
    let begin = |seq: &str| {
        place.begin(
            "run",
            "pairs.jsonl",
            &["--loss=simpo", "--dry-run", "--held-out=0", seq],
        )
    };
    let said = errors(&succeeds(begin("--seq=20")));
    assert!(
        said.contains(
            "1 records have two answers that are equal within 20 tokens, and are left out"
        ) && said.contains("pairs.jsonl:1"),
        "{said}"
    );
    assert!(!errors(&succeeds(begin("--seq=96"))).contains("left out"));
}

/// The baseline of KTO comes from answers to other prompts, also where all answers of a step have one.
#[test]
fn single_answers_need_two_prompts() {
    let place = Place::new();
    let single = |prompt: &str, n: usize| json!({"prompt": prompt, "completion": format!(" {n}"), "label": n.is_multiple_of(2)});
    place.write("one.jsonl", &lines((0..6).map(|n| single("a", n))));
    let two = (0..6).map(|n| single(if n < 5 { "a" } else { "b" }, n));
    place.write("two.jsonl", &lines(two));
    let begin = |data: &str| {
        place.begin(
            &format!("run-{data}"),
            data,
            &["--loss=kto", "--steps=3", "--held-out=0"],
        )
    };
    refuses(begin("one.jsonl"), 1, &["all records have one prompt"]);
    succeeds(begin("two.jsonl"));
}
