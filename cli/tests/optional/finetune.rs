//! Tests of `kernels finetune` on a tiny checkpoint with a tokenizer.

#[cfg(feature = "images")]
mod pictures;
mod preferences;
mod references;
mod rewards;
#[cfg(unix)]
mod runs;

use crate::common::{command, errors, floats, kernels, write_ids};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text/tiny")
}

/// A folder with data and runs.
struct Place(TempDir);

/// Options of a short run.
const SHORT: [&str; 6] = [
    "--quiet",
    "--steps=6",
    "--batch=2",
    "--seq=48",
    "--lr=1e-2",
    "--save-minutes=0",
];

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        let ask = |n: usize| {
            json!({"messages": [
                {"role": "user", "content": format!("What is {n} and {n}?")},
                {"role": "assistant", "content": format!("It is {}.", n + n)},
            ]})
        };
        place.write("chat.jsonl", &lines((0..24).map(ask)));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Returns a command that begins a run.
    fn begin(&self, run: &str, data: &str, extra: &[&str]) -> Command {
        self.begin_on(&tiny(), (run, data), extra)
    }

    /// Returns a command that begins a run on another checkpoint.
    fn begin_on(&self, model: &Path, (run, data): (&str, &str), extra: &[&str]) -> Command {
        let option = |text: &str| text.split('=').next().map(str::to_owned);
        let is_given = |short: &&str| extra.iter().any(|extra| option(extra) == option(short));
        let mut command = command();
        command.arg("finetune").arg("--model").arg(model);
        command.arg("--data").arg(self.path(data));
        command.arg("--out").arg(self.path(run));
        command.args(SHORT.iter().filter(|short| !is_given(short)));
        command.args(extra);
        command
    }

    fn points(&self, run: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(run).join("metrics.jsonl")).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.map(|line| line.expect("whole lines")).collect()
    }

    fn losses(&self, run: &str) -> Vec<f64> {
        let points = self.points(run);
        let loss = |point: &Value| point["loss"].as_f64().unwrap();
        points.iter().map(loss).collect()
    }

    fn summary(&self, run: &str) -> Value {
        let text = fs::read_to_string(self.path(run).join("summary.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

fn lines(values: impl Iterator<Item = Value>) -> String {
    values.map(|value| format!("{value}\n")).collect()
}

#[track_caller]
fn succeeds(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    output
}

#[track_caller]
fn refuses(mut command: Command, code: i32, words: &[&str]) {
    let output = command.output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

/// Returns the logits of a checkpoint for a few tokens.
fn logits(place: &Place, checkpoint: &Path) -> Vec<f64> {
    let (inputs, outputs) = (place.path("in.safetensors"), place.path("out.safetensors"));
    write_ids(
        &inputs,
        &[("input_ids", Dtype::I64, &[1, 5], &[65, 200, 7, 31, 300])],
    );
    let result = kernels([
        "run".as_ref(),
        "--model".as_ref(),
        checkpoint.as_os_str(),
        "--inputs".as_ref(),
        inputs.as_os_str(),
        "--outputs".as_ref(),
        outputs.as_os_str(),
    ]);
    assert!(result.status.success(), "{}", errors(&result));
    floats(&outputs).remove("logits").unwrap().values
}

/// A GGUF file gets the adapters of the checkpoint that it was made from, and only those that it has a place for.
#[test]
fn adapters_begin_with_a_gguf_file() {
    let place = Place::new();
    let file = tiny().with_extension("gguf");
    let adapters = ["--lora-rank=2"];
    succeeds(place.begin("folder", "chat.jsonl", &adapters));
    succeeds(place.begin_on(&file, ("file", "chat.jsonl"), &adapters));
    let (expected, found) = (place.losses("folder"), place.losses("file"));
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert!(
            (found - expected).abs() < 1e-5 * expected,
            "{found} and {expected}"
        );
    }
    let adapter = place.path("file/adapter/adapter_model.safetensors");
    assert!(adapter.exists());
    for extra in [&[][..], &["--lora-rank=2", "--merge"]] {
        let other = place.begin_on(&file, ("other", "chat.jsonl"), extra);
        refuses(other, 1, &["tiny.gguf is a GGUF file", "--lora-rank"]);
        assert!(!place.path("other").exists());
    }
}

#[test]
fn a_whole_model_learns_and_generates() {
    let place = Place::new();
    let output = succeeds(place.begin("run", "chat.jsonl", &["--steps=40", "--validate-steps=10"]));
    assert_eq!(errors(&output), "", "quiet");
    let losses = place.losses("run");
    assert!(losses[losses.len() - 2] < 0.6 * losses[0], "{losses:?}");
    let summary = place.summary("run");
    assert_eq!(summary["data"]["examples"], 23);
    assert_eq!(summary["data"]["held_out"], 1);
    assert_eq!(
        summary["parameters"]["all"],
        summary["parameters"]["trained"]
    );
    let best = &summary["best"];
    let valid = place
        .points("run")
        .into_iter()
        .filter(|point| point["split"] == "valid");
    let lowest = valid
        .map(|point| point["loss"].as_f64().unwrap())
        .fold(f64::MAX, f64::min);
    assert_eq!(best["loss"].as_f64(), Some(lowest));
    let checkpoint = place.path("run/checkpoint");
    for name in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        assert!(checkpoint.join(name).is_file(), "{name}");
    }
    assert_ne!(logits(&place, &checkpoint), logits(&place, &tiny()));
    let said = kernels([
        "generate".as_ref(),
        "--model".as_ref(),
        checkpoint.as_os_str(),
        "--prompt=What is 3 and 3?".as_ref(),
        "--chat".as_ref(),
        "--greedy".as_ref(),
        "--max-new-tokens=12".as_ref(),
    ]);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("It is"), "{text}: {}", errors(&said));
}

/// The adapters and the merged model of a run compute the same, in both dtypes, with dropout and without packing.
#[test]
fn adapters_are_trained_saved_and_merged() {
    let place = Place::new();
    for (number, extra) in [
        &["--lora-rank=4"][..],
        &[
            "--lora-rank=2",
            "--rslora",
            "--lora-dropout=0.2",
            "--lora-target=q_proj",
            "--lora-target=*.mlp.*",
        ],
        &["--lora-rank=4", "--dtype=bf16", "--no-packing"],
        &["--lora-rank=4", "--load-in-4bit"],
        &["--lora-rank=4", "--load-in-4bit", "--dtype=bf16"],
    ]
    .into_iter()
    .enumerate()
    {
        let run = format!("run{number}");
        let extra = [extra, &["--merge", "--steps=30"]].concat();
        succeeds(place.begin(&run, "chat.jsonl", &extra));
        let losses = place.losses(&run);
        assert!(
            losses[losses.len() - 2] < 0.8 * losses[0],
            "{extra:?}: {losses:?}"
        );
        let summary = place.summary(&run);
        let count = |name: &str| summary["parameters"][name].as_u64().unwrap();
        assert!(count("trained") > 0 && count("trained") < count("all") / 2);
        let adapter = place.path(&run).join("adapter");
        let text = fs::read_to_string(adapter.join("adapter_config.json")).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(config["use_rslora"], json!(number == 1));
        let merged = logits(&place, &place.path(&run).join("checkpoint"));
        assert_ne!(merged, logits(&place, &tiny()));

        // A run that goes on with these adapters begins where they are.
        let on = format!("on{number}");
        let adapter = format!("--adapter={}", adapter.display());
        let dtype = extra
            .iter()
            .filter(|option| option.starts_with("--dtype"))
            .copied();
        let options: Vec<&str> = [adapter.as_str(), "--steps=1", "--lr=1e-9"]
            .into_iter()
            .chain(dtype)
            .collect();
        succeeds(place.begin(&on, "chat.jsonl", &options));
        assert!(place.losses(&on)[0] < 0.9 * losses[0], "{extra:?}");
    }
}

/// Sequences of several examples have the losses of single ones: what one holds does not change another.
#[test]
fn packing_changes_no_loss() {
    let place = Place::new();
    let validation = |run: &str, extra: &[&str]| {
        let extra = [&["--steps=1", "--lr=1e-12", "--held-out=0.5"], extra].concat();
        succeeds(place.begin(run, "chat.jsonl", &extra));
        *place.losses(run).last().unwrap()
    };
    let packed = validation("packed", &["--seq=96"]);
    let single = validation("single", &["--no-packing"]);
    assert!(
        (packed - single).abs() < 1e-5 * single,
        "{packed} and {single}"
    );
    let accumulated = ["--batch=1", "--accumulate=4", "--seq=96"];
    let together = ["--batch=4", "--seq=96"];
    let first = |run: &str, extra: &[&str]| {
        succeeds(place.begin(run, "chat.jsonl", &[extra, &["--steps=3"]].concat()));
        place.losses(run)
    };
    let (one, other) = (
        first("accumulated", &accumulated),
        first("together", &together),
    );
    for (one, other) in one.iter().zip(&other) {
        assert!((one - other).abs() < 1e-4 * other, "{one} and {other}");
    }
}

/// The first loss has the same bits. Gradients of the table of embeddings are added in another order, and steps as large as
/// these soon make more of a rounding in bf16.
#[test]
fn layers_that_are_computed_twice_change_no_loss() {
    let place = Place::new();
    for (dtype, compared, bound) in [("--dtype=f32", 9, 1e-4), ("--dtype=bf16", 4, 0.02)] {
        for adapters in ["--lora-rank=3", "--clip=1"] {
            let losses = |run: &str, extra: &[&str]| {
                let run = format!("{run}{dtype}{adapters}");
                let options = [dtype, adapters, "--accumulate=2"];
                succeeds(place.begin(&run, "chat.jsonl", &[&options, extra].concat()));
                place.losses(&run)
            };
            let all = losses("all", &[]);
            let twice = losses("twice", &["--gradient-checkpointing"]);
            assert_eq!(all[0].to_bits(), twice[0].to_bits(), "{dtype} {adapters}");
            assert!(all[0] > 1.2 * all[all.len() - 2], "{all:?}");
            assert_eq!(all.len(), twice.len());
            for (all, twice) in all.iter().zip(&twice).take(compared) {
                let error = (all - twice).abs();
                assert!(error < bound * all, "{all} and {twice}: {dtype} {adapters}");
            }
        }
    }
}

#[test]
fn a_run_goes_on_with_the_same_losses() {
    let place = Place::new();
    let options = [
        "--lora-rank=4",
        "--load-in-4bit",
        "--lora-dropout=0.1",
        "--validate-steps=3",
        "--steps=12",
    ];
    succeeds(place.begin("whole", "chat.jsonl", &options));
    let saving = [&options[..], &["--save-steps=2"]].concat();
    let mut child = place.begin("cut", "chat.jsonl", &saving).spawn().unwrap();
    let metrics = place.path("cut/metrics.jsonl");
    while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 6 {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let resume = |extra: &[&str]| {
        let mut command = command();
        command
            .args(["finetune", "--quiet", "--resume"])
            .arg(place.path("cut"))
            .args(extra);
        command
    };
    refuses(
        resume(&["--lora-rank=8", "--lora-alpha=8"]),
        1,
        &["rank", "is 4 there and 8 here"],
    );
    refuses(
        resume(&["--batch=1"]),
        1,
        &["`settings.batch` is 2 there and 1 here"],
    );
    let adapter =
        |run: &str| fs::read(place.path(run).join("adapter/adapter_model.safetensors")).unwrap();
    // The model is written before what may fail after it.
    let in_the_way = place.path("cut/metrics.csv");
    fs::create_dir(&in_the_way).unwrap();
    refuses(resume(&[]), 1, &["metrics.csv"]);
    assert!(adapter("cut") == adapter("whole"));
    fs::remove_dir(&in_the_way).unwrap();
    succeeds(resume(&[]));
    assert_eq!(place.losses("cut"), place.losses("whole"));
    assert!(adapter("cut") == adapter("whole"));
}

#[test]
fn a_run_ends_early_and_keeps_the_best() {
    let place = Place::new();
    let options = [
        "--steps=60",
        "--lr=0.3",
        "--schedule=constant",
        "--validate-steps=2",
        "--patience=2",
        "--clip=0",
    ];
    let mut command = place.begin("run", "chat.jsonl", &options);
    let output = command.output().unwrap();
    // Such a rate makes the loss rise, or no number at all.
    let steps = place
        .points("run")
        .iter()
        .filter(|point| point["split"] == "train")
        .count();
    assert!(steps < 60, "{steps}");
    if output.status.success() {
        let summary = place.summary("run");
        assert!(summary["best"]["step"].as_u64().unwrap() <= steps as u64);
    } else {
        assert!(
            errors(&output).contains("training diverged"),
            "{}",
            errors(&output)
        );
    }
}

#[test]
fn every_form_of_data_is_learned_from() {
    let place = Place::new();
    let text = "It was the best of times, it was the worst of times. ".repeat(20);
    place.write("text.txt", &text);
    place.write(
        "text.jsonl",
        &lines((0..6).map(|n| json!({"text": format!("line {n}, line {n}")}))),
    );
    place.write(
        "pairs.jsonl",
        &lines((0..6).map(|n| json!({"prompt": format!("{n}:"), "completion": format!(" {n}")}))),
    );
    let alpaca: Vec<Value> = (0..6)
        .map(|n| json!({"instruction": "add", "input": n.to_string(), "output": "x"}))
        .collect();
    place.write("alpaca.json", &Value::from(alpaca).to_string());
    for data in ["text.txt", "text.jsonl", "pairs.jsonl", "alpaca.json"] {
        let run = data.replace('.', "-");
        succeeds(place.begin(&run, data, &["--steps=2"]));
        let facts = &place.summary(&run)["data"];
        let number = |name: &str| facts[name].as_u64().unwrap();
        assert!(
            number("targets") > 0 && number("targets") < number("tokens"),
            "{data}: {facts}"
        );
        assert_eq!(number("cut"), 0, "texts are divided, and nothing is lost");
    }
    // All tokens of prompts are learned on request.
    succeeds(place.begin("all", "pairs.jsonl", &["--steps=1", "--all-tokens"]));
    let targets = |run: &str| place.summary(run)["data"]["targets"].as_u64().unwrap();
    assert!(targets("all") > targets("pairs-jsonl"));
}

#[test]
fn answers_in_a_prompt_are_not_learned() {
    let place = Place::new();
    let turn = |role: &str, content: &str| json!({"role": role, "content": content});
    let prompt = [turn("user", "a"), turn("assistant", "b"), turn("user", "c")];
    let completion = [turn("assistant", "d")];
    let all = [&prompt[..], &completion].concat();
    let whole = json!({"messages": all});
    let continued = json!({"prompt": prompt, "completion": completion});
    let facts = |run: &str, record: Value| {
        let data = format!("{run}.jsonl");
        place.write(&data, &lines(std::iter::repeat_n(record, 6)));
        succeeds(place.begin(run, &data, &["--steps=1"]));
        let facts = &place.summary(run)["data"];
        ["tokens", "targets"].map(|name| facts[name].as_u64().unwrap())
    };
    let [tokens, of_both] = facts("whole", whole);
    let [same, of_one] = facts("continued", continued);
    assert_eq!(tokens, same);
    // Both answers are one letter and the tokens that end a turn.
    assert_eq!(of_both, 2 * of_one);
}

#[test]
fn turns_that_are_marked_so_are_not_learned() {
    let place = Place::new();
    let turn = |role: &str, content: &str| json!({"role": role, "content": content});
    let targets = |run: &str, field: Value, extra: &[&str]| {
        let mut first = turn("assistant", "b");
        first
            .as_object_mut()
            .unwrap()
            .extend(field.as_object().unwrap().clone());
        let turns = json!([
            turn("user", "a"),
            first,
            turn("user", "c"),
            turn("assistant", "d")
        ]);
        let data = format!("{run}.jsonl");
        place.write(
            &data,
            &lines(std::iter::repeat_n(json!({"messages": turns}), 6)),
        );
        succeeds(place.begin(run, &data, &[&["--steps=1"], extra].concat()));
        place.summary(run)["data"]["targets"].as_u64().unwrap()
    };
    let both = targets("both", json!({"weight": 1}), &[]);
    assert_eq!(targets("one", json!({"weight": 0}), &[]) * 2, both);
    let all = targets("all", json!({}), &["--all-tokens"]);
    let others = targets("others", json!({"train": false}), &["--all-tokens"]);
    assert_eq!(others, all - both / 2);
}

/// A copy of the checkpoint with another template and another token at the end of a text.
fn base(place: &Place, template: &str, eos: &str) -> PathBuf {
    let base = place.path("base");
    fs::create_dir_all(&base).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(tiny().join(file), base.join(file)).unwrap();
    }
    let config = json!({"eos_token": eos, "bos_token": "<|endoftext|>", "chat_template": template});
    fs::write(base.join("tokenizer_config.json"), config.to_string()).unwrap();
    let settings = json!({"eos_token_id": 0, "top_k": 7});
    fs::write(base.join("generation_config.json"), settings.to_string()).unwrap();
    base
}

#[test]
fn tokens_that_end_answers_end_those_of_the_trained_model() {
    let place = Place::new();
    let turns = |end: &str| {
        let begin = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        format!(
            "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{{{ m.content }}}}{end}{{% endfor %}}{begin}"
        )
    };
    let of = |run: &str, template: &str, saved: &str| {
        let base = base(&place, template, "<|endoftext|>");
        let mut command = command();
        command.arg("finetune").args(SHORT).arg("--model").arg(base);
        command.arg("--data").arg(place.path("chat.jsonl"));
        command.arg("--out").arg(place.path(run));
        if saved == "adapter" {
            command.args(["--lora-rank", "2"]);
        }
        let said = errors(&succeeds(command));
        let settings = place.path(run).join(saved).join("generation_config.json");
        let settings = fs::read_to_string(settings).unwrap();
        (said, serde_json::from_str::<Value>(&settings).unwrap())
    };
    let run = |run: &str, template: &str| of(run, template, "checkpoint");
    let (_, settings) = of("adapted", &turns("<|im_end|>\n"), "adapter");
    assert_eq!(settings["eos_token_id"], json!([0, 2]));
    let (said, settings) = run("chatml", &turns("<|im_end|>\n"));
    assert!(
        said.contains("answers end with `<|im_end|>` (token 2)"),
        "{said}"
    );
    assert_eq!(settings, json!({"eos_token_id": [0, 2], "top_k": 7}));
    // The first token of the next turn.
    let (_, settings) = run("next", &turns(""));
    assert_eq!(settings["eos_token_id"], json!([0, 1]));
    let (said, settings) = run("usual", &turns("<|endoftext|>\n"));
    assert!(!said.contains("answers"), "{said}");
    assert_eq!(settings["eos_token_id"], json!(0));
    let plain = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    let (said, settings) = run("none", plain);
    assert!(
        said.contains("24 answers have no token that ends them")
            && said.contains("a tokenizer with an `eos_token` behind answers"),
        "{said}"
    );
    assert_eq!(settings["eos_token_id"], json!(0));
    // The template writes an end, but not as a part of the answer.
    let content = "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}\
                   {% else %}{{ m.content }}{% endif %}";
    let template = turns("<|im_end|>\n").replace("{{ m.content }}", content);
    let (said, settings) = run("outside", &template);
    assert!(
        said.contains("24 answers have no token that ends them")
            && said.contains("move `{% endgeneration %}` behind that token"),
        "{said}"
    );
    assert_eq!(settings["eos_token_id"], json!(0));
}

#[test]
fn what_is_cut_off_is_told() {
    let place = Place::new();
    let long = "word ".repeat(60);
    let pair = |prompt: &str, completion: &str| json!({"prompt": prompt, "completion": completion});
    let records = [
        pair("a", &long),
        pair(&long, "b"),
        pair("c", "d"),
        pair("e", "f"),
    ];
    place.write("long.jsonl", &lines(records.into_iter()));
    let output = succeeds(place.begin("run", "long.jsonl", &["--steps=1"]));
    let said = errors(&output);
    assert!(
        said.contains("2 examples are longer than 48 tokens"),
        "{said}"
    );
    assert!(said.contains("1 examples have no token to learn"), "{said}");
    let facts = &place.summary("run")["data"];
    assert_eq!((&facts["cut"], &facts["left_out"]), (&json!(2), &json!(1)));
    // Those of the validation too.
    let eval = format!("--eval-data={}", place.path("long.jsonl").display());
    let said = errors(&succeeds(place.begin(
        "eval",
        "chat.jsonl",
        &["--steps=1", &eval],
    )));
    for expected in [
        "2 examples of --eval-data are longer",
        "1 examples of --eval-data have no",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn bad_input_is_told_before_a_step() {
    let place = Place::new();
    refuses(
        place.begin("run", "data.csv", &[]),
        1,
        &["data.csv", "JSON lines"],
    );
    let broken = "{\"text\": \"a\"}\n{\"text\"\n{\"messages\": [{\"role\": \"bot\", \"content\": \"x\"}]}\n\
                  {\"prompt\": \"p\", \"completion\": \"\"}\n";
    place.write("broken.jsonl", broken);
    refuses(
        place.begin("run", "broken.jsonl", &[]),
        1,
        &[
            "3 of the records",
            "broken.jsonl:2: not valid JSON",
            "broken.jsonl:3: message 1: the role `bot` is unknown",
            "broken.jsonl:4: the completion is empty",
        ],
    );
    refuses(place.begin("run", "none.jsonl", &[]), 1, &["none.jsonl"]);
    let chat = |extra: &[&str]| place.begin("run", "chat.jsonl", extra);
    refuses(chat(&["--seq=97"]), 1, &["--seq is 97", "96 positions"]);
    refuses(chat(&["--seq=2"]), 1, &["no example has a token to learn"]);
    refuses(
        chat(&["--lora-rank=2", "--lora-target=qq"]),
        1,
        &["`qq` matches no linear layer", "q_proj"],
    );
    refuses(
        chat(&["--load-in-4bit"]),
        1,
        &["--load-in-4bit is an option of adapters"],
    );
    refuses(
        chat(&["--lora-rank=2", "--load-in-4bit", "--dequantize"]),
        2,
        &["--load-in-4bit", "--dequantize"],
    );
    let quantised = tiny().join("../../quantised/llama_nf4");
    refuses(
        place.begin_on(&quantised, ("run", "chat.jsonl"), &[]),
        1,
        &[
            "its weights are quantised (bitsandbytes nf4)",
            "QLoRA",
            "--dequantize",
        ],
    );
    refuses(
        chat(&["--dequantize"]),
        1,
        &["--dequantize decodes quantised weights, but", "has none"],
    );
    refuses(
        chat(&["--lora-alpha=2"]),
        1,
        &["--lora-alpha", "--lora-rank"],
    );
    refuses(chat(&["--merge"]), 1, &["--merge", "--lora-rank"]);
    refuses(chat(&["--lora-rank=0"]), 2, &["from 1 to"]);
    refuses(
        chat(&["--lora-dropout=1", "--lora-rank=1"]),
        2,
        &["below 1"],
    );
    refuses(chat(&["--held-out=1"]), 2, &["below 1"]);
    refuses(chat(&["--dtype=f16"]), 2, &["loss scaling"]);
    let dropped = place.path("dropped");
    fs::create_dir(&dropped).unwrap();
    for file in fs::read_dir(tiny()).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), dropped.join(file.file_name())).unwrap();
    }
    let config = dropped.join("config.json");
    let mut fields: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    fields["residual_dropout"] = json!(0.1);
    fs::write(&config, fields.to_string()).unwrap();
    let (model, data) = (
        format!("--model={}", dropped.display()),
        format!("--data={}", place.path("chat.jsonl").display()),
    );
    let with = |extra: &[&str]| {
        common_finetune(&[&["--seq=48", "--dry-run", &model, &data], extra].concat())
    };
    refuses(
        with(&[]),
        1,
        &[
            "config.json: field `residual_dropout`: 0.1 asks for dropout",
            "--no-dropout",
        ],
    );
    succeeds(with(&["--no-dropout"]));
    let wrong = tiny().join("../../models/qwen3");
    let mut command = command();
    command
        .args(["finetune", "--seq=16", "--model"])
        .arg(&wrong);
    command.arg("--data").arg(place.path("chat.jsonl"));
    refuses(command, 1, &["no tokenizer.json"]);
    // Nothing of the checkpoint but its configuration was read.
    let mixture = format!("--model={}", tiny().join("../../models/mixtral").display());
    let data = format!("--data={}", place.path("none.jsonl").display());
    let experts = [
        "--seq=16",
        "--lora-rank=1",
        "--lora-dropout=0.1",
        "--lora-target=*.experts.*",
    ];
    let experts = [&experts[..], &[&mixture, &data]].concat();
    refuses(
        common_finetune(&experts),
        1,
        &[
            "the dropout is 0.1",
            "experts.down_proj",
            "leave the dropout out",
        ],
    );
    refuses(common_finetune(&[]), 1, &["--model DIR"]);
    refuses(common_finetune(&["--model=x"]), 1, &["--data FILE"]);
    // The adapters of a base of another size.
    let other = place.path("other");
    fs::create_dir(&other).unwrap();
    let peft = tiny().join("../../peft");
    fs::copy(
        peft.join("adapter_model.safetensors"),
        other.join("adapter_model.safetensors"),
    )
    .unwrap();
    let text = fs::read_to_string(peft.join("adapter_config.json")).unwrap();
    fs::write(
        other.join("adapter_config.json"),
        text.replace("\"r\": 2", "\"r\": 3"),
    )
    .unwrap();
    let option = format!("--adapter={}", other.display());
    refuses(chat(&[&option]), 1, &["another one"]);
    assert!(
        !place.path("run").exists(),
        "refused before anything was written"
    );
}

fn common_finetune(extra: &[&str]) -> Command {
    let mut command = command();
    command.arg("finetune").args(extra);
    command
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let place = Place::new();
    let output = succeeds(place.begin("run", "chat.jsonl", &["--dry-run"]));
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "23 examples",
        "6 steps of 1 × 2 sequences",
        "parameters are trained",
        "Memory, estimated",
        "<|im_start|>user\nWhat is ",
        "<|im_start|>assistant\n⟦It is ",
        ".<|im_end|>⟧",
    ] {
        assert!(text.contains(expected), "`{expected}` is not in: {text}");
    }
    let output = succeeds(place.begin(
        "run",
        "chat.jsonl",
        &["--dry-run", "--json", "--lora-rank=2"],
    ));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(plan["memory"]["optimiser"].as_u64().unwrap() > 0);
    let tokens = plan["data"]["tokens"].as_u64().unwrap();
    assert!(plan["memory"]["data"].as_u64().unwrap() > 4 * tokens);
    assert_eq!(plan["example"][1]["learned"], true);
    assert_eq!(plan["example"][0]["learned"], false);
    let output = succeeds(place.begin(
        "run",
        "chat.jsonl",
        &[
            "--dry-run",
            "--json",
            "--lora-rank=2",
            "--gradient-checkpointing",
        ],
    ));
    let less: Value = serde_json::from_slice(&output.stdout).unwrap();
    let activations = |plan: &Value| plan["memory"]["activations"].as_u64().unwrap();
    assert!(activations(&less) < activations(&plan));
    assert!(!place.path("run").exists());
}
