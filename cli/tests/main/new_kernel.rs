//! Tests of `kernels new-kernel`.

use crate::common::{errors, kernels, stdout};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
}

/// Returns every file of a folder by its path in it.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
            found.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
    found
}

fn make(name: &str, parent: &Path) -> PathBuf {
    let folder = parent.join("made");
    stdout(["new-kernel", name, "--path", folder.to_str().unwrap()]);
    folder
}

#[test]
fn a_new_crate_is_the_example_under_another_name() {
    let parent = TempDir::new().unwrap();
    let made = files(&make("top_k_gate", parent.path()));
    let example = files(&root().join("examples/third-party"));
    let renamed = |text: &str| {
        text.replace("acme-kernels", "top-k-gate-kernel")
            .replace("acme_kernels", "top_k_gate_kernel")
            .replace("acme-cpu", "top-k-gate-cpu")
            .replace("acme_soft_cap", "top_k_gate")
            .replace("soft_cap", "top_k_gate")
            .replace("SoftCap", "TopKGate")
    };
    for (name, text) in &example {
        if name != "Cargo.toml" {
            assert_eq!(made[&renamed(name)], renamed(text), "{name}");
        }
    }
    assert_eq!(made.len(), example.len());
    for (name, text) in &made {
        for left in ["acme", "soft_cap", "SoftCap", "soft-cap"] {
            assert!(!text.contains(left), "{left} is left in {name}");
        }
    }
    // A crate that only replaces a kernel is not linked unless the program names it.
    let (library, program) = (&made["src/lib.rs"], &made["src/main.rs"]);
    let names_it = "use top_k_gate_kernel as _;";
    assert!(library.contains(names_it) && program.contains(&format!("\n{names_it}")));
    assert!(
        library.contains("replaces a kernel of another crate"),
        "{library}"
    );
    // Nothing but the crate is left.
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[test]
fn the_manifest_asks_for_what_the_workspace_builds() {
    let parent = TempDir::new().unwrap();
    let manifest = files(&make("top_k_gate", parent.path()))
        .remove("Cargo.toml")
        .unwrap();
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let burn = workspace
        .lines()
        .find(|line| line.starts_with("burn = "))
        .unwrap();
    let version = burn.split('"').nth(1).unwrap();
    assert!(
        manifest.contains(&format!("burn = {{ version = \"{version}\"")),
        "{manifest}"
    );
    let example = fs::read_to_string(root().join("examples/third-party/Cargo.toml")).unwrap();
    for line in [
        burn,
        example
            .lines()
            .find(|line| line.starts_with("burn = "))
            .unwrap(),
    ] {
        let features = line
            .split_once("features = [")
            .unwrap()
            .1
            .split(']')
            .next()
            .unwrap();
        for feature in features.split(", ") {
            assert!(manifest.contains(feature), "{feature}: {manifest}");
        }
    }
    let path = format!("burn-kernels = {{ path = \"{}\" }}", root().display());
    assert!(manifest.contains(&path), "{manifest}");
}

/// Checks the crate without building it. This takes a minute the first time, because Burn is checked too, and no time
/// later. Tests of the example cover what the code does.
#[test]
fn a_new_crate_compiles_with_its_test_and_benchmark() {
    let parent = TempDir::new().unwrap();
    let folder = make("top_k_gate", parent.path());
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
    let result = Command::new(cargo)
        .args(["check", "--offline", "--all-targets"])
        .current_dir(&folder)
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-kernel"),
        )
        .env("RUSTFLAGS", "-Dwarnings")
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", errors(&result));
}

#[test]
fn a_folder_that_exists_is_left_alone() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("made");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("notes"), "mine").unwrap();
    let result = kernels([
        "new-kernel",
        "top_k_gate",
        "--path",
        folder.to_str().unwrap(),
    ]);
    assert_eq!(result.status.code(), Some(1));
    assert!(errors(&result).contains("exists already; nothing was written"));
    assert_eq!(
        files(parent.path()),
        BTreeMap::from([("made/notes".into(), "mine".into())])
    );
}

#[test]
fn bad_names_and_places_are_refused() {
    let parent = TempDir::new().unwrap();
    let made = parent.path().join("made");
    let result = kernels(["new-kernel", "Top-K", "--path", made.to_str().unwrap()]);
    assert_eq!(result.status.code(), Some(2));
    assert!(
        errors(&result).contains("snake_case"),
        "{}",
        errors(&result)
    );

    let nowhere = parent.path().join("missing/made");
    let result = kernels([
        "new-kernel",
        "top_k_gate",
        "--path",
        nowhere.to_str().unwrap(),
    ]);
    assert_eq!(result.status.code(), Some(1));
    assert!(
        errors(&result).contains("cannot write in"),
        "{}",
        errors(&result)
    );

    let result = kernels([
        "new-kernel",
        "top_k_gate",
        "--path",
        made.to_str().unwrap(),
        "--burn-kernels",
        parent.path().to_str().unwrap(),
    ]);
    assert_eq!(result.status.code(), Some(1));
    assert!(errors(&result).contains("does not contain the package burn-kernels"));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}
