//! The documentation leads where it says: links, the book's table of contents, the README's dependencies, and the
//! messages that the troubleshooting page explains.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages by their paths from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut paths: Vec<PathBuf> = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "kernels-macros/kernels.md",
        "benches/results/README.md",
    ]
    .map(PathBuf::from)
    .to_vec();
    let book = fs::read_dir(root().join("docs")).expect("docs is there");
    let book = book.map(|entry| entry.expect("an entry").path());
    let book = book.filter(|path| path.extension().is_some_and(|end| end == "md"));
    paths.extend(book.map(|path| path.strip_prefix(root()).expect("below").to_owned()));
    paths
        .into_iter()
        .map(|path| (path.clone(), read(path)))
        .collect()
}

fn events(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

fn links(text: &str) -> Vec<String> {
    events(text)
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. }) => Some(dest_url.to_string()),
            _ => None,
        })
        .collect()
}

/// The anchors that GitHub and mdBook give a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut heading) = (BTreeSet::new(), None::<String>);
    for event in events(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let heading = heading.take().expect("it began").to_lowercase();
                let kept = heading.chars().filter_map(|c| match c {
                    ' ' => Some('-'),
                    c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                    _ => None,
                });
                anchors.insert(kept.collect());
            }
            _ => {}
        }
    }
    anchors
}

/// The path from the root that a link on a page means.
fn target(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().expect("a file has a folder").to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    path
}

/// The links of the pages that lead nowhere. `exists` says of other paths whether they are there.
fn broken(pages: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut broken = Vec::new();
    for (page, text) in pages {
        for link in links(text) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = match path {
                "" => page.clone(),
                path => target(page, path),
            };
            let leads = match pages.get(&path) {
                Some(text) => anchor.is_empty() || anchors(text).contains(anchor),
                None => anchor.is_empty() && exists(&path),
            };
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    broken
}

#[test]
fn every_link_leads_somewhere() {
    let broken = broken(&pages(), |path| root().join(path).exists());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let page = |text: &str| BTreeMap::from([(PathBuf::from("docs/a.md"), text.to_owned())]);
    let none = |_: &Path| false;
    assert_eq!(
        broken(&page("[x](b.md)"), none),
        ["docs/a.md: b.md".to_owned()]
    );
    assert!(broken(&page("[x](../b.rs)"), |path| path == Path::new("b.rs")).is_empty());
    let heading = "# What `it` is, in full\n\n";
    assert!(
        broken(
            &page(&format!("{heading}[x](a.md#what-it-is-in-full)")),
            none
        )
        .is_empty()
    );
    assert_eq!(
        broken(&page(&format!("{heading}[x](#what-it-was)")), none).len(),
        1
    );
    assert!(broken(&page("```\n[x](b.md)\n```"), none).is_empty());
}

#[test]
fn the_book_has_every_page() {
    let listed: BTreeSet<PathBuf> = links(&read("docs/SUMMARY.md"))
        .iter()
        .map(|link| target(Path::new("docs/SUMMARY.md"), link))
        .collect();
    let mut pages: BTreeSet<PathBuf> = pages()
        .into_keys()
        .filter(|page| page.starts_with("docs"))
        .collect();
    assert!(pages.remove(Path::new("docs/SUMMARY.md")));
    assert_eq!(listed, pages);
}

/// The text of the first code block of a language.
fn block(text: &str, language: &str) -> String {
    let mut inside = false;
    let mut code = String::new();
    for event in events(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                inside = code.is_empty() && info.as_ref() == language;
            }
            Event::End(TagEnd::CodeBlock) => inside = false,
            Event::Text(text) if inside => code.push_str(&text),
            _ => {}
        }
    }
    assert!(!code.is_empty(), "no block of {language}");
    code
}

/// The crate of one's own is built with what the README says, at the version that this workspace has.
#[test]
fn the_own_crate_has_the_dependencies_of_the_readme() {
    let table = |text: &str| text.parse::<toml::Table>().expect("TOML")["dependencies"].clone();
    let said = table(&block(&read("README.md"), "toml"));
    let built = table(&read("examples/own-crate/Cargo.toml"));
    assert_eq!(said["burn"], built["burn"]);
    assert_eq!(
        said["burn-kernels"]["features"],
        built["burn-kernels"]["features"]
    );
    let names = |table: &toml::Value| -> Vec<String> {
        table.as_table().expect("a table").keys().cloned().collect()
    };
    assert_eq!(names(&said), names(&built));
    let workspace = read("Cargo.toml").parse::<toml::Table>().expect("TOML");
    let burn = &workspace["workspace"]["dependencies"]["burn"];
    assert_eq!(said["burn"]["version"], burn["version"]);
}

/// A kernel of another crate can't be named in a doc test of this one, so the page quotes a file that is compiled.
#[test]
fn quoted_code_is_that_of_the_example() {
    let example = read("examples/third-party/tests/soft_cap.rs");
    let quoted = block(&read("docs/write-a-kernel.md"), "rust,ignore");
    assert!(example.contains(&quoted), "{quoted}");
}

/// Sources and expected messages, with the line breaks of string literals undone.
fn corpus(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            corpus(&path, into);
        } else if path
            .extension()
            .is_some_and(|end| end == "rs" || end == "stderr")
        {
            let text = fs::read_to_string(&path).expect("text");
            let mut lines = text.split("\\\n");
            into.push_str(lines.next().unwrap_or_default());
            lines.for_each(|line| into.push_str(line.trim_start()));
        }
    }
}

/// The messages that a page explains: bold lines, in parts between `…` and colons, where a source may put them together.
fn explained(text: &str) -> Vec<String> {
    let (mut bold, mut messages) = (false, Vec::new());
    for event in events(text) {
        match event {
            Event::Start(Tag::Strong) => bold = true,
            Event::End(TagEnd::Strong) => bold = false,
            Event::Code(code) if bold => {
                let parts = code.split('…').flat_map(|part| part.split(": "));
                let parts = parts.map(|part| part.trim_matches([' ', ':']));
                messages.extend(parts.filter(|part| part.len() > 4).map(str::to_owned));
            }
            _ => {}
        }
    }
    messages
}

#[test]
fn explained_messages_are_messages() {
    let mut known = String::new();
    for folder in [
        "kernels-macros/src",
        "kernels-runtime/src",
        "kernels-serving/src",
        "models/src",
        "cli/src",
        "tests/ui/fail",
    ] {
        corpus(&root().join(folder), &mut known);
    }
    let messages = explained(&read("docs/troubleshooting.md"));
    assert!(messages.len() > 15, "{messages:?}");
    let unknown: Vec<_> = messages
        .iter()
        .filter(|message| !known.contains(message.as_str()))
        .collect();
    assert!(unknown.is_empty(), "nothing says {unknown:?}");
}
