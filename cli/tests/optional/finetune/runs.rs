//! Runs that are interrupted, moved, altered or finished, and what belongs to them: dates, bases and files.

use super::{Place, common_finetune, errors, refuses, succeeds, tiny};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A template that writes the date, as those of Llama 3.2 and gpt-oss do.
const DATED: &str = "{{ strftime_now('%d %b %Y') }}\n{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}</s>\
                     {% else %}{{ m.content }}\n{% endif %}{% endfor %}";

/// Returns a copy of the tiny checkpoint.
fn copy_of_tiny(place: &Place, name: &str) -> PathBuf {
    let folder = place.path(name);
    fs::create_dir(&folder).unwrap();
    for file in fs::read_dir(tiny()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    folder
}

/// Returns a command that begins a run on a checkpoint.
fn begin(place: &Place, base: &Path, run: &str, extra: &[&str]) -> Command {
    let option = |text: &str| text.split('=').next().map(str::to_owned);
    let is_given = |short: &&str| extra.iter().any(|extra| option(extra) == option(short));
    let short = [
        "--quiet",
        "--batch=2",
        "--seq=48",
        "--lr=1e-3",
        "--save-minutes=0",
    ];
    let mut command = common_finetune(&[]);
    command.args(short.iter().filter(|short| !is_given(short)));
    command.arg("--model").arg(base);
    command.arg("--data").arg(place.path("chat.jsonl"));
    command.arg("--out").arg(place.path(run)).args(extra);
    command.stderr(Stdio::piped());
    command
}

fn resume(place: &Place, run: &str) -> Command {
    let mut command = common_finetune(&["--quiet", "--resume"]);
    command.arg(place.path(run)).stderr(Stdio::piped());
    command
}

/// Waits until the metrics of a run have so many lines.
fn wait_for(place: &Place, run: &str, lines: usize, child: &mut Child) {
    let (since, path) = (Instant::now(), place.path(run).join("metrics.jsonl"));
    while fs::read_to_string(&path).map_or(0, |text| text.lines().count()) < lines {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        assert!(since.elapsed() < Duration::from_secs(120), "no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Has a signal end a run, and returns what it says.
fn interrupt(child: Child) -> String {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    said
}

/// Begins a run of adapters, and has a signal end it after a few steps.
fn interrupted(place: &Place, base: &Path, run: &str) {
    let options = [
        "--lora-rank=2",
        "--steps=8",
        "--held-out=0",
        "--save-steps=2",
    ];
    let mut child = begin(place, base, run, &options).spawn().unwrap();
    wait_for(place, run, 3, &mut child);
    interrupt(child);
}

/// Returns the newest state of a run.
fn newest(place: &Place, run: &str) -> PathBuf {
    let states = fs::read_dir(place.path(run).join("resume")).unwrap();
    let states = states.map(|state| state.unwrap().path());
    states.max().unwrap()
}

#[test]
fn a_run_has_a_date_of_its_own() {
    let place = Place::new();
    let base = copy_of_tiny(&place, "base");
    fs::write(base.join("chat_template.jinja"), DATED).unwrap();
    // The dates of these zones differ at any time.
    let facts = |zone: &str, extra: &[&str]| {
        let options = [&["--dry-run", "--json", "--steps=2"], extra].concat();
        let mut command = begin(&place, &base, "run", &options);
        command.env("TZ", zone);
        let output = succeeds(command);
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        (plan["data"].clone(), errors(&output))
    };
    let (evening, said) = facts("AAA12", &[]);
    assert_eq!(evening["date"], "2024-07-26");
    assert!(
        said.contains("2024-07-26") && said.contains("--date"),
        "{said}"
    );
    assert_eq!(facts("BBB-14", &[]).0, evening);
    let (other, _) = facts("AAA12", &["--date=2025-01-02"]);
    assert_eq!(other["date"], "2025-01-02");
    assert_ne!(other["fingerprint"], evening["fingerprint"]);
    refuses(
        begin(&place, &base, "run", &["--date=today"]),
        2,
        &["2024-07-26"],
    );
    // It is kept with the run, and resumed with it.
    let mut command = begin(&place, &base, "run", &["--steps=1", "--date=2025-01-02"]);
    command.env("TZ", "BBB-14");
    succeeds(command);
    let kept = |file: &str| fs::read_to_string(place.path("run").join(file)).unwrap();
    assert!(kept("config.toml").contains("date = \"2025-01-02\""));
    assert!(kept("finetune.json").contains("\"date\": \"2025-01-02\""));
    // Other templates have none.
    let output = succeeds(place.begin("plain", "chat.jsonl", &["--dry-run", "--json"]));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["data"]["date"], Value::Null);
}

#[test]
fn adapters_go_on_with_the_weights_that_they_began_with() {
    let place = Place::new();
    let base = copy_of_tiny(&place, "base");
    interrupted(&place, &base, "run");
    let file = base.join("model.safetensors");
    let before = fs::read(&file).unwrap();
    let mut changed = before.clone();
    // The last number of the last tensor, with the other sign.
    *changed.last_mut().unwrap() ^= 0x80;
    fs::write(&file, changed).unwrap();
    refuses(
        resume(&place, "run"),
        1,
        &["of other weights", "begin a run of its own"],
    );
    fs::write(&file, before).unwrap();
    succeeds(resume(&place, "run"));
}

#[test]
fn a_run_whose_folder_was_moved_goes_on_as_it_says() {
    let place = Place::new();
    let options = ["--steps=5000", "--held-out=0", "--save-steps=5"];
    let mut child = begin(&place, &tiny(), "run", &options).spawn().unwrap();
    wait_for(&place, "run", 2, &mut child);
    fs::rename(place.path("run"), place.path("moved")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let said = interrupt(child);
    let advised = format!("kernels finetune --resume {}", place.path("run").display());
    assert!(
        said.contains("moved or removed") && said.contains(&advised),
        "{said}"
    );
    let before = place.points("run").len();
    let mut child = resume(&place, "run").spawn().unwrap();
    wait_for(&place, "run", before + 2, &mut child);
    let said = interrupt(child);
    assert!(said.contains("going on after step"), "{said}");
}

#[test]
fn a_state_that_was_altered_or_cut_off_says_what_to_remove() {
    let place = Place::new();
    interrupted(&place, &tiny(), "run");
    let state = newest(&place, "run");
    let shown = state.file_name().unwrap().to_str().unwrap().to_owned();
    let file = state.join("state.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen(':', ": ", 1)).unwrap();
    refuses(
        resume(&place, "run"),
        1,
        &[&shown, "remove it to go on", "state.json has changed"],
    );
    // A state of an older program has no checksums.
    fs::remove_file(state.join("digests.json")).unwrap();
    for (field, value) in [
        ("step", json!(1_u64 << 63)),
        ("step", json!(7)),
        ("validated", json!(1_u64 << 63)),
        ("since_best", json!(u64::MAX)),
        ("best", json!({"step": 100, "loss": 1.0})),
    ] {
        let mut fields: Value = serde_json::from_str(&text).unwrap();
        fields["progress"][field] = value;
        fs::write(&file, fields.to_string()).unwrap();
        refuses(
            resume(&place, "run"),
            1,
            &[&shown, "remove it to go on", "state.json"],
        );
    }
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    refuses(
        resume(&place, "run"),
        1,
        &[&shown, "remove it to go on", "state.json"],
    );
    fs::write(&file, &text).unwrap();
    let tensors = state.join("tensors.safetensors");
    let bytes = fs::read(&tensors).unwrap();
    fs::write(&tensors, &bytes[..bytes.len() / 2]).unwrap();
    refuses(resume(&place, "run"), 1, &[&shown, "remove it to go on"]);
    fs::remove_dir_all(&state).unwrap();
    // Neither a run that was killed while it began, nor one whose settings were cut off, is a dead end.
    let half = place.path("half");
    fs::create_dir(&half).unwrap();
    fs::copy(place.path("run/config.toml"), half.join("config.toml")).unwrap();
    refuses(
        resume(&place, "half"),
        1,
        &["no finetune.json", "remove it"],
    );
    refuses(
        begin(&place, &tiny(), "half", &[]),
        1,
        &["not empty", "remove it"],
    );
    fs::write(half.join("finetune.json"), "{\"program\": ").unwrap();
    refuses(
        resume(&place, "half"),
        1,
        &["finetune.json is not whole", "remove the folder"],
    );
    fs::remove_file(half.join("config.toml")).unwrap();
    refuses(
        resume(&place, "half"),
        1,
        &["config.toml does not say what to train"],
    );
    refuses(
        resume(&place, "none"),
        1,
        &["no finetune.json", "begin one with --out"],
    );
}

#[test]
fn numbers_that_no_run_can_have_are_refused_at_once() {
    let place = Place::new();
    let refused = |options: &[&str], code, words: &[&str]| {
        refuses(begin(&place, &tiny(), "run", options), code, words);
    };
    refused(
        &["--steps=3", "--warmup=4"],
        1,
        &["--warmup is 4", "3 steps"],
    );
    refused(
        &["--lora-rank=1000000000"],
        1,
        &["the rank is 1000000000", "from 1 to"],
    );
    refused(&["--lora-rank=65"], 1, &["the widest adapted layer has 64"]);
    refused(
        &["--lr=0.9", "--weight-decay=2"],
        1,
        &["--lr times --weight-decay", "below 1"],
    );
    for option in [
        "--weight-decay=1e308",
        "--lr=1e300",
        "--clip=1e308",
        "--epochs=1e308",
        "--lora-alpha=1e308",
        "--batch=18446744073709551615",
        "--accumulate=18446744073709551615",
        "--steps=18446744073709551615",
        "--seq=18446744073709551615",
        "--validate-steps=18446744073709551615",
    ] {
        refused(&[option], 2, &["expected a"]);
    }
    // A batch can be larger than the data.
    let options = ["--batch=1000000000", "--accumulate=1000000000"];
    let most = [&options[..], &["--dry-run", "--json"]].concat();
    succeeds(begin(&place, &tiny(), "run", &most));
    assert!(!place.path("run").exists());
}

#[test]
fn epochs_are_counted_and_the_saved_step_is_told() {
    let place = Place::new();
    let options = ["--no-packing", "--batch=8", "--held-out=0", "--steps=7"];
    succeeds(place.begin("run", "chat.jsonl", &options));
    let points = place.points("run");
    let epochs: Vec<u64> = points
        .iter()
        .map(|point| point["epoch"].as_u64().unwrap())
        .collect();
    assert_eq!(epochs, [1, 1, 1, 2, 2, 2, 3]);
    assert_eq!(place.summary("run")["saved_step"], 7);
    let model = place.path("run/checkpoint").display().to_string();
    refuses(
        resume(&place, "run"),
        1,
        &["is finished", &format!("--model {model}")],
    );
    // The best validation is one of the first: later steps are too large.
    let mut command = common_finetune(&[
        "--steps=6",
        "--batch=2",
        "--seq=48",
        "--lr=0.5",
        "--validate-steps=1",
    ]);
    command.args(["--lora-rank=2", "--schedule=constant", "--save-minutes=0"]);
    command
        .arg("--model")
        .arg(tiny())
        .arg("--data")
        .arg(place.path("chat.jsonl"));
    command.arg("--out").arg(place.path("best"));
    let page = String::from_utf8(succeeds(command).stdout).unwrap();
    let best = place.summary("best")["best"]["step"].as_u64().unwrap();
    assert_eq!(place.summary("best")["saved_step"], best);
    let told = format!("after step {best}, whose validation loss is the lowest");
    assert!(page.contains(&told), "{page}");
    refuses(resume(&place, "best"), 1, &["is finished", "--adapter"]);
}

#[test]
fn a_tuned_checkpoint_has_all_files_of_its_tokenizer_wherever_it_is() {
    let place = Place::new();
    let base = copy_of_tiny(&place, "base");
    let files = [
        "tokenizer.model",
        "vocab.json",
        "merges.txt",
        "preprocessor_config.json",
    ];
    for file in files {
        fs::write(base.join(file), file).unwrap();
    }
    let mut command = begin(&place, &base, "run", &["--steps=12", "--held-out=0"]);
    let mut child = command.env("TMPDIR", place.path("")).spawn().unwrap();
    wait_for(&place, "run", 1, &mut child);
    // No folder can take the place of this link.
    std::os::unix::fs::symlink("nowhere", place.path("run/checkpoint")).unwrap();
    let rescued = place.path(&format!("kernels-model-{}", child.id()));
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&rescued.display().to_string()), "{said}");
    fs::remove_file(place.path("run/checkpoint")).unwrap();
    succeeds(resume(&place, "run"));
    for folder in [rescued, place.path("run/checkpoint")] {
        for file in files.iter().chain(&["tokenizer.json", "config.json"]) {
            assert!(folder.join(file).exists(), "{file} in {}", folder.display());
        }
    }
}
