//! Tests of `kernels list`, `plan`, `inspect` and `verify`.

use crate::common::{command, errors, json, kernels, stdout};
use serde_json::Value;
use std::process::Stdio;

/// Returns the names of sites, on which all commands must agree.
fn names(sites: &Value) -> Vec<String> {
    let sites = sites.as_array().expect("sites");
    let names = sites.iter().map(|site| {
        format!(
            "{}::{} {} {}",
            site["module"], site["item"], site["kernel"], site["key"]
        )
    });
    names.collect()
}

#[test]
fn inspect_finds_in_the_built_file_what_list_finds_in_the_running_program() {
    let listed = json(["list", "--json"]);
    let inspected = json(["inspect", "--json", env!("CARGO_BIN_EXE_kernels")]);
    let sites = names(&listed["sites"]);
    assert_eq!(names(&inspected["sites"]), sites);
    for model in ["llama", "qwen3"] {
        for kernel in [
            "npu_fused_rmsnorm",
            "npu_fused_add_rmsnorm",
            "npu_fused_swiglu",
            "npu_fused_rope",
        ] {
            assert!(
                sites.iter().any(|site| {
                    site.contains(&format!("kernels_models::layers::{model}"))
                        && site.contains(kernel)
                }),
                "{model} {kernel}: {sites:#?}"
            );
        }
    }
    let ids = |kernels: &Value| -> Vec<Value> {
        let kernels = kernels.as_array().expect("kernels");
        kernels.iter().map(|kernel| kernel["id"].clone()).collect()
    };
    assert_eq!(ids(&inspected["kernels"]), ids(&listed["kernels"]));
    assert_eq!(ids(&listed["kernels"]).len(), 20);
}

#[test]
fn tables_name_sites_and_kernels() {
    for args in [
        vec!["list", "--wide"],
        vec!["inspect", "--wide", env!("CARGO_BIN_EXE_kernels")],
        vec!["plan", "--wide"],
    ] {
        let text = stdout(&args);
        assert!(
            text.contains("kernels_models::layers::llama::"),
            "{args:?}: {text}"
        );
        assert!(text.contains("npu_fused_swiglu"), "{args:?}: {text}");
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{args:?}");
    }
}

#[test]
fn sites_of_this_program_are_not_taken_for_those_of_the_users() {
    for command in ["list", "plan"] {
        let text = stdout([command]);
        let end = text.trim_end().lines().rev().take(4).collect::<Vec<_>>();
        let end = end.into_iter().rev().collect::<Vec<_>>().join(" ");
        for words in [
            "the sites of `kernels` itself",
            "`kernels inspect FILE`",
            "`kernels plan --bin FILE`",
        ] {
            assert!(end.contains(words), "{text}");
        }
    }
}

#[test]
fn a_plan_calls_the_optimisers_step_one() {
    for mode in ["training", "inference"] {
        let text = stdout(["plan", "--wide", "--mode", mode]);
        let mut lines = text.lines();
        let step = lines
            .find(|line| line.contains("npu_fused_adam_w"))
            .expect("a row");
        assert!(step.ends_with("(optimiser step)"), "{step}");
        assert_eq!(text.matches("(optimiser step)").count(), 1, "{text}");
    }
}

#[test]
fn a_plan_follows_the_policy_and_gives_reasons() {
    let implementations = |args: &[&str]| -> Vec<(bool, bool)> {
        let plan = json(["plan", "--json"].iter().chain(args));
        let sites = plan["sites"].as_array().expect("sites");
        // This one has no gradient, and runs on request.
        let rows = sites.iter();
        let rows = rows.filter(|row| row["kernel"] != "npu_fused_quantized_linear_int8");
        rows.map(|row| (row["implementation"].is_string(), row["reason"].is_string()))
            .collect()
    };
    let rounded = |args: &[&str]| {
        let plan = json(["plan", "--json"].iter().chain(args));
        let mut sites = plan["sites"].as_array().expect("sites").iter();
        let row = sites.find(|row| row["kernel"] == "npu_fused_quantized_linear_int8");
        let row = row.expect("its site");
        (row["implementation"].clone(), row["reason"].clone())
    };
    assert_eq!(
        rounded(&["--mode", "inference"]),
        ("cpu-simd-int8".into(), Value::Null)
    );
    assert_eq!(
        rounded(&["--kernels=all"]),
        (Value::Null, "no_gradient".into())
    );
    for args in [
        &["--kernels=all"][..],
        &["--mode", "inference", "--dtype", "bf16"],
    ] {
        assert!(
            implementations(args)
                .iter()
                .all(|row| *row == (true, false)),
            "{args:?}"
        );
    }
    let none = implementations(&["--kernels=none"]);
    assert!(!none.is_empty() && none.iter().all(|row| *row == (false, true)));
}

#[test]
fn the_argument_wins_over_the_environment() {
    let plan = |args: &[&str]| {
        let result = command()
            .env("BURN_KERNELS", "none")
            .args(["plan", "--json"])
            .args(args)
            .output()
            .unwrap();
        serde_json::from_slice::<Value>(&result.stdout).unwrap()
    };
    assert_eq!(plan(&[])["policy"], "none");
    assert_eq!(plan(&["--kernels=all"])["policy"], "all");
}

#[test]
fn files_without_metadata_are_refused() {
    let folder = tempfile::TempDir::new().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "no object file").unwrap();
    let missing = folder.path().join("missing");
    let cases = [
        (text, "not an ELF, Mach-O or PE file"),
        (missing, "cannot read"),
        // Cargo links no kernel.
        (env!("CARGO").into(), "no kernel metadata"),
    ];
    for (file, words) in cases {
        let result = kernels(["inspect".as_ref(), file.as_os_str()]);
        let said = errors(&result);
        assert_eq!(result.status.code(), Some(1), "{said}");
        assert!(
            said.contains(words) && said.contains(&file.display().to_string()),
            "{said}"
        );
        assert!(result.stdout.is_empty());
    }
}

#[test]
fn damaged_metadata_is_an_error() {
    const MAGIC: &[u8] = b"BKMETA\x01\n";
    let mut bytes = std::fs::read(env!("CARGO_BIN_EXE_kernels")).unwrap();
    let is_record = |at: &usize| {
        let json = at + MAGIC.len() + 4;
        bytes[*at..].starts_with(MAGIC) && bytes.get(json) == Some(&b'{')
    };
    let at = (0..bytes.len()).find(is_record).expect("a record");
    bytes[at + MAGIC.len() + 4] = b'[';
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("damaged");
    std::fs::write(&file, bytes).unwrap();
    let result = kernels(["inspect".as_ref(), file.as_os_str()]);
    assert_eq!(result.status.code(), Some(1));
    assert!(errors(&result).contains("damaged"), "{}", errors(&result));
}

#[test]
fn verify_passes_here() {
    let report = json(["verify", "--json"]);
    assert!(report.is_object(), "{report}");
}

#[test]
fn verify_prints_a_summary_and_with_all_every_case() {
    let text = stdout(["verify"]);
    let cases = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.ends_with("within the budget on cpu"));
        let count = line.unwrap_or_else(|| panic!("{text}")).split(' ').next();
        count.unwrap().parse::<usize>().unwrap()
    };
    let rows = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("npu_fused_"))
            .count()
    };
    assert_eq!(rows(&text), 16, "{text}");
    assert!(text.contains("`kernels verify --all`"), "{text}");
    let all = stdout(["verify", "--all", "--wide"]);
    assert!(cases(&all) > 1000 && cases(&all) == cases(&text));
    assert!(rows(&all) > 1000 && !all.contains("--all"));
}

#[cfg(not(feature = "npu"))]
#[test]
fn a_device_that_this_build_lacks_names_the_feature() {
    for device in ["npu", "npu:1"] {
        let result = kernels(["list", "--device", device]);
        assert_eq!(result.status.code(), Some(2));
        let said = errors(&result);
        assert!(
            said.contains(&format!("`{device}` needs a build with `--features npu`")),
            "{said}"
        );
    }
}

#[cfg(not(feature = "remote"))]
#[test]
fn a_command_that_this_build_lacks_names_the_feature() {
    for args in [
        &["serve"][..],
        &["serve", "--help"],
        &["serve", "--device", "npu", "more"],
    ] {
        let result = kernels(args);
        assert_eq!(result.status.code(), Some(2), "{args:?}");
        let said = "error: `kernels serve` needs a build with `--features remote` (or `npu`)\n";
        assert_eq!(errors(&result), said);
    }
    assert!(!stdout(["--help"]).contains("serve"));
}

#[cfg(not(feature = "text"))]
#[test]
fn generation_names_its_feature() {
    for command in ["generate", "finetune", "merge"] {
        for args in [&[][..], &["--help"], &["--prompt", "x"]] {
            let result = kernels([&[command][..], args].concat());
            assert_eq!(result.status.code(), Some(2), "{command} {args:?}");
            let said = format!("error: `kernels {command}` needs a build with `--features text`\n");
            assert_eq!(errors(&result), said);
        }
    }
    assert!(!stdout(["--help"]).contains("generate"));
}

#[cfg(not(feature = "packages"))]
#[test]
fn packages_name_their_feature() {
    for args in [&[][..], &["--help"], &["check", "--json", "x"]] {
        let result = kernels([&["packages"][..], args].concat());
        assert_eq!(result.status.code(), Some(2), "{args:?}");
        let said = "error: `kernels packages` needs a build with `--features packages` (or `hub`, which also \
                    downloads)\n";
        assert_eq!(errors(&result), said);
    }
    assert!(!stdout(["--help"]).contains("packages"));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut program = command();
    program
        .arg("list")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    drop(child.stdout.take());
    let result = child.wait_with_output().unwrap();
    assert!(result.status.success());
    assert_eq!(errors(&result), "");
}

#[test]
fn help_and_version_are_there() {
    assert!(stdout(["--version"]).starts_with("kernels "));
    for name in ["train", "run", "list", "plan", "inspect", "verify"] {
        assert!(stdout(["--help"]).contains(name));
        assert!(stdout([name, "--help"]).contains("Usage: kernels"));
    }
    assert_eq!(kernels(["frobnicate"]).status.code(), Some(2));
}
