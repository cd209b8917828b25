//! `docs/peers.md` names a proof for every row; the proofs must exist.

use std::fs;
use std::path::Path;

fn page() -> String {
    fs::read_to_string(root().join("docs/peers.md")).expect("docs/peers.md is there")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The cells of every table row that starts with a row's name.
fn rows(page: &str) -> Vec<Vec<String>> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| "))
        .map(|line| {
            let cells = line.trim_end_matches('|').split(" | ");
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .filter(|cells: &Vec<String>| {
            cells[0].starts_with(|c: char| c.is_ascii_digit() || c == 'W' || c == 'H')
                && cells[0].ends_with(|c: char| c.is_ascii_alphanumeric())
        })
        .collect()
}

#[test]
fn every_row_is_there() {
    let page = page();
    let names: Vec<String> = rows(&page).iter().map(|cells| cells[0].clone()).collect();
    for row in (1..=45).map(|n| n.to_string()) {
        assert!(names.contains(&row), "row {row} is missing");
    }
    for wart in (1..=16).map(|n| format!("W{n}")) {
        assert!(names.contains(&wart), "{wart} is missing");
    }
    for wart in (1..=11).map(|n| format!("H{n}")) {
        assert!(names.contains(&wart), "{wart} is missing");
    }
}

/// A proof is `` `path` `` of a file, or `` `path#name` `` of a function in it.
#[test]
fn every_proof_exists() {
    let page = page();
    let mut missing = Vec::new();
    for cells in rows(&page) {
        let proofs = cells.last().expect("a row has cells");
        let named: Vec<&str> = proofs.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && proofs != "—" {
            missing.push(format!("{}: no proof in `{proofs}`", cells[0]));
        }
        for proof in named {
            let (file, function) = proof
                .split_once('#')
                .map_or((proof, None), |(file, name)| (file, Some(name)));
            match (fs::read_to_string(root().join(file)), function) {
                (Err(error), _) => missing.push(format!("{}: {file}: {error}", cells[0])),
                (Ok(text), Some(name)) if !text.contains(&format!("fn {name}(")) => {
                    missing.push(format!("{}: no `fn {name}` in {file}", cells[0]));
                }
                _ => {}
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
