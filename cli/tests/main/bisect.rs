//! Tests of `kernels bisect` on commands that fail if certain sites run fused.
use crate::common::{self, command, errors, fixture};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MLP: &str = "kernels_models::layers::llama::LlamaMlp::forward";

/// The first line of the output.
const FIRST: &str =
    "run 1: the command without changes, with its messages; this may compile first\n";

/// Returns a shell command that runs a model and then fails if `condition` holds. The condition reads the names of the
/// sites that ran fused from the file `$trace`.
fn failing_when(condition: &str) -> String {
    let model = fixture("llama");
    let inputs = model.join("golden.safetensors");
    let [program, model, inputs] =
        [env!("CARGO_BIN_EXE_kernels").as_ref(), &*model, &*inputs].map(|path| path.display());
    format!(
        "trace=$BURN_KERNELS_TRACE_SITES; \
         '{program}' run --model '{model}' --inputs '{inputs}' --outputs \"$OUT\" || exit 9; \
         rm -f \"$OUT\"; touch \"$trace\"; if {condition}; then exit 3; fi"
    )
}

fn bisect(options: &[&str], script: &str) -> Output {
    let folder = TempDir::new().unwrap();
    let mut command = command();
    command.env("OUT", folder.path().join("out.safetensors"));
    command.arg("bisect").args(options);
    command.args(["--", "sh", "-c", script]).output().unwrap()
}

fn found(script: &str) -> Value {
    let result = bisect(&["--json"], script);
    assert!(result.status.success(), "{}", errors(&result));
    serde_json::from_slice(&result.stdout).unwrap()
}

/// Returns another site of the model than [`MLP`], as a trace names it.
fn norm() -> String {
    let listed = common::json(["list", "--json"]);
    let sites = listed["sites"].as_array().unwrap().iter();
    let mut names = sites.map(|site| site["name"].as_str().unwrap());
    let name = names.find(|name| name.contains("llama") && name.contains("Norm"));
    name.expect("a norm").to_owned()
}

#[test]
fn one_site_is_named_through_a_wrapper() {
    let found = found(&failing_when(&format!("grep -qx {MLP} \"$trace\"")));
    assert_eq!(found["sites"], serde_json::json!([MLP]));
    assert_eq!(found["policy"], format!("all,-{MLP}"));
    assert_eq!(found["succeeds_without_them"], true);
}

#[test]
fn two_sites_that_fail_together_are_both_named() {
    let norm = norm();
    let both = format!("grep -qx {MLP} \"$trace\" && grep -qx {norm} \"$trace\"");
    let mut sites = [MLP, norm.as_str()];
    sites.sort_unstable();
    assert_eq!(
        found(&failing_when(&both))["sites"],
        serde_json::json!(sites)
    );
}

#[test]
fn steps_and_the_way_out_are_printed() {
    let result = bisect(&[], &failing_when(&format!("grep -qx {MLP} \"$trace\"")));
    let said = errors(&result);
    assert!(
        said.contains("run 1: with all kernels it fails (exit status: 3)"),
        "{said}"
    );
    assert!(said.contains("run 2: with no kernel it succeeds"), "{said}");
    let text = String::from_utf8(result.stdout).unwrap();
    assert!(
        text.contains(MLP) && text.contains("BURN_KERNELS=all,-"),
        "{text}"
    );
}

#[test]
fn messages_of_the_first_run_alone_are_shown() {
    let script = failing_when(&format!("grep -qx {MLP} \"$trace\""));
    let result = bisect(
        &[],
        &format!("echo Compiling >&2; echo no result; {script}"),
    );
    let said = errors(&result);
    assert!(said.starts_with(&format!("{FIRST}Compiling\n")), "{said}");
    assert!(said.contains("run 3"), "{said}");
    assert_eq!(said.matches("Compiling").count(), 1, "{said}");
    assert!(!said.contains("no result"), "{said}");
    let shown = errors(&bisect(&["--show"], "echo Compiling >&2; exit 4"));
    assert_eq!(shown.matches("Compiling").count(), 1, "{shown}");
    let timed = errors(&bisect(&["--timeout", "60"], "exit 4"));
    assert!(timed.contains("counts towards --timeout"), "{timed}");
}

#[test]
fn what_kernels_did_not_cause_is_said_so() {
    for (script, words) in [
        ("true", "succeeds with all kernels"),
        ("exit 4", "no annotated site ran fused"),
        (&*failing_when("true"), "without any kernel too"),
    ] {
        let result = bisect(&[], script);
        assert_eq!(result.status.code(), Some(1), "{script}");
        assert!(
            errors(&result).contains(words),
            "{script}: {}",
            errors(&result)
        );
        assert!(result.stdout.is_empty());
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_all_that_it_started() {
    let start = std::time::Instant::now();
    // If the inner shell is not ended, the wrapper keeps waiting.
    let result = bisect(&["--timeout", "0.3"], "sh -c 'sleep 60'; true");
    assert!(
        errors(&result).contains("takes too long"),
        "{}",
        errors(&result)
    );
    assert!(start.elapsed().as_secs() < 30);
}

/// Starts a search with a command that runs `script`. Returns when the script has written to `$LOG` that it started.
fn started(log: &Path, script: &str) -> Child {
    let mut command = command();
    command
        .env("LOG", log)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped());
    let child = command.args(["bisect", "--", "sh", "-c", script]).spawn();
    let child = child.unwrap();
    wait_for("the command", || logged(log).contains("started"));
    child
}

fn logged(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(process: u32, signal: &str) {
    let sent = Command::new("kill")
        .args(["-s", signal, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn is_running(process: &str) -> bool {
    let asked = Command::new("kill")
        .args(["-0", process])
        .stderr(Stdio::null())
        .status();
    asked.unwrap().success()
}

#[test]
fn an_interrupt_reaches_the_command_and_all_that_it_started() {
    for (name, code, said) in [("INT", 130, "Ctrl-C (SIGINT)"), ("TERM", 143, "SIGTERM")] {
        let folder = TempDir::new().unwrap();
        let log = folder.path().join("log");
        // The command cleans up; the process that it started ignores the signal.
        let bisect = started(
            &log,
            "trap 'echo tidied >> \"$LOG\"; exit 7' INT TERM; \
             sh -c 'trap \"\" INT TERM; sleep 300' & echo started $! >> \"$LOG\"; wait",
        );
        signal(bisect.id(), name);
        let result = bisect.wait_with_output().unwrap();
        assert_eq!(result.status.code(), Some(code), "{}", errors(&result));
        let expected = format!(
            "{FIRST}error: interrupted by {said} in run 1, whose command was ended; the search is not \
             finished, so no site is named\n"
        );
        assert_eq!(errors(&result), expected);
        assert!(result.stdout.is_empty());
        let log = logged(&log);
        assert!(log.contains("tidied"), "{log}");
        let inner = log.split_whitespace().nth(1).unwrap().to_owned();
        wait_for("the inner shell's end", || !is_running(&inner));
    }
}

#[test]
fn a_second_interrupt_ends_a_command_that_ignores_the_first() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let bisect = started(
        &log,
        "trap 'echo ignored >> \"$LOG\"' INT; echo started $$ >> \"$LOG\"; \
         while true; do sleep 0.05; done",
    );
    signal(bisect.id(), "INT");
    wait_for("the first signal", || logged(&log).contains("ignored"));
    let start = Instant::now();
    signal(bisect.id(), "INT");
    let result = bisect.wait_with_output().unwrap();
    assert_eq!(result.status.code(), Some(130), "{}", errors(&result));
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "it waited for the command"
    );
    let shell = logged(&log).split_whitespace().nth(1).unwrap().to_owned();
    assert!(!is_running(&shell));
}

#[test]
fn wrong_usage_is_refused() {
    for args in [&["bisect"][..], &["bisect", "--timeout", "0", "--", "true"]] {
        assert_eq!(common::kernels(args).status.code(), Some(2), "{args:?}");
    }
    let result = common::kernels(["bisect", "--", "/no/such/program"]);
    assert_eq!(result.status.code(), Some(1));
    assert!(
        errors(&result).contains("cannot run /no/such/program"),
        "{}",
        errors(&result)
    );
}
