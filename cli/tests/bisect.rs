//! `kernels bisect` on commands that fail when certain sites run fused.
#![cfg(unix)]

mod common;

use common::{command, errors, fixture};
use serde_json::Value;
use std::process::Output;
use tempfile::TempDir;

const MLP: &str = "kernels_models::llama::LlamaMlp::forward";

/// A shell command that runs a model and then fails if the sites that ran fused are those that
/// `condition`, on the file `$trace` of their names, says.
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

/// A site of the model besides [`MLP`], as a trace names it.
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
    // The inner shell would keep the wrapper waiting.
    let result = bisect(&["--timeout", "0.3"], "sh -c 'sleep 60'; true");
    assert!(
        errors(&result).contains("takes too long"),
        "{}",
        errors(&result)
    );
    assert!(start.elapsed().as_secs() < 30);
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
