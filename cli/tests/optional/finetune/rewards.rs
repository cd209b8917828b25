//! Runs that train reward models, on completions with rewards, and from a teacher.

use super::{Place, errors, lines, refuses, succeeds, tiny};
use crate::common::{command, floats, kernels, write_ids};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn number(point: &Value, name: &str) -> f64 {
    let value = point[name].as_f64();
    value.unwrap_or_else(|| panic!("{name} is missing in {point}"))
}

fn pairs(count: usize) -> String {
    let pair = |n: usize| {
        json!({
            "prompt": [{"role": "user", "content": format!("What is {n} and {n}?")}],
            "chosen": [{"role": "assistant", "content": format!("It is {}.", n + n)}],
            "rejected": [{"role": "assistant", "content": format!("No. {n}")}],
            "margin": 0.5,
        })
    };
    lines((0..count).map(pair))
}

fn prompts(count: usize) -> String {
    let prompt = |n: usize| json!({"prompt": format!("What is {n}?"), "answer": n});
    lines((0..count).map(prompt))
}

#[test]
fn a_reward_model_learns_is_saved_and_scores() {
    let place = Place::new();
    place.write("pairs.jsonl", &pairs(16));
    for (run, extra) in [("whole", &[][..]), ("lora", &["--lora-rank=4", "--merge"])] {
        let options = [
            "--loss=reward",
            "--steps=20",
            "--lr=3e-3",
            "--held-out=0.25",
        ];
        succeeds(place.begin(run, "pairs.jsonl", &[&options[..], extra].concat()));
        let points = place.points(run);
        let last = points
            .iter()
            .rfind(|point| point["split"] == "valid")
            .unwrap();
        assert_eq!(number(last, "accuracy"), 1.0, "{run}");
        assert!(
            number(last, "margin") > 0.0 && number(last, "min_reward") < number(last, "max_reward")
        );
        let folder = place.path(run).join("checkpoint");
        assert!(!place.path(run).join("adapter").exists());
        let read = |name: &str| -> Value {
            serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap()
        };
        let config = read("config.json");
        assert_eq!(
            config["architectures"],
            json!(["LlamaForSequenceClassification"])
        );
        // No text ends with it, and the tokenizer pads with it.
        let padding = config["pad_token_id"].as_u64().unwrap();
        assert_ne!(padding, 2);
        assert!(read("tokenizer_config.json")["pad_token"].is_string());
        let (inputs, outputs) = (place.path("in.safetensors"), place.path("out.safetensors"));
        let ids = [65, 200, 7, 31, 300, 9, 10, 11, 0, 0];
        let mask = [1, 1, 1, 1, 1, 1, 1, 1, 0, 0];
        write_ids(
            &inputs,
            &[
                ("input_ids", Dtype::I64, &[2, 5], &ids),
                ("attention_mask", Dtype::I64, &[2, 5], &mask),
            ],
        );
        let score = |extra: &[&str]| {
            let mut command = command();
            command
                .arg("run")
                .arg("--model")
                .arg(&folder)
                .arg("--inputs")
                .arg(&inputs);
            command.arg("--outputs").arg(&outputs).args(extra);
            command
        };
        succeeds(score(&[]));
        let found = floats(&outputs);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["scores"]);
        assert_eq!(found["scores"].values.len(), 2);
        fs::remove_file(&outputs).unwrap();
        refuses(score(&["--grads"]), 1, &["a reward model does not have"]);
        let shown = kernels(["inspect-model".as_ref(), folder.as_os_str()]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("one score (a reward model)"), "{shown}");
        let mut generate = command();
        generate
            .arg("generate")
            .arg("--model")
            .arg(&folder)
            .args(["--prompt", "a"]);
        refuses(generate, 1, &["this is a reward model"]);
    }
    refuses(
        place.begin("other", "pairs.jsonl", &["--loss=reward", "--lora-rank=4"]),
        1,
        &["--merge saves the merged model"],
    );
    // The next one begins with the head of the first.
    let folder = place.path("whole").join("checkpoint").display().to_string();
    let mut further = command();
    further.args([
        "finetune",
        "--quiet",
        "--loss=reward",
        "--steps=1",
        "--seq=48",
        "--held-out=0",
    ]);
    further
        .args(["--model", &folder, "--data"])
        .arg(place.path("pairs.jsonl"));
    further.arg("--out").arg(place.path("further"));
    succeeds(further);
    assert_eq!(number(&place.points("further")[0], "accuracy"), 1.0);
}

/// A program that prefers short completions.
#[cfg(unix)]
const SHORT: &str =
    "while IFS= read -r line; do text=${line#*'\"completion\":'}; echo \"-${#text}\"; done";

#[cfg(unix)]
const WRITTEN: [&str; 8] = [
    "--loss=grpo",
    "--completions=4",
    "--max-new-tokens=32",
    "--steps=20",
    "--batch=4",
    "--lr=1e-2",
    "--seq=64",
    "--warmup=0",
];

#[cfg(unix)]
#[test]
fn rewards_rise_and_a_killed_run_goes_on_with_the_same_losses() {
    let place = Place::new();
    place.write("prompts.jsonl", &prompts(8));
    let program = format!("--reward-program={SHORT}");
    let options = [&WRITTEN[..], &[&program]].concat();
    succeeds(place.begin("whole", "prompts.jsonl", &options));
    let points = place.points("whole");
    assert_eq!(points.len(), 20);
    let mean = |points: &[Value]| {
        let rewards = points.iter().map(|point| number(point, "reward"));
        rewards.sum::<f64>() / points.len() as f64
    };
    let (first, last) = (mean(&points[..5]), mean(&points[15..]));
    assert!(last > 0.8 * first, "{first} to {last}");
    for name in [
        "reward_std",
        "frac_reward_zero_std",
        "completions/mean_length",
        "completions/clipped_ratio",
    ] {
        number(&points[0], name);
    }
    let saving = [&options[..], &["--save-steps=2"]].concat();
    let mut child = place
        .begin("cut", "prompts.jsonl", &saving)
        .spawn()
        .unwrap();
    let metrics = place.path("cut").join("metrics.jsonl");
    while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 6 {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut resume = command();
    resume
        .args(["finetune", "--quiet", "--resume"])
        .arg(place.path("cut"));
    succeeds(resume);
    assert_eq!(place.losses("cut"), place.losses("whole"));
    let rewards = |run: &str| -> Vec<f64> {
        place
            .points(run)
            .iter()
            .map(|point| number(point, "reward"))
            .collect()
    };
    assert_eq!(rewards("cut"), rewards("whole"));
}

#[cfg(unix)]
#[test]
fn variants_train_with_a_regular_expression_and_several_updates() {
    let place = Place::new();
    place.write("prompts.jsonl", &prompts(4));
    for (variant, extra) in [
        ("dr-grpo", "--updates=2"),
        // A step can have no completion that ends.
        ("dapo", "--mask-truncated"),
        ("grpo", "--temperature=0.7"),
        ("bnpo", "--beta=0.04"),
        ("gspo", "--advantage-scale=batch"),
    ] {
        let variant = format!("--variant={variant}");
        let options = [
            &variant,
            extra,
            "--loss=grpo",
            "--reward-regex=[aeiou]",
            "--completions=3",
            "--max-new-tokens=4",
            "--steps=2",
            "--batch=2",
            "--accumulate=2",
        ];
        let run = variant.trim_start_matches("--variant=").to_owned();
        succeeds(place.begin(&run, "prompts.jsonl", &options));
        let points = place.points(&run);
        assert!(number(&points[1], "loss").is_finite());
        assert_eq!(points[1].get("kl").is_some(), run == "bnpo", "{run}");
        // Of a step without a completion that counts, nothing is clipped.
        if run != "dapo" || number(&points[1], "completions/clipped_ratio") < 1.0 {
            number(&points[1], "clip_ratio/region_mean");
        }
    }
}

#[cfg(unix)]
#[test]
fn recorded_completions_train() {
    let place = Place::new();
    let record = |n: usize| json!({"prompt": "The river", "completion": [10 + n, 20], "reward": n, "old_logps": [-1.5, -2]});
    place.write("known.jsonl", &lines((0..4).map(record)));
    let options = [
        "--loss=grpo",
        "--steps=3",
        "--batch=1",
        "--max-new-tokens=4",
    ];
    succeeds(place.begin("known", "known.jsonl", &options));
    let points = place.points("known");
    assert_eq!(number(&points[0], "reward"), 1.5);
    assert_eq!(number(&points[0], "completions/mean_length"), 2.0);
    refuses(
        place.begin(
            "other",
            "known.jsonl",
            &[&options[..], &["--completions=4"]].concat(),
        ),
        1,
        &["--completions is about completions that the model writes"],
    );
    // Completions without an end are cut off, and can be left out.
    let masked = [&options[..], &["--mask-truncated", "--variant=dapo"]].concat();
    refuses(
        place.begin("other", "known.jsonl", &masked),
        1,
        &["--mask-truncated leaves out all 4 completions"],
    );
    let ended = |n: usize| {
        let mut record = record(n);
        if n == 0 {
            record["completion"] = json!([10, 2]);
        }
        record
    };
    place.write("ended.jsonl", &lines((0..4).map(ended)));
    succeeds(place.begin("masked", "ended.jsonl", &masked));
    let points = place.points("masked");
    assert_eq!(number(&points[0], "completions/clipped_ratio"), 0.75);
    // The one completion that counts has the lowest reward of 0 to 3, and ratios below the lower clip.
    let advantage = -1.5 / ((5.0_f64 / 3.0).sqrt() + 1e-4);
    let loss = number(&points[0], "loss");
    assert!((loss + 0.8 * advantage).abs() < 1e-5, "{loss}");
    for (data, expected) in [
        (json!([record(1)]), "only completion of its prompt"),
        (
            json!([record(1), record(2), {"prompt": "a"}]),
            "1 of 2 prompts have completions",
        ),
        (
            json!([record(1), {"prompt": "The river", "completion": " is", "reward": 1, "old_logps": [-1]}]),
            "`old_logps` has 1 numbers, but the completion",
        ),
        (
            json!([record(1), {"prompt": "The river", "completion": [400], "reward": 1}]),
            "token 400 is not in 0..320",
        ),
    ] {
        place.write("bad.json", &data.to_string());
        refuses(place.begin("other", "bad.json", &options), 1, &[expected]);
    }
}

#[cfg(unix)]
#[test]
fn a_reward_program_that_fails_ends_the_run_with_its_state() {
    let place = Place::new();
    place.write("prompts.jsonl", &prompts(4));
    let run = |name: &str, command: &str| {
        let program = format!("--reward-program={command}");
        let options = [
            "--loss=grpo",
            "--completions=2",
            "--max-new-tokens=4",
            "--batch=1",
            "--steps=9",
            "--reward-timeout=5",
            &program,
        ];
        place.begin(name, "prompts.jsonl", &options)
    };
    // It ends after two steps.
    let output = run(
        "short",
        "n=0; while [ $n -lt 4 ] && read -r line; do echo 1.5; n=$((n + 1)); done; exit 4",
    )
    .output()
    .unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ended (exit status: 4)"), "{said}");
    assert!(
        said.contains("the last checkpoint is that of step 2"),
        "{said}"
    );
    // It goes on with another time for each number.
    let mut resume = command();
    resume
        .args(["finetune", "--quiet", "--reward-timeout=6", "--resume"])
        .arg(place.path("short"));
    refuses(resume, 1, &["ended (exit status: 4)"]);
    for (name, command, expected) in [
        (
            "words",
            "sed -u 's/.*/good/'",
            "printed `good` for completion 1 of 2, which is not a number",
        ),
        ("none", "cat >/dev/null", "and then none for 5 s"),
    ] {
        refuses(run(name, command), 1, &[expected]);
    }
    refuses(
        place.begin(
            "other",
            "prompts.jsonl",
            &["--loss=grpo", "--seq=48", "--max-new-tokens=4"],
        ),
        1,
        &["--reward-program COMMAND or --reward-regex REGEX"],
    );
    refuses(
        place.begin(
            "other",
            "prompts.jsonl",
            &["--loss=grpo", "--reward-regex=("],
        ),
        1,
        &["no prompt leaves room"],
    );
    refuses(
        place.begin(
            "other",
            "prompts.jsonl",
            &["--loss=grpo", "--max-new-tokens=4", "--reward-regex=("],
        ),
        1,
        &["--reward-regex is not a regular expression"],
    );
}

/// Adds rows of zeros to the table of embeddings of a file.
fn pad_embedding(path: &Path, rows: usize) {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors: Vec<_> = file
        .tensors()
        .into_iter()
        .map(|(name, view)| {
            let (mut shape, mut data) = (view.shape().to_vec(), view.data().to_vec());
            if name == "model.embed_tokens.weight" {
                data.resize(data.len() / shape[0] * rows, 0);
                shape[0] = rows;
            }
            (name, view.dtype(), shape, data)
        })
        .collect();
    let views = tensors.iter().map(|(name, dtype, shape, data)| {
        let view = TensorView::new(*dtype, shape.clone(), data).unwrap();
        (name, view)
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

#[test]
fn a_student_learns_from_a_teacher() {
    let place = Place::new();
    // The reference of the preference tests has the tokens of the model, but no tokenizer.
    let teacher = place.path("teacher");
    fs::create_dir(&teacher).unwrap();
    let reference = tiny().join("../../preference/tiny-reference");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(reference.join(name), teacher.join(name)).unwrap();
    }
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(tiny().join(name), teacher.join(name)).unwrap();
    }
    let named = format!("--teacher={}", teacher.display());
    for (run, extra) in [
        ("middle", &["--lr=3e-3"][..]),
        (
            "forward",
            &["--lr=3e-3", "--mixture=0", "--gradient-checkpointing"],
        ),
        (
            "reverse",
            &["--mixture=1", "--lora-rank=8", "--temperature=2"],
        ),
    ] {
        let options = [
            "--loss=distill",
            &named,
            "--steps=30",
            "--held-out=0.25",
            "--validate-steps=15",
        ];
        succeeds(place.begin(run, "chat.jsonl", &[&options[..], extra].concat()));
        let points = place.points(run);
        let first = number(&points[0], "loss");
        let last = number(points.last().unwrap(), "loss");
        assert!(
            first > 0.0 && last < 0.9 * first,
            "{run}: {first} to {last}"
        );
        assert_eq!(place.summary(run)["perplexity"], Value::Null);
    }
    let plan = place.begin(
        "plan",
        "chat.jsonl",
        &["--loss=distill", &named, "--dry-run"],
    );
    let plan = String::from_utf8(succeeds(plan).stdout).unwrap();
    assert!(plan.contains(", teacher 1)"), "{plan}");
    refuses(
        place.begin("other", "chat.jsonl", &["--loss=distill"]),
        1,
        &["--teacher DIR, which is not given"],
    );
    // A tokenizer with other tokens.
    let path = teacher.join("tokenizer.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut tokens: Value = serde_json::from_str(&text).unwrap();
    let vocabulary = tokens["model"]["vocab"].as_object_mut().unwrap();
    let names: Vec<String> = vocabulary.keys().cloned().collect();
    let of = |id: u64| {
        names
            .iter()
            .find(|name| vocabulary[*name] == id)
            .unwrap()
            .clone()
    };
    let (one, other) = (of(60), of(61));
    vocabulary.insert(one, json!(61));
    vocabulary.insert(other, json!(60));
    fs::write(&path, tokens.to_string()).unwrap();
    let begin = || place.begin("other", "chat.jsonl", &["--loss=distill", &named]);
    refuses(
        begin(),
        1,
        &["has the id 60 in the model's tokenizer, and 61 in the teacher's"],
    );
    // Padding of a vocabulary is no token.
    fs::write(&path, text).unwrap();
    let config = fs::read_to_string(teacher.join("config.json")).unwrap();
    fs::write(teacher.join("config.json"), config.replace("320", "384")).unwrap();
    pad_embedding(&teacher.join("model.safetensors"), 384);
    let plan = place.begin(
        "padded",
        "chat.jsonl",
        &["--loss=distill", &named, "--dry-run"],
    );
    succeeds(plan);
}

/// A run whose loss is not a number ends with the model of the last good step.
#[test]
fn the_last_good_step_is_kept() {
    let place = Place::new();
    let record = |prompt: usize, reward: usize| {
        // The ratio of the one completion is infinite.
        let old = if (prompt, reward) == (3, 0) {
            -1e30
        } else {
            -2.0
        };
        json!({"prompt": format!("{prompt}"), "completion": [50 + reward], "reward": reward, "old_logps": [old]})
    };
    let records = (0..4).flat_map(|prompt| (0..2).map(move |reward| record(prompt, reward)));
    place.write("known.jsonl", &lines(records));
    // The order is that of the seed, and the first step shall be a good one.
    for seed in 0..8 {
        let (run, seed) = (format!("run-{seed}"), format!("--seed={seed}"));
        let options = [
            "--loss=grpo",
            "--batch=1",
            "--steps=9",
            "--lr=1e-3",
            "--clip=0",
            "--max-new-tokens=4",
            &seed,
        ];
        let output = place.begin(&run, "known.jsonl", &options).output().unwrap();
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("training diverged"), "{said}");
        let lines = fs::read_to_string(place.path(&run).join("metrics.jsonl")).unwrap();
        let steps = lines.lines().count();
        if steps > 1 {
            let last = format!("the last checkpoint is that of step {}", steps - 1);
            assert!(said.contains(&last), "{said}");
            let states = fs::read_dir(place.path(&run).join("resume")).unwrap();
            assert_eq!(states.count(), 1);
            // Of several updates in a step, an earlier one has changed the model.
            let twice = [&options[..], &["--updates=2"]].concat();
            let output = place.begin("twice", "known.jsonl", &twice).output();
            let said = errors(&output.unwrap());
            assert!(said.contains("training diverged"), "{said}");
            assert!(!said.contains("the last checkpoint"), "{said}");
            return;
        }
    }
    panic!("no seed has a good first step");
}
