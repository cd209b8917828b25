//! Checks the rooms of the crate, from the ground up: a file may use only files of its own room and of rooms below.
//!
//! The file that defines a name counts. A module may re-export (`pub use`) names of a room above without depending on
//! it. The macro `operations!` is on the ground, so that code that expands the list of operations names them all
//! without imports.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// Each room with its modules; `*` stands for the path of an operation's folder. The longest match decides.
const ROOMS: &[(&str, &[&str])] = &[
    ("words", &["once", "near", "guard", "warning", "ops::list"]),
    ("devices", &["reason", "mode", "device"]),
    ("keys", &["semantics", "ops::*::key"]),
    ("registry", &["registry"]),
    (
        "contract",
        &[
            "kernel::operands",
            "kernel::rounding",
            "kernel::rows",
            "kernel::collect",
            "__private::operands",
            "__private::linear",
            "low_rank",
        ],
    ),
    (
        "policy",
        &["policy", "mapping", "tune::choice", "tune::file"],
    ),
    (
        "active",
        &["active", "policy::scope", "policy::idle", "mapping::scope"],
    ),
    (
        "turns",
        &[
            "live::sampling",
            "live::checks",
            "bisection",
            "__private::first_use",
        ],
    ),
    ("dispatch", &["dispatch", "mapping::kernelize", "tune"]),
    ("cpu", &["cpu"]),
    (
        "operands",
        &["ops::operands", "ops::define", "ops::recording"],
    ),
    ("remote", &["remote"]),
    ("npu", &["npu"]),
    ("gpu", &["gpu"]),
    ("operations", &["ops"]),
    ("budgets", &["verify::budget", "verify::data"]),
    ("live", &["live"]),
    ("sites", &["kernel", "ops::*::live", "ops::*::site"]),
    (
        "served",
        &[
            "npu::deterministic",
            "npu::device",
            "npu::host",
            "ops::*::remote",
        ],
    ),
    ("verify", &["verify", "ops::*::cases"]),
    (
        "door",
        &[
            "__private",
            "error_text",
            "apply",
            "report",
            "measurement",
            "memory",
            "threads",
            "remote::fuzz",
            "lib",
        ],
    ),
];

/// Returns the index of a module's room in [`ROOMS`].
fn room(module: &[String]) -> usize {
    let matches = |pattern: &str| -> Option<usize> {
        let pattern: Vec<&str> = pattern.split("::").collect();
        match pattern[..] {
            // The role of an operation's file comes after the operation's name.
            [folder, "*", role] => {
                let [first, _, behind @ ..] = module else {
                    return None;
                };
                let found = first == folder && behind.iter().any(|name| name == role);
                found.then_some(usize::MAX)
            }
            _ => {
                let begins =
                    module.len() >= pattern.len() && pattern.iter().eq(&module[..pattern.len()]);
                begins.then_some(pattern.len())
            }
        }
    };
    let rooms = ROOMS.iter().enumerate().flat_map(|(place, (_, modules))| {
        let lengths = modules.iter().filter_map(|pattern| matches(pattern));
        lengths.map(move |length| (length, place))
    });
    let (_, place) = rooms
        .max()
        .unwrap_or_else(|| panic!("{module:?} is in no room"));
    place
}

/// A file of the crate.
#[derive(Default)]
struct File {
    module: Vec<String>,
    /// The names that it imports or re-exports, with their paths.
    names: HashMap<String, Vec<String>>,
    /// The paths that it uses.
    uses: Vec<Vec<String>>,
    /// The current module inside the file, from the outermost to the innermost.
    inside: Vec<String>,
}

impl File {
    /// Returns the path from the crate's root, or `None` for paths of other crates.
    fn absolute(&self, path: Vec<String>) -> Option<Vec<String>> {
        let here = || [&self.module[..], &self.inside].concat();
        let ups = path.iter().take_while(|name| *name == "super").count();
        match path[0].as_str() {
            "crate" => Some(path[1..].to_vec()),
            "super" => {
                let here = here();
                Some([&here[..here.len().checked_sub(ups)?], &path[ups..]].concat())
            }
            "self" => Some([&here()[..], &path[1..]].concat()),
            _ => None,
        }
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String], is_shown: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), is_shown),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_shown);
                }
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.leaf(before.to_vec(), None, is_shown)
            }
            syn::UseTree::Name(name) => self.leaf(with(&name.ident), None, is_shown),
            syn::UseTree::Rename(name) => {
                self.leaf(with(&name.ident), Some(name.rename.to_string()), is_shown);
            }
            syn::UseTree::Glob(_) => self.leaf(before.to_vec(), Some(String::new()), is_shown),
        }
    }

    fn leaf(&mut self, path: Vec<String>, name: Option<String>, is_shown: bool) {
        let name = name.unwrap_or_else(|| path[path.len() - 1].clone());
        // A path may begin with a module of this file.
        let own = || Some([&self.module[..], &path[..]].concat());
        let Some(absolute) = self.absolute(path.clone()).or_else(own) else {
            return;
        };
        self.names.insert(name, absolute.clone());
        if !is_shown {
            self.uses.push(absolute);
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let of = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let said = list.tokens.to_string();
            said == "test" || said.starts_with("all (test")
        }
        _ => false,
    };
    attributes.iter().any(of)
}

impl<'ast> Visit<'ast> for File {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Use(import) => {
                let is_shown = !matches!(import.vis, syn::Visibility::Inherited);
                self.import(&import.tree, &[], is_shown);
            }
            syn::Item::Mod(module) if is_for_tests(&module.attrs) => {}
            syn::Item::Mod(module) => {
                self.inside.push(module.ident.to_string());
                visit::visit_item_mod(self, module);
                self.inside.pop();
            }
            other => visit::visit_item(self, other),
        }
    }

    /// Ignores visibilities: they use nothing that they name.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|name| name.ident.to_string());
        self.uses.extend(self.absolute(names.collect()));
        visit::visit_path(self, path);
    }
}

type Files = BTreeMap<Vec<String>, File>;

fn read(folder: &Path, module: &[String], files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let inner = match name.as_str() {
            "mod" => module.to_vec(),
            "private" if module.is_empty() => vec!["__private".to_owned()],
            _ => [module, std::slice::from_ref(&name)].concat(),
        };
        if path.is_dir() {
            read(&path, &inner, files);
        } else if name != "tests" {
            let text = fs::read_to_string(&path).unwrap();
            let mut file = File {
                module: inner.clone(),
                ..File::default()
            };
            file.visit_file(&syn::parse_file(&text).unwrap());
            files.insert(inner, file);
        }
    }
}

/// Returns the module that defines what a path names.
fn definition(files: &Files, path: &[String], depth: usize) -> Option<Vec<String>> {
    let length = (1..=path.len())
        .rev()
        .find(|length| files.contains_key(&path[..*length]))?;
    let (module, rest) = path.split_at(length);
    let shown = rest.first().and_then(|name| files[module].names.get(name));
    match shown {
        Some(shown) if depth < 8 => {
            let further = [&shown[..], &rest[1..]].concat();
            definition(files, &further, depth + 1).or(Some(module.to_vec()))
        }
        _ => Some(module.to_vec()),
    }
}

#[test]
fn each_file_uses_its_own_room_and_those_below() {
    let mut files = Files::new();
    read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &[],
        &mut files,
    );
    let mut upward = Vec::new();
    let mut seen = 0;
    for (module, file) in &files {
        let place = room(module);
        for path in &file.uses {
            let Some(used) = definition(&files, path, 0) else {
                continue;
            };
            seen += 1;
            let other = room(&used);
            if other > place {
                let (here, there) = (ROOMS[place].0, ROOMS[other].0);
                upward.push(format!(
                    "{} ({here}) uses {} of {} ({there})",
                    module.join("::"),
                    path.join("::"),
                    used.join("::")
                ));
            }
        }
    }
    upward.sort();
    upward.dedup();
    assert!(upward.is_empty(), "{}", upward.join("\n"));
    assert!(seen > 1000, "only {seen} uses were found");
}

#[test]
fn a_name_is_found_where_it_is_defined() {
    let mut files = Files::new();
    read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &[],
        &mut files,
    );
    let found = |path: &str| {
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        definition(&files, &path, 0).unwrap().join("::")
    };
    assert_eq!(found("registry::Site"), "dispatch::site");
    assert_eq!(found("policy::scope"), "policy::scope");
    assert_eq!(found("dispatch::Mode"), "mode");
    assert_eq!(found("ops::rms_norm::Operands"), "ops::rms_norm::operands");
}
