//! Tests of `kernels plan` with files, of policies from files, and of `kernels list`.

// Fixtures whose weights are not stored.
use crate::models;

use crate::common::{command, errors, fixture, json, kernels, stdout};
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

fn check(path: &Path, more: &[&str]) -> (Option<i32>, String) {
    let file = path.to_str().unwrap();
    let result = kernels(["plan", "--check", file].iter().chain(more));
    (result.status.code(), errors(&result))
}

#[test]
fn a_plan_is_written_whole_and_agrees_with_itself() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    stdout(["plan", "--out", path.to_str().unwrap()]);
    let toml = std::fs::read_to_string(&path).unwrap();
    assert!(toml.starts_with("schema = 1\n"), "{toml}");
    assert!(toml.contains("crate = \"kernels-runtime\""), "{toml}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(check(&path, &[]), (Some(0), String::new()));
}

#[test]
fn a_change_is_a_failure_that_says_what_changed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    stdout(["plan", "--out", path.to_str().unwrap()]);
    let (code, said) = check(&path, &["--kernels=all,-npu_fused_rope"]);
    assert_eq!(code, Some(1), "{said}");
    for words in [
        "the plan differs in",
        "policy was all, is all,-npu_fused_rope",
        "implementation was cpu-simd, is the reference (policy)",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let toml = std::fs::read_to_string(&path).unwrap();
    let renamed = toml.replacen("name = \"kernels_models", "name = \"other_models", 1);
    std::fs::write(&path, renamed).unwrap();
    let (code, said) = check(&path, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("+ kernels_models::") && said.contains("- other_models::"),
        "{said}"
    );
}

#[test]
fn what_is_no_plan_is_an_error_that_names_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    let (code, said) = check(&path, &[]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("cannot read") && said.contains("plan.toml"),
        "{said}"
    );
    std::fs::write(&path, "schema = 1\ncolour = 'blue'\n").unwrap();
    let (code, said) = check(&path, &[]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("plan.toml") && said.contains("colour"),
        "{said}"
    );
    let missing = folder.path().join("none/plan.toml");
    let result = kernels(["plan", "--out", missing.to_str().unwrap()]);
    assert_eq!(result.status.code(), Some(1));
    assert!(
        errors(&result).contains("cannot write"),
        "{}",
        errors(&result)
    );
}

#[test]
fn a_policy_may_stand_in_a_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("policy.toml");
    let policy = "default = \"all\"\nsites = [\"-kernels_models::layers::llama::*\"]\n";
    std::fs::write(&path, policy).unwrap();
    let at = format!("@{}", path.display());
    let plan = json(["plan", "--json", "--kernels", &at]);
    assert_eq!(plan["policy"], "all,-kernels_models::layers::llama::*");
    for row in plan["sites"].as_array().unwrap() {
        let is_llama = row["site"].as_str().unwrap().contains("::llama::");
        assert_eq!(row["reason"] == "policy", is_llama, "{row}");
    }
    std::fs::write(&path, "defualt = 'all'").unwrap();
    let result = command()
        .env("BURN_KERNELS", &at)
        .arg("plan")
        .output()
        .unwrap();
    assert_eq!(result.status.code(), Some(1));
    let said = errors(&result);
    assert!(
        said.contains("policy.toml") && said.contains("did you mean `default`?"),
        "{said}"
    );
}

#[test]
fn an_unmet_request_says_what_was_looked_at() {
    let result = kernels(["plan", "--kernels=all,strict:policy,-npu_fused_rope"]);
    assert_eq!(result.status.code(), Some(1));
    let said = errors(&result);
    assert!(said.contains("switched off by the policy"), "{said}");
    assert!(said.contains("cpu-simd"), "{said}");
}

#[test]
fn the_list_says_where_a_kernel_comes_from_and_whether_it_can_run_here() {
    let list = json(["list", "--json"]);
    for kernel in list["kernels"].as_array().unwrap() {
        assert_eq!(kernel["crate"], "kernels-runtime");
        assert!(kernel["implementations"][0]["unavailable"].is_null());
    }
    assert_eq!(list["replaced"].as_array().unwrap().len(), 0);
    let text = stdout(["list"]);
    assert!(text.lines().next().unwrap().ends_with("here"), "{text}");
}

/// The sites of a plan.
fn sites(args: &[&str]) -> BTreeSet<String> {
    let plan = json([&["plan", "--json"][..], args].concat());
    let rows = plan["sites"].as_array().unwrap().iter();
    rows.map(|row| row["site"].as_str().unwrap().to_owned())
        .collect()
}

/// Only config.json is there: no weights are read.
#[test]
fn the_plan_of_a_checkpoint_has_the_sites_that_it_reaches() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().to_str().unwrap();
    for name in models::MODELS {
        let config = fixture(name).join("config.json");
        std::fs::copy(&config, folder.path().join("config.json")).unwrap();
        let all = sites(&[]);
        for mode in ["training", "inference"] {
            let own = sites(&["--model", model, "--mode", mode]);
            assert!(own.is_subset(&all) && own.len() < all.len() / 2);
            let has = |word: &str| own.iter().any(|site| site.contains(word));
            for word in ["RmsNorm", "attention", "rot", "linear", "loss"] {
                assert!(has(word), "{name}, {mode}: no {word} in {own:?}");
            }
            let decodes = mode == "inference";
            assert_eq!(has("padded_"), decodes, "{name}, {mode}: {own:?}");
        }
    }
    let text = stdout(["plan", "--model", fixture("qwen3").to_str().unwrap()]);
    assert!(text.contains("norm_and_rotate"), "{text}");
    assert!(!text.contains("Mixtral"), "{text}");
    assert!(text.contains("the checkpoint's family"), "{text}");
    let file = fixture("../gguf/qwen3.gguf");
    let text = stdout(["plan", "--model", file.to_str().unwrap()]);
    assert!(text.contains("norm_and_rotate"), "{text}");
}

#[test]
fn the_plan_of_a_checkpoint_is_written_and_compared() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    let file = path.to_str().unwrap();
    let (model, other) = (fixture("llama"), fixture("qwen3"));
    let of = |model: &Path| ["--model".to_owned(), model.to_str().unwrap().to_owned()];
    let [flag, model] = of(&model);
    stdout(["plan", "--out", file, &flag, &model]);
    assert_eq!(check(&path, &[&flag, &model]), (Some(0), String::new()));
    let (code, said) = check(&path, &[&flag, other.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(said.contains("- kernels_models::layers::llama::"), "{said}");
    let missing = folder.path().join("none");
    let (code, said) = check(&path, &[&flag, missing.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(said.contains("config.json"), "{said}");
}
