//! A budget of lines: `tests/fixtures/lines.toml` says how many lines of Rust each crate may have, and why it has grown.
//!
//! `BLESS=1 cargo test --test main lines` writes the present numbers, with a little room, and asks for the reason of each
//! one that rises.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const TABLE: &str = "tests/fixtures/lines.toml";

const HEAD: &str = "\
# The lines of Rust that each crate may have: `src` without tests, and `tests` with all else (tests, benchmarks, examples).
# `why` is the reason for the last rise. tests/main/lines.rs checks it, and BLESS=1 writes the numbers.
";

/// The lines of a crate, or those that it may have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lines {
    src: usize,
    tests: usize,
}

impl Lines {
    /// Returns these with one percent of room for small changes.
    fn with_room(self) -> Self {
        let room = |lines: usize| (lines + lines / 100).next_multiple_of(50);
        Self {
            src: room(self.src),
            tests: room(self.tests),
        }
    }
}

/// The lines that a crate may have, and the reason for the last rise.
#[derive(Clone, Debug, PartialEq)]
struct Budget {
    lines: Lines,
    why: String,
}

/// Returns the lines of a file outside and inside of the module of tests at its end.
fn split(text: &str) -> (usize, usize) {
    let all = text.lines().count();
    let lines: Vec<&str> = text.lines().collect();
    let inline = |pair: &[&str]| {
        pair[0].starts_with("#[cfg(")
            && pair[0].contains("test")
            && pair[1].ends_with("mod tests {")
    };
    let src = lines.windows(2).position(inline).unwrap_or(all);
    (src, all - src)
}

/// Adds up the files of a folder by crate. A path is below the root, and `krate` is the folder of the crate around it.
fn count(root: &Path, folder: &Path, krate: &Path, counts: &mut BTreeMap<String, Lines>) {
    let is_crate = root.join(folder).join("Cargo.toml").exists();
    // A crate in a folder of tests is a fixture of the crate around it.
    let krate = match is_crate && !folder.iter().any(|name| name == "tests") {
        true => folder,
        false => krate,
    };
    for entry in fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
        let name = name.to_str().expect("UTF-8");
        if entry.file_type().expect("a kind").is_dir() {
            if !name.starts_with('.') && name != "target" {
                count(root, &path, krate, counts);
            }
        } else if name.ends_with(".rs") {
            let mut inner = path.strip_prefix(krate).expect("below its crate").iter();
            let is_source = inner
                .next()
                .is_some_and(|first| first == "src" || first == "build.rs");
            let is_tests = name.ends_with("tests.rs") || inner.any(|name| name == "tests");
            let (src, tests) = split(&fs::read_to_string(root.join(&path)).expect("text"));
            let krate = krate
                .to_str()
                .filter(|krate| !krate.is_empty())
                .unwrap_or(".");
            let lines = counts.entry(krate.to_owned()).or_default();
            match is_source && !is_tests {
                true => (lines.src, lines.tests) = (lines.src + src, lines.tests + tests),
                false => lines.tests += src + tests,
            }
        }
    }
}

fn parse(table: &str) -> BTreeMap<String, Budget> {
    let table: toml::Table = table.parse().expect("TOML");
    let budget = |(krate, row): (String, toml::Value)| {
        let number = |name: &str| row[name].as_integer().expect("a number") as usize;
        let lines = Lines {
            src: number("src"),
            tests: number("tests"),
        };
        let why = row["why"].as_str().expect("a string").to_owned();
        (krate, Budget { lines, why })
    };
    table.into_iter().map(budget).collect()
}

fn write(budgets: &BTreeMap<String, Budget>) -> String {
    let mut table = HEAD.to_owned();
    for (krate, Budget { lines, why }) in budgets {
        let (krate, why) = (format!("{krate:?}"), toml::Value::from(why.as_str()));
        let Lines { src, tests } = lines;
        writeln!(
            table,
            "{krate:22} = {{ src = {src}, tests = {tests}, why = {why} }}"
        )
        .unwrap();
    }
    table
}

/// Returns the table for these counts. A number that rises takes its reason away.
fn bless(
    counts: &BTreeMap<String, Lines>,
    old: &BTreeMap<String, Budget>,
) -> BTreeMap<String, Budget> {
    let budget = |(krate, lines): (&String, &Lines)| {
        let old = old.get(krate);
        let fits =
            old.is_some_and(|old| old.lines.src >= lines.src && old.lines.tests >= lines.tests);
        let room = lines.with_room();
        let lines = match old {
            Some(old) if fits => Lines {
                src: room.src.min(old.lines.src),
                tests: room.tests.min(old.lines.tests),
            },
            _ => room,
        };
        let why = old
            .filter(|_| fits)
            .map(|old| old.why.clone())
            .unwrap_or_default();
        (krate.clone(), Budget { lines, why })
    };
    counts.iter().map(budget).collect()
}

/// Returns a sentence for everything that does not go with the table.
fn problems(counts: &BTreeMap<String, Lines>, budgets: &BTreeMap<String, Budget>) -> Vec<String> {
    let mut problems = Vec::new();
    for (krate, lines) in counts {
        let Some(Budget {
            lines: allowed,
            why,
        }) = budgets.get(krate)
        else {
            problems.push(format!("{krate} has no row: run this test with BLESS=1"));
            continue;
        };
        for (what, has, may) in [
            ("src", lines.src, allowed.src),
            ("tests", lines.tests, allowed.tests),
        ] {
            if has > may {
                problems.push(format!(
                    "{krate}: `{what}` has {has} lines, and {may} are allowed. Say a thing once, or raise the number: run \
                     this test with BLESS=1 and write the reason in the column `why`"
                ));
            }
        }
        if why.trim().is_empty() {
            problems.push(format!(
                "{krate}: write in the column `why` why it has grown"
            ));
        }
    }
    let gone = budgets.keys().filter(|krate| !counts.contains_key(*krate));
    problems.extend(gone.map(|krate| format!("{krate} is gone: run this test with BLESS=1")));
    problems
}

#[test]
fn no_crate_grows_without_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut counts = BTreeMap::new();
    count(root, Path::new(""), Path::new(""), &mut counts);
    let path = root.join(TABLE);
    let mut budgets = parse(&fs::read_to_string(&path).unwrap_or_default());
    if std::env::var_os("BLESS").is_some() {
        budgets = bless(&counts, &budgets);
        fs::write(&path, write(&budgets)).expect("the table can be written");
    }
    println!("{:24}{:>8}{:>8}", "crate", "src", "tests");
    for (krate, Lines { src, tests }) in &counts {
        println!("{krate:24}{src:8}{tests:8}");
    }
    let (src, tests) = counts.values().fold((0, 0), |(src, tests), lines| {
        (src + lines.src, tests + lines.tests)
    });
    println!("{:24}{src:8}{tests:8}", "all");
    let problems = problems(&counts, &budgets);
    assert!(problems.is_empty(), "{TABLE}:\n{}", problems.join("\n"));
}

#[test]
fn a_rise_needs_a_reason() {
    let counts = |src, tests| BTreeMap::from([("a".to_owned(), Lines { src, tests })]);
    let table = "\"a\" = { src = 100, tests = 50, why = 'first' }\n";
    let budgets = parse(table);
    assert!(problems(&counts(100, 50), &budgets).is_empty());
    assert_eq!(problems(&counts(101, 51), &budgets).len(), 2);
    assert_eq!(
        problems(&BTreeMap::new(), &budgets),
        ["a is gone: run this test with BLESS=1"]
    );
    assert_eq!(problems(&counts(1, 1), &BTreeMap::new()).len(), 1);
    // Blessing keeps the reason if the lines fit, and never raises such a number. A rise needs a new reason.
    assert_eq!(bless(&counts(90, 50), &budgets), budgets);
    let less = bless(&counts(10, 10), &budgets);
    assert_eq!(
        (less["a"].lines, &*less["a"].why),
        (Lines { src: 50, tests: 50 }, "first")
    );
    let more = bless(&counts(120, 10), &budgets);
    assert_eq!(
        more["a"].lines,
        Lines {
            src: 150,
            tests: 50
        }
    );
    assert_eq!(
        problems(&counts(120, 10), &more),
        ["a: write in the column `why` why it has grown"]
    );
    assert_eq!(parse(&write(&more)), more);
}

#[test]
fn tests_at_the_end_of_a_file_are_no_source() {
    assert_eq!(split("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), (2, 3));
    assert_eq!(split("fn a() {}\n#[cfg(test)]\nmod tests;\n"), (3, 0));
}
