//! Checks that no public error of a library derives `Debug`. A program whose `main` returned one would show its fields
//! in place of its message.

use std::fs;
use std::path::{Path, PathBuf};

/// The sources of the libraries.
const LIBRARIES: [&str; 6] = [
    "src",
    "kernels-runtime/src",
    "kernels-serving/src",
    "models/src",
    "cann/burn-cann/src",
    "cann/cann-sys/src",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Returns the public errors of a file that are derived: the derived traits and the item.
fn errors(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("#[derive(").skip(1).filter_map(|rest| {
        let (traits, rest) = rest.split_once(")]")?;
        let is_error = traits.split(',').any(|name| name.trim().ends_with("Error"));
        let mut lines = rest.lines().map(str::trim);
        let item = lines.find(|line| line.contains("struct ") || line.contains("enum "))?;
        (is_error && item.starts_with("pub ")).then_some((traits, item))
    })
}

#[test]
fn no_public_error_derives_debug() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for library in LIBRARIES {
        sources(&root.join(library), &mut files);
    }
    let mut seen = 0;
    for file in files {
        for (traits, item) in errors(&fs::read_to_string(&file).unwrap()) {
            seen += 1;
            let derives_debug = traits.split(',').any(|name| name.trim() == "Debug");
            assert!(!derives_debug, "{}: {item}", file.display());
        }
    }
    assert!(seen >= 25, "only {seen} errors were found");
}

#[test]
fn a_derived_debug_is_seen() {
    let text = "#[derive(Clone, Debug, Error)]\n#[non_exhaustive]\npub enum Bad {\n";
    assert_eq!(
        errors(text).collect::<Vec<_>>(),
        [("Clone, Debug, Error", "pub enum Bad {")]
    );
}
