//! A feature of the program adds crates, and builds none of those below Burn anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The packages of a feature set, each with the sets of features that it is built with: one for the program, and
/// another where macros and build scripts use it, too.
type Tree = BTreeMap<String, BTreeSet<BTreeSet<String>>>;

fn tree(features: &[&str]) -> Tree {
    let edges = ["--edges", "normal,build"];
    tree_of(&[&edges, features].concat())
}

fn tree_of(options: &[&str]) -> Tree {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--locked", "--prefix", "none"]);
    command.args(["--format", "{p}\t{f}"]).args(options);
    let output = command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree {options:?}: {errors}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let mut tree = Tree::new();
    for (package, features) in lines.lines().filter_map(|line| line.split_once('\t')) {
        let name = package.split(" (").next().expect("a name");
        let features = features.trim_end_matches(" (*)").split(',');
        let features = features.map(str::to_owned).collect();
        tree.entry(name.to_owned()).or_default().insert(features);
    }
    assert!(tree.len() > 150, "{} packages", tree.len());
    tree
}

/// Returns the packages of `before` that `after` builds with features that they don't have there.
fn built_anew(before: &Tree, after: &Tree) -> BTreeSet<String> {
    let other = |(package, features): (&String, &BTreeSet<BTreeSet<String>>)| {
        let now = after.get(package)?;
        (!now.is_superset(features))
            .then(|| package.rsplit_once(" v").expect("a version").0.to_owned())
    };
    before.iter().filter_map(other).collect()
}

/// Names which packages `features` may build anew.
#[track_caller]
fn adds(features: &[&str], anew: &[&str]) {
    let anew: BTreeSet<String> = anew.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(
        built_anew(&tree(&[]), &tree(features)),
        anew,
        "the features that {features:?} changes are named in cli/Cargo.toml for every build"
    );
}

#[test]
fn text_builds_the_program_anew_and_nothing_below_it() {
    adds(&["--features", "text"], &["kernels-cli"]);
    adds(&["--features", "parquet"], &["kernels-cli"]);
    adds(&["--features", "images"], &["kernels-cli", "kernels-fuzz"]);
}

/// Cargo compiles a package for macros and build scripts otherwise than for the program, but only once if both need it. One
/// that only the macros need must not become one of the program's, or all that the macros are for is built anew.
#[test]
fn features_leave_what_macros_alone_need_to_them() {
    let of_program = |features: &[&str]| -> BTreeSet<String> {
        let edges = ["--edges", "normal,no-proc-macro"];
        tree_of(&[&edges, features].concat()).into_keys().collect()
    };
    let before = of_program(&[]);
    let all: BTreeSet<String> = tree(&[]).into_keys().collect();
    let of_macros: BTreeSet<_> = all.difference(&before).collect();
    assert!(of_macros.len() > 10, "{of_macros:?}");
    for feature in ["text", "npu", "parquet", "images", "hub", "gpu"] {
        let now = of_program(&["--features", feature]);
        let both: Vec<_> = of_macros
            .iter()
            .filter(|name| now.contains(**name))
            .collect();
        assert!(
            both.is_empty(),
            "{both:?} of {feature} are named in cli/Cargo.toml for every build"
        );
    }
}

#[test]
fn packages_build_our_crates_from_the_runtime_on_anew() {
    let ours = ["burn-kernels", "kernels-cli", "kernels-runtime"];
    for feature in ["packages", "hub"] {
        adds(&["--features", feature], &ours);
    }
    let both = tree(&["--features", "npu,parquet,images"]);
    let anew = built_anew(&both, &tree(&["--features", "npu,parquet,images,hub"]));
    assert_eq!(Vec::from_iter(anew), ours);
}

/// Burn's own features for remote devices change its upper crates; those with kernels stay.
#[test]
fn npu_builds_the_upper_crates_of_burn_anew() {
    let burn = ["burn", "burn-core", "burn-dispatch", "burn-tensor"];
    let ours = [
        "burn-kernels",
        "kernels-cli",
        "kernels-fuzz",
        "kernels-models",
        "kernels-runtime",
    ];
    // Without features, as a macro has it, `hashbrown` goes where `remote` is.
    // `digest` and `crypto-common` lie below `sha2`, which only the program uses.
    let others = ["crypto-common", "digest", "hashbrown", "tracing-subscriber"];
    adds(
        &["--features", "npu,text"],
        &[&burn[..], &ours, &others].concat(),
    );
}

/// A plain `cargo test`, which the README has, builds nothing of CANN, and `--features npu` only what the program needs.
#[test]
fn cann_is_built_for_its_own_tests_alone() {
    let of_cann = |options: &[&str]| -> Vec<String> {
        let packages = tree_of(options).into_keys();
        packages
            .filter(|package| package.contains("cann"))
            .collect()
    };
    let tests = ["--edges", "normal,build,dev"];
    assert_eq!(of_cann(&tests), [""; 0]);
    let program = of_cann(&[&tests[..], &["--features", "npu"]].concat());
    assert_eq!(program.len(), 2, "{program:?}");
    assert!(of_cann(&[&tests[..], &["--workspace"]].concat()).len() == 4);
}
