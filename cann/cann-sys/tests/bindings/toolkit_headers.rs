//! Tests that our declarations agree with the headers of an installed toolkit.
//!
//! `CANN_TOOLKIT_INCLUDE` lists the toolkit's `include` folders, separated by colons: the one with `acl/` and
//! `aclnn/`, and before CANN 8.5 also the one with `aclnnop/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::compare::{Declarations, Difference};
use crate::support::ours::{foreign, ours};

#[test]
fn our_declarations_are_those_of_the_toolkit() {
    let folders = std::env::var_os("CANN_TOOLKIT_INCLUDE")
        .expect("CANN_TOOLKIT_INCLUDE must list the include folders of a CANN toolkit");
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    clang_sys::load().expect("libclang is needed to read headers");

    let (ours, names) = ours();
    let mut theirs = Declarations::default();
    let mut unreadable = BTreeMap::new();
    for header in headers_that_matter(&folders, &ours) {
        match foreign(&header, &folders, &names) {
            Ok(found) => theirs.merge(found),
            Err(why) => drop(unreadable.insert(header, why)),
        }
    }

    let (mut missing, mut notes, mut differing) = (Vec::new(), Vec::new(), Vec::new());
    for difference in ours.differences(&theirs) {
        match difference {
            Difference::Missing(_) => missing.push(difference),
            Difference::Note { .. } => notes.push(difference),
            Difference::Differs { .. } => differing.push(difference),
        }
    }
    let compared = ours
        .functions
        .keys()
        .filter(|name| theirs.functions.contains_key(*name))
        .count();
    eprintln!("{compared} of {} functions compared", ours.functions.len());
    for difference in &missing {
        eprintln!("not in this toolkit: {difference}");
    }
    for note in &notes {
        eprintln!("otherwise in this toolkit, which is as well: {note}");
    }
    for (header, why) in &unreadable {
        eprintln!("not read: {}: {why}", header.display());
    }
    assert!(
        compared > 0,
        "no function of ours was found under {folders:?}"
    );
    let report: String = differing
        .iter()
        .map(|difference| format!("\n{difference}"))
        .collect();
    assert!(differing.is_empty(), "declared differently:{report}");
    assert!(
        unreadable.is_empty(),
        "headers that declare our functions could not be read"
    );
}

/// Returns the headers that declare one of our names.
fn headers_that_matter(folders: &[PathBuf], ours: &Declarations) -> Vec<PathBuf> {
    let mut headers = Vec::new();
    for folder in folders {
        collect_headers(folder, &mut headers);
    }
    headers.retain(|header| {
        let text = fs::read(header).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words.any(|word| ours.declares(word))
    });
    headers.sort();
    headers
}

fn collect_headers(folder: &Path, headers: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            collect_headers(&path, headers);
        } else if path.extension().is_some_and(|extension| extension == "h") {
            headers.push(path);
        }
    }
}
