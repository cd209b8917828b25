//! `docs/peers.md` has every feature of the peers with its state, and each claim is proved by a test that runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use syn::{Attribute, Item, ItemFn};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names of all rows: numbered features, warts of two peers, and features that no peer has.
fn expected() -> BTreeSet<String> {
    let numbered = (1..=96).map(|n| n.to_string());
    let warts = (1..=16).map(|n| format!("W{n}"));
    let more = ["W1b", "W3b", "W3c"].map(str::to_owned);
    let others = (1..=11).map(|n| format!("H{n}"));
    let own = (1..=12).map(|n| format!("F{n}"));
    numbered
        .chain(warts)
        .chain(more)
        .chain(others)
        .chain(own)
        .collect()
}

const STATES: [&str; 5] = ["beats", "matches", "part", "absent", "n/a"];

/// The states that claim something.
const CLAIMS: [&str; 3] = ["beats", "matches", "part"];

struct Row<'a> {
    name: &'a str,
    /// Nothing in the tables of warts, all of which claim that the wart is not there.
    state: Option<&'a str>,
    proofs: Vec<&'a str>,
}

/// The rows of the page's tables of features and warts.
fn rows(page: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for line in page.lines() {
        let Some(line) = line
            .strip_prefix("| ")
            .and_then(|line| line.strip_suffix(" |"))
        else {
            continue;
        };
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let is_name = cells[0]
            .trim_start_matches(['W', 'H', 'F'])
            .starts_with(|c: char| c.is_ascii_digit());
        if is_name && cells.len() >= 4 {
            rows.push(Row {
                name: cells[0],
                state: (cells.len() == 5).then(|| cells[3]),
                proofs: cells[cells.len() - 1]
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .collect(),
            });
        }
    }
    rows
}

/// Returns everything that is wrong with the page. `read` gives the text of a file of the repository.
fn problems(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    for Row {
        name,
        state,
        proofs,
    } in rows(page)
    {
        if !seen.insert(name.to_owned()) {
            problems.push(format!("{name} stands twice"));
        }
        if let Some(state) = state.filter(|state| !STATES.contains(state)) {
            problems.push(format!("{name}: `{state}` is no state"));
        }
        let claims = state.is_none_or(|state| CLAIMS.contains(&state));
        match (claims, proofs.is_empty()) {
            (true, true) => problems.push(format!("{name} is not proved")),
            (false, false) => problems.push(format!("{name} claims nothing and has a proof")),
            _ => {}
        }
        for proof in proofs {
            if let Err(why) = is_test(proof, &read) {
                problems.push(format!("{name}: `{proof}` {why}"));
            }
        }
    }
    let expected = expected();
    problems.extend(
        expected
            .difference(&seen)
            .map(|name| format!("{name} is missing")),
    );
    problems.extend(
        seen.difference(&expected)
            .map(|name| format!("{name} is unknown")),
    );
    problems
}

/// A proof is `path#function`, or a case of `tests/ui`.
fn is_test(proof: &str, read: &impl Fn(&str) -> Option<String>) -> Result<(), &'static str> {
    if let Some(case) = proof
        .strip_prefix("tests/ui/")
        .and_then(|case| case.strip_suffix(".rs"))
    {
        return is_case(case, read);
    }
    let (path, function) = proof.split_once('#').ok_or("names no test")?;
    if !path.ends_with(".rs")
        || !path
            .split('/')
            .any(|folder| folder == "tests" || folder == "src")
    {
        return Err("is no source of tests");
    }
    let text = read(path).ok_or("is no file")?;
    let file = syn::parse_file(&text).map_err(|_| "does not parse")?;
    let function = find(&file.items, function).ok_or("has no such function")?;
    let has = |attributes: &[Attribute], name| {
        attributes
            .iter()
            .any(|attribute| attribute.path().is_ident(name))
    };
    match (has(&function.attrs, "test"), has(&function.attrs, "ignore")) {
        (true, false) => Ok(()),
        (true, true) => Err("is ignored"),
        (false, _) => Err("is no test"),
    }
}

/// An accepted case is run by `tests/ui.rs`, where it is listed; a refused one has the compiler's words beside it.
fn is_case(case: &str, read: &impl Fn(&str) -> Option<String>) -> Result<(), &'static str> {
    read(&format!("tests/ui/{case}.rs")).ok_or("is no file")?;
    if let Some(name) = case.strip_prefix("pass/") {
        let list = read("tests/ui.rs").ok_or("has no runner")?;
        let accepted = list
            .split("accepted! {")
            .nth(1)
            .and_then(|rest| rest.split('}').next());
        let mut names = accepted.unwrap_or_default().split_whitespace();
        return names
            .any(|other| other == name)
            .then_some(())
            .ok_or("is not run");
    }
    let words = read(&format!("tests/ui/{case}.stderr"));
    words.map(|_| ()).ok_or("has no message that is expected")
}

/// The function of this name, in the file or in a module inside it.
fn find<'a>(items: &'a [Item], name: &str) -> Option<&'a ItemFn> {
    items.iter().find_map(|item| match item {
        Item::Fn(function) if function.sig.ident == name => Some(function),
        Item::Mod(module) => find(&module.content.as_ref()?.1, name),
        _ => None,
    })
}

#[test]
fn every_row_is_there_and_every_claim_is_proved() {
    let read = |path: &str| fs::read_to_string(root().join(path)).ok();
    let page = read("docs/peers.md").expect("docs/peers.md is there");
    let problems = problems(&page, read);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A page with one mistake of each kind.
#[test]
fn mistakes_are_found() {
    // The ignored test is a text of this case: a claim that names such a test has no proof.
    let tests = "#[test] fn runs() {} #[test] #[ignore] fn ignored() {} fn helper() {} \
                 #[cfg(test)] mod tests { #[test] fn inner() {} }";
    let read = |path: &str| match path {
        "tests/a.rs" => Some(tests.to_owned()),
        "README.md" | "tests/ui/fail/silent.rs" | "tests/ui/pass/absent.rs" => Some(String::new()),
        "tests/ui.rs" => Some("accepted! { other }".to_owned()),
        _ => None,
    };
    let page = "\
| 1 | a | b | beats | `tests/a.rs#runs` |
| 1 | a | b | beats | `tests/a.rs#inner` |
| 2 | a | b | best | — |
| 3 | a | b | part | — |
| 4 | a | b | absent | `tests/a.rs#runs` |
| 5 | a | b | beats | `tests/a.rs#helper` |
| 6 | a | b | beats | `tests/a.rs#ignored` |
| 7 | a | b | beats | `README.md` |
| 8 | a | b | beats | `tests/a.rs#nothing` |
| 9 | a | b | beats | `tests/ui/fail/silent.rs` |
| 10 | a | b | beats | `tests/ui/pass/absent.rs` |
| 97 | a | b | absent | — |
| W1 | a | b | — |
| W2 | a | b | `tests/b.rs#runs` |";
    let found = problems(page, read);
    for expected in [
        "1 stands twice",
        "2: `best` is no state",
        "3 is not proved",
        "4 claims nothing and has a proof",
        "5: `tests/a.rs#helper` is no test",
        "6: `tests/a.rs#ignored` is ignored",
        "7: `README.md` names no test",
        "8: `tests/a.rs#nothing` has no such function",
        "9: `tests/ui/fail/silent.rs` has no message that is expected",
        "10: `tests/ui/pass/absent.rs` is not run",
        "11 is missing",
        "97 is unknown",
        "W1 is not proved",
        "W2: `tests/b.rs#runs` is no file",
    ] {
        assert!(
            found.iter().any(|problem| problem == expected),
            "{expected} is not in {found:#?}"
        );
    }
    // Rows 1 and 4 name tests that run.
    assert_eq!(
        found
            .iter()
            .filter(|problem| problem.contains("#runs`"))
            .count(),
        1
    );
}
