//! Tests that no run of `kernels train` is lost: signals, kills, and writes that fail.
use crate::common::{command, errors};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The options of a run with two validations.
const STEPS: usize = 20;
const SMALL: [&str; 5] = [
    "--steps=20",
    "--batch=2",
    "--seq=32",
    "--lr=1e-3",
    "--save-minutes=0",
];

/// A folder with a text and runs.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let text = &include_bytes!("../../corpus/alice.txt")[..4000];
        std::fs::write(folder.path().join("text.txt"), text).unwrap();
        Self(folder)
    }

    fn run(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a command that begins the run of this name.
    fn begin(&self, name: &str, extra: &[&str]) -> Command {
        let mut command = command();
        let option = |text: &str| text.split('=').next().map(str::to_owned);
        let is_given = |small: &&str| extra.iter().any(|extra| option(extra) == option(small));
        command.args(["train", "--quiet"]);
        command.args(SMALL.iter().filter(|small| !is_given(small)));
        command.arg("--out").arg(self.run(name));
        command.arg("--corpus").arg(self.run("text.txt"));
        command.args(extra);
        command
    }

    /// Returns a command that goes on with the run of this name.
    fn resume(&self, name: &str, extra: &[&str]) -> Command {
        let mut command = command();
        command
            .args(["train", "--quiet", "--resume"])
            .arg(self.run(name));
        command.args(extra);
        command
    }

    fn points(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.run(name).join("metrics.jsonl"));
        let text = text.unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        lines.map(|line| line.expect("whole lines")).collect()
    }

    /// Returns what must not depend on interruptions: the numbers of all points, and the bytes of the model.
    fn results(&self, name: &str) -> (Vec<String>, Vec<u8>) {
        let fields = ["step", "epoch", "split", "loss", "lr", "grad_norm"];
        let numbers = |point: Value| {
            let texts = fields.map(|field| format!("{field} {}", point[field]));
            texts.join(" ")
        };
        let points = self.points(name).into_iter().map(numbers).collect();
        let model = self.run(name).join("checkpoint/model.safetensors");
        (points, std::fs::read(model).expect("a model"))
    }

    /// Returns the names of the saved states.
    fn states(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.run(name).join("resume"));
        let entries = entries.into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

fn succeeds(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    output
}

#[track_caller]
fn refuses(mut command: Command, words: &[&str]) {
    let output = command.output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

fn start(command: &mut Command) -> Child {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until the metrics have so many lines.
fn wait_for(place: &Place, name: &str, lines: usize, child: &mut Child) {
    let since = Instant::now();
    let path = place.run(name).join("metrics.jsonl");
    let count = || std::fs::read_to_string(&path).map_or(0, |text| text.matches('\n').count());
    while count() < lines {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        assert!(since.elapsed() < Duration::from_secs(120), "no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_run_that_a_signal_ends_goes_on_with_the_same_losses() {
    let place = Place::new();
    for (dtype, signal, code) in [("f32", Signal::INT, 130), ("bf16", Signal::TERM, 143)] {
        let option = format!("--dtype={dtype}");
        let (whole, cut) = (format!("{dtype}-whole"), format!("{dtype}-cut"));
        succeeds(place.begin(&whole, &[&option]));
        let mut command = place.begin(&cut, &[&option]);
        for lines in [3, 14] {
            let mut child = start(&mut command);
            wait_for(&place, &cut, lines, &mut child);
            send(&child, signal);
            let output = child.wait_with_output().unwrap();
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(code), "{said}");
            let advice = format!("kernels train --resume {}", place.run(&cut).display());
            assert!(said.contains("which is saved"), "{said}");
            assert!(said.contains(&advice), "{said}");
            assert!(!place.states(&cut).is_empty());
            command = place.resume(&cut, &[]);
        }
        let said = errors(&succeeds(command));
        assert!(said.contains("going on after step"), "{said}");
        assert_eq!(place.results(&cut), place.results(&whole));
        assert_eq!(place.states(&cut), [""; 0], "a finished run has none");
        assert_eq!(place.points(&cut).len(), STEPS + 2);
    }
}

#[test]
fn a_second_signal_ends_the_program_at_once() {
    let place = Place::new();
    // A step takes a second or so.
    let mut command = place.begin("run", &["--batch=64", "--seq=256"]);
    let mut child = start(&mut command);
    wait_for(&place, "run", 1, &mut child);
    // The next step has begun by then: between two steps, the first signal would make it save its state.
    std::thread::sleep(Duration::from_millis(100));
    send(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(20));
    send(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", errors(&output));
    assert!(!errors(&output).contains("which is saved"));
    // A state that the signal interrupted does not count.
    let mut states = place.states("run").into_iter();
    assert!(states.all(|state| state.ends_with(".partial")));
    // Without a state, the run goes on from the beginning.
    assert!(place.run("run").join("train.json").exists());
}

/// A generator of times, the same in every run of the test.
struct Times(u64);

impl Times {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 40) as f64 / f64::from(1 << 24)
    }
}

/// Kills a run at random times of its whole life, and each continuation again. `SURVIVAL_KILLS` sets their number.
#[test]
fn a_run_that_is_killed_at_any_time_goes_on_with_the_same_losses() {
    let kills = std::env::var("SURVIVAL_KILLS").map_or(5, |text| text.parse().unwrap());
    let place = Place::new();
    let began = Instant::now();
    let often = "--save-steps=3";
    succeeds(place.begin("whole", &[often]));
    let life = began.elapsed();
    let expected = place.results("whole");
    let mut times = Times(7);
    let (mut killed, mut number) = (0, 0);
    while killed < kills {
        number += 1;
        let name = format!("run{number}");
        loop {
            let begun = place.run(&name).join("train.json").exists();
            if place.run(&name).join("summary.json").exists() {
                break;
            }
            let mut command = match begun {
                true => place.resume(&name, &[]),
                false => place.begin(&name, &[often]),
            };
            if !begun {
                // Killed before it wrote its settings: not a run.
                let _ = std::fs::remove_dir_all(place.run(&name));
            }
            if killed < kills {
                let mut child = start(&mut command);
                std::thread::sleep(life.mul_f64(times.next()));
                child.kill().unwrap();
                let output = child.wait_with_output().unwrap();
                match output.status.code() {
                    None => killed += 1,
                    Some(code) => assert_eq!(code, 0, "{}", errors(&output)),
                }
            } else {
                succeeds(command);
            }
        }
        if !place.states(&name).is_empty() {
            // It was killed between the results and the end.
            refuses(place.resume(&name, &[]), &["is finished"]);
        }
        assert!(place.results(&name) == expected, "{name} differs");
        assert_eq!(place.states(&name), [""; 0]);
    }
}

#[test]
fn states_that_a_finished_run_left_are_removed() {
    let place = Place::new();
    succeeds(place.begin("run", &["--steps=2"]));
    let results = place.results("run");
    std::fs::create_dir_all(place.run("run").join("resume/step-00000002")).unwrap();
    refuses(place.resume("run", &[]), &["is finished"]);
    assert_eq!(place.states("run"), [""; 0]);
    assert!(place.results("run") == results);
}

#[test]
fn a_state_of_another_configuration_or_a_broken_one_is_refused() {
    let place = Place::new();
    let mut child = start(&mut place.begin("run", &["--save-steps=2"]));
    wait_for(&place, "run", 9, &mut child);
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(place.states("run").len() >= 2, "{:?}", place.states("run"));

    refuses(
        place.resume("run", &["--lr=2e-3"]),
        &["`settings.lr` is 0.001 there and 0.002 here"],
    );
    refuses(
        place.resume("run", &["--dtype=bf16"]),
        &["`settings.dtype` is \"f32\" there and \"bf16\" here"],
    );
    refuses(
        place.resume("run", &["--kernels=none"]),
        &["`settings.kernels"],
    );
    refuses(place.resume("other", &[]), &["no train.json"]);
    let output = place.resume("run", &["--out=x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));

    let newest = place.states("run").pop().unwrap();
    let tensors = place
        .run("run")
        .join("resume")
        .join(&newest)
        .join("tensors.safetensors");
    let bytes = std::fs::read(&tensors).unwrap();
    let digests = tensors.with_file_name("digests.json");
    let checksums = std::fs::read(&digests).unwrap();
    std::fs::remove_file(&digests).unwrap();
    std::fs::write(&tensors, &bytes[..bytes.len() / 2]).unwrap();
    refuses(place.resume("run", &[]), &[&newest, "promises"]);
    // A bit of a number, which only the checksums tell.
    std::fs::write(&digests, checksums).unwrap();
    let mut changed = bytes.clone();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&tensors, changed).unwrap();
    refuses(
        place.resume("run", &[]),
        &[
            &newest,
            "remove it to go on",
            "tensors.safetensors has changed",
        ],
    );
    // A state of an older program has no checksums.
    std::fs::write(&tensors, bytes).unwrap();
    std::fs::remove_file(&digests).unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-r").args([place.run("run"), place.run("older")]);
    succeeds(copy);
    succeeds(place.resume("older", &[]));
    std::fs::remove_dir_all(tensors.parent().unwrap()).unwrap();
    succeeds(place.resume("run", &[]));
    succeeds(place.begin("whole", &[]));
    assert_eq!(place.results("run"), place.results("whole"));
    assert_eq!(place.results("older"), place.results("whole"));
    refuses(place.resume("run", &[]), &["is finished"]);

    let text = place.run("text.txt");
    let mut child = start(&mut place.begin("text", &[]));
    wait_for(&place, "text", 2, &mut child);
    send(&child, Signal::INT);
    child.wait().unwrap();
    std::fs::write(&text, [b'x'; 4000]).unwrap();
    refuses(place.resume("text", &[]), &["`fingerprint`"]);
    std::fs::remove_file(&text).unwrap();
    refuses(place.resume("text", &[]), &["text.txt"]);
}

#[test]
fn a_run_has_one_process() {
    let place = Place::new();
    let mut child = start(&mut place.begin("run", &["--steps=100000"]));
    wait_for(&place, "run", 2, &mut child);
    refuses(place.resume("run", &[]), &["another process"]);
    send(&child, Signal::INT);
    child.wait().unwrap();
}

#[test]
fn states_that_cannot_be_saved_are_told_and_training_goes_on() {
    let place = Place::new();
    succeeds(place.begin("whole", &[]));
    let mut child = start(&mut place.begin("run", &["--save-steps=1", "--keep=1"]));
    wait_for(&place, "run", 2, &mut child);
    let states = place.run("run").join("resume");
    // The run may write into the folder while it is removed.
    while std::fs::write(&states, "a file").is_err() {
        let _ = std::fs::remove_dir_all(&states);
    }
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("can't be saved"), "{said}");
    assert!(said.contains("training goes on"), "{said}");
    assert_eq!(place.results("run"), place.results("whole"));
}

#[test]
fn a_folder_that_is_removed_is_told_and_made_again() {
    let place = Place::new();
    succeeds(place.begin("whole", &[]));
    let mut child = start(&mut place.begin("run", &["--save-steps=1"]));
    wait_for(&place, "run", 3, &mut child);
    // The run may write into the folder while it is removed.
    while std::fs::remove_dir_all(place.run("run")).is_err() {}
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("it was removed"), "{said}");
    assert_eq!(place.results("run"), place.results("whole"));
}

/// Every write fails whose file is larger than a limit. The limits lie around the size of every file of a run.
#[test]
fn every_write_fails_and_the_run_is_not_lost() {
    let place = Place::new();
    succeeds(place.begin("whole", &["--save-steps=5"]));
    let expected = place.results("whole");
    let temporary = place.run("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut seen = [false; 2];
    for (number, kib) in [0, 1, 2, 4, 8, 16, 3000, 7000].into_iter().enumerate() {
        let name = format!("run{number}");
        let limited = limited(&place.begin(&name, &["--save-steps=5"]), kib);
        let output = { limited }.env("TMPDIR", &temporary).output().unwrap();
        let said = errors(&output);
        assert!(!said.contains("panic"), "{kib} KiB: {said}");
        let run = place.run(&name);
        if !run.join("train.json").exists() {
            assert_eq!(output.status.code(), Some(1), "{kib} KiB: {said}");
            assert!(said.contains("cannot write"), "{kib} KiB: {said}");
            continue;
        }
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(1), "{kib} KiB: {said}");
            let saved = run.join("checkpoint/config.json").exists();
            assert!(saved || said.contains("NOT SAVED"), "{kib} KiB: {said}");
            seen[usize::from(saved)] = true;
            succeeds(place.resume(&name, &[]));
        }
        assert!(place.results(&name) == expected, "{kib} KiB differs");
    }
    assert!(seen[0], "no limit kept a model from being saved");
}

/// Returns the command under a limit for the size of files.
fn limited(command: &Command, kib: usize) -> Command {
    let mut shell = Command::new("bash");
    let script = format!("ulimit -f {kib}; exec \"$@\"");
    shell.args(["-c", &script, "bash"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// The metrics can't be written for a while, and are whole at the end.
#[cfg(target_os = "linux")]
#[test]
fn metrics_that_cannot_be_written_for_a_while_are_whole_at_the_end() {
    use rustix::process::{Resource, Rlimit, prlimit};
    let place = Place::new();
    succeeds(place.begin("whole", &[]));
    let mut child = start(&mut place.begin("run", &[]));
    wait_for(&place, "run", 3, &mut child);
    let pid = Pid::from_child(&child);
    let limit = |current| Rlimit {
        current,
        maximum: None,
    };
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let before = prlimit(Some(pid), Resource::Fsize, limit(Some(0))).unwrap();
    // The first warning ends it, long before the last step.
    let mut warning = String::new();
    said.read_line(&mut warning).unwrap();
    prlimit(Some(pid), Resource::Fsize, before).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = warning + &rest;
    assert!(output.status.success(), "{said}");
    assert!(said.contains("training goes on"), "{said}");
    assert_eq!(place.results("run"), place.results("whole"));
}

#[test]
fn options_come_from_a_file_and_go_into_the_run_folder() {
    let place = Place::new();
    succeeds(place.begin("first", &["--seed=9"]));
    let file = place.run("first").join("config.toml");
    let mut again = command();
    again.args(["train", "--quiet", "--config"]).arg(&file);
    again.arg("--out").arg(place.run("second"));
    succeeds(again);
    assert_eq!(place.results("second"), place.results("first"));
    let text = std::fs::read_to_string(&file).unwrap();
    for line in ["seed = 9", "steps = 20", "preset = \"qwen3\"", "kernels = "] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let wrong = place.run("wrong.toml");
    std::fs::write(&wrong, "stepps = 3").unwrap();
    let mut refused = command();
    refused.args(["train", "--config"]).arg(&wrong);
    let output = refused.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("unknown option `stepps`"),
        "{}",
        errors(&output)
    );
}
