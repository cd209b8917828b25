//! `docs/peers.md` has every feature of the peers with its state, and each claim names a test as its proof.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use syn::{Item, ItemFn};

/// The names of all rows: numbered features, warts of two peers, and features that no peer has.
fn expected() -> BTreeSet<String> {
    let numbered = (1..=102).map(|n| n.to_string());
    let warts = (1..=16).map(|n| format!("W{n}"));
    let more = ["W1b", "W3b", "W3c"].map(str::to_owned);
    let others = (1..=11).map(|n| format!("H{n}"));
    let own = (1..=13).map(|n| format!("F{n}"));
    let rows = numbered.chain(warts).chain(more).chain(others);
    rows.chain(own).collect()
}

/// Returns everything that is wrong with the page. `read` gives the text of a file of the repository.
fn problems(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    for line in page.lines() {
        let inner = line
            .strip_prefix("| ")
            .and_then(|line| line.strip_suffix(" |"));
        let cells: Vec<&str> = inner
            .unwrap_or_default()
            .split(" | ")
            .map(str::trim)
            .collect();
        let name = cells[0];
        let number = name.trim_start_matches(['W', 'H', 'F']);
        if cells.len() < 4 || !number.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        if !seen.insert(name.to_owned()) {
            problems.push(format!("{name} is there twice"));
        }
        let proofs: Vec<&str> = cells[cells.len() - 1]
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        // The tables of warts have no states. All their rows claim that the wart is absent.
        let claims = match (cells.len(), cells[3]) {
            (4, _) | (_, "beats" | "matches" | "part") => true,
            (_, "absent" | "n/a") => false,
            (_, state) => {
                problems.push(format!("{name}: unknown state `{state}`"));
                continue;
            }
        };
        if claims == proofs.is_empty() {
            problems.push(format!(
                "{name}: a claim needs a proof, and nothing else has one"
            ));
        }
        for proof in proofs {
            if let Err(why) = is_test(proof, &read) {
                problems.push(format!("{name}: `{proof}` {why}"));
            }
        }
    }
    let differing = expected()
        .symmetric_difference(&seen)
        .cloned()
        .collect::<Vec<_>>();
    problems.extend(
        differing
            .iter()
            .map(|name| format!("{name} is missing or unknown")),
    );
    problems
}

/// Checks a proof: `path#function`, or a case of `tests/ui`.
fn is_test(proof: &str, read: &impl Fn(&str) -> Option<String>) -> Result<(), &'static str> {
    let case = proof
        .strip_prefix("tests/ui/")
        .and_then(|case| case.strip_suffix(".rs"));
    if let Some(case) = case {
        read(proof).ok_or("does not exist")?;
        // A refused case has the compiler's messages beside it.
        let is_run = match case.strip_prefix("pass/") {
            Some(name) => {
                let list = read("tests/ui.rs").unwrap_or_default();
                let accepted = list
                    .split("accepted! {")
                    .nth(1)
                    .and_then(|rest| rest.split('}').next());
                accepted.is_some_and(|names| names.split_whitespace().any(|other| other == name))
            }
            None => read(&format!("tests/ui/{case}.stderr")).is_some(),
        };
        return is_run.then_some(()).ok_or("is not run");
    }
    let (path, function) = proof.split_once('#').ok_or("names no test")?;
    let text = read(path).ok_or("does not exist")?;
    let file = syn::parse_file(&text).map_err(|_| "does not parse")?;
    let function = find(&file.items, function).ok_or("has no such function")?;
    let has = |name| {
        function
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident(name))
    };
    (has("test") && !has("ignore"))
        .then_some(())
        .ok_or("is not a test that runs")
}

/// Returns the function of this name, in the file or in a module inside it.
fn find<'a>(items: &'a [Item], name: &str) -> Option<&'a ItemFn> {
    items.iter().find_map(|item| match item {
        Item::Fn(function) if function.sig.ident == name => Some(function),
        Item::Mod(module) => find(&module.content.as_ref()?.1, name),
        _ => None,
    })
}

#[test]
fn every_row_is_there_and_every_claim_is_proved() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let page = read("docs/peers.md").expect("docs/peers.md is there");
    let problems = problems(&page, read);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Each row but the first has a mistake.
#[test]
fn mistakes_are_found() {
    let read = |path: &str| {
        let text = match path {
            // The source of a proof. An ignored test and a helper prove nothing.
            "tests/a.rs" => {
                "#[test] fn runs() {} #[test] #[ignore] fn ignored() {} mod tests { fn helper() {} }"
            }
            "tests/ui/fail/silent.rs" | "tests/ui/pass/absent.rs" => "",
            "tests/ui.rs" => "accepted! { other }",
            _ => return None,
        };
        Some(text.to_owned())
    };
    let page = "\
| 1 | a | b | beats | `tests/a.rs#runs` |
| 1 | a | b | beats | `tests/a.rs#runs` |
| 2 | a | b | best | — |
| 3 | a | b | part | — |
| 4 | a | b | absent | `tests/a.rs#runs` |
| 5 | a | b | beats | `tests/a.rs#helper` |
| 6 | a | b | beats | `tests/a.rs#ignored` |
| 7 | a | b | beats | `README.md` |
| 8 | a | b | beats | `tests/a.rs#nothing` |
| 9 | a | b | beats | `tests/ui/fail/silent.rs` |
| 10 | a | b | beats | `tests/ui/pass/absent.rs` |
| 103 | a | b | absent | — |
| W1 | a | b | — |
| W2 | a | b | `tests/b.rs#runs` |";
    let found = problems(page, read);
    let about = |name: &str| {
        found
            .iter()
            .filter(|problem| problem.split([':', ' ']).next() == Some(name))
            .count()
    };
    for name in [
        "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "103", "W1", "W2",
    ] {
        assert_eq!(about(name), 1, "{name}: {found:#?}");
    }
}
