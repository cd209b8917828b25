//! Checks the rooms of `kernels-runtime` and `kernels-models`, from the ground up: a file may use only files of its own room
//! and of rooms below.
//!
//! The file that defines a name counts. Methods are not seen: a type may have some in a room above its own, such as
//! `Architecture::family`, which code below that room must not call.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// A crate whose files have rooms.
struct Crate {
    src: &'static str,
    /// Each room with its modules; `*` stands for the path of an operation's folder. The longest match decides.
    rooms: &'static [(&'static str, &'static [&'static str])],
    /// `true` if a module may re-export (`pub use`) names of a room above without depending on it.
    may_show_above: bool,
}

const MODELS: Crate = Crate {
    src: "models/src",
    rooms: &[
        ("error", &["error"]),
        ("nearest", &["nearest"]),
        ("preference", &["preference"]),
        ("semantics", &["semantics"]),
        ("vision", &["vision"]),
        ("config", &["config"]),
        ("layers", &["layers"]),
        ("families", &["families"]),
        ("model", &["model"]),
        ("parameters", &["parameters"]),
        ("checkpoint", &["checkpoint"]),
        ("adapters", &["adapters"]),
        ("generation", &["generation"]),
    ],
    may_show_above: false,
};

/// The macro `operations!` is on the ground, so that code that expands the list of operations names them all without imports.
const RUNTIME: Crate = Crate {
    src: "kernels-runtime/src",
    may_show_above: true,
    rooms: &[
        (
            "words",
            &["call_once", "near", "scope_guard", "warning", "ops::list"],
        ),
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
                "kernel::any_rank",
                "kernel::erased",
                "__private::operands",
                "__private::linear",
                "low_rank",
                "quantized_experts",
            ],
        ),
        (
            "policy",
            &["policy", "mapping", "tune::choice", "tune::file"],
        ),
        (
            "context",
            &["context", "policy::scope", "policy::idle", "mapping::scope"],
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
            &[
                "ops::operands",
                "ops::define",
                "ops::recording",
                "ops::joined",
                "ops::fused",
            ],
        ),
        ("remote", &["remote"]),
        ("npu", &["npu"]),
        ("gpu", &["gpu"]),
        ("operations", &["ops"]),
        ("budgets", &["verify::budget", "verify::data"]),
        ("live", &["live"]),
        (
            "sites",
            &["kernel", "packages", "ops::*::live", "ops::*::site"],
        ),
        ("served", &["ops::*::remote"]),
        ("verify", &["verify", "ops::*::cases"]),
        (
            "door",
            &[
                "__private",
                "__serving",
                "error_text",
                "apply",
                "attention",
                "report",
                "measurement",
                "memory",
                "threads",
                "remote::fuzz",
            ],
        ),
    ],
};

/// Returns how well a pattern of [`Crate::rooms`] fits a module, or `None` if it does not fit.
fn fit(pattern: &str, module: &[String]) -> Option<usize> {
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
}

/// Returns the index of a module's room.
fn room(krate: &Crate, module: &[String]) -> usize {
    let rooms = krate
        .rooms
        .iter()
        .enumerate()
        .flat_map(|(place, (_, modules))| {
            let fits = modules.iter().filter_map(|pattern| fit(pattern, module));
            fits.map(move |fit| (fit, place))
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
    /// The paths that it re-exports.
    shown: Vec<Vec<String>>,
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
        match is_shown {
            true => self.shown.push(absolute),
            false => self.uses.push(absolute),
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

fn parse(module: &[String], text: &str) -> File {
    let mut file = File {
        module: module.to_vec(),
        ..File::default()
    };
    file.visit_file(&syn::parse_file(text).unwrap());
    file
}

type Files = BTreeMap<Vec<String>, File>;

fn read(folder: &Path, module: &[String], files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let inner = match name.as_str() {
            "mod" | "lib" => module.to_vec(),
            "private" if module.is_empty() => vec!["__private".to_owned()],
            "serving" if module.is_empty() => vec!["__serving".to_owned()],
            _ => [module, std::slice::from_ref(&name)].concat(),
        };
        if path.is_dir() {
            read(&path, &inner, files);
        } else if name != "tests" {
            let file = parse(&inner, &fs::read_to_string(&path).unwrap());
            files.insert(inner, file);
        }
    }
}

impl Crate {
    fn files(&self) -> Files {
        let mut files = Files::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        read(&root.join(self.src), &[], &mut files);
        files
    }

    /// Returns each use of a room above, and the number of all uses.
    fn upward(&self) -> (Vec<String>, usize) {
        let files = self.files();
        let (mut upward, mut seen) = (Vec::new(), 0);
        // The root of the crate shows all rooms.
        for (module, file) in files.iter().filter(|(module, _)| !module.is_empty()) {
            let place = room(self, module);
            let shown = file.shown.iter().filter(|_| !self.may_show_above);
            for path in file.uses.iter().chain(shown) {
                let used = definition(&files, path, 0).filter(|used| !used.is_empty());
                let Some(used) = used else {
                    continue;
                };
                seen += 1;
                let other = room(self, &used);
                if other > place {
                    let (here, there) = (self.rooms[place].0, self.rooms[other].0);
                    let (module, path, used) =
                        (module.join("::"), path.join("::"), used.join("::"));
                    upward.push(format!("{module} ({here}) uses {path} of {used} ({there})"));
                }
            }
        }
        upward.sort();
        upward.dedup();
        (upward, seen)
    }
}

/// Returns the module that defines what a path names.
fn definition(files: &Files, path: &[String], depth: usize) -> Option<Vec<String>> {
    let length = (0..=path.len())
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
    for (krate, least) in [(RUNTIME, 1000), (MODELS, 400)] {
        let (upward, seen) = krate.upward();
        assert!(upward.is_empty(), "{}", upward.join("\n"));
        assert!(seen > least, "only {seen} uses were found in {}", krate.src);
    }
}

#[test]
fn every_room_has_files() {
    for krate in [RUNTIME, MODELS] {
        let files = krate.files();
        for pattern in krate.rooms.iter().flat_map(|(_, patterns)| *patterns) {
            let has_file = files.keys().any(|module| fit(pattern, module).is_some());
            assert!(has_file, "no file of {} is in `{pattern}`", krate.src);
        }
    }
}

fn names(path: &str) -> Vec<String> {
    path.split("::").map(str::to_owned).collect()
}

#[test]
fn a_name_is_found_where_it_is_defined() {
    let (runtime, models) = (RUNTIME.files(), MODELS.files());
    let found = |files: &Files, path| definition(files, &names(path), 0).unwrap().join("::");
    assert_eq!(found(&runtime, "registry::Site"), "dispatch::site");
    assert_eq!(found(&runtime, "policy::scope"), "policy::scope");
    assert_eq!(found(&runtime, "dispatch::Mode"), "mode");
    assert_eq!(
        found(&runtime, "ops::rms_norm::Operands"),
        "ops::rms_norm::operands"
    );
    assert_eq!(found(&models, "ModelError"), "error");
}

#[test]
fn uses_are_found_wherever_they_stand() {
    let text = "
        use super::super::rope as turned;
        pub(crate) use crate::config::{self, ModelConfig};
        pub(in crate::checkpoint) fn f() { crate::model::run(); }
        mod inner { use super::g; }
        #[cfg(test)]
        mod tests { use crate::adapters::X; }
    ";
    let file = parse(&names("layers::gemma3n::streams"), text);
    let joined = |paths: &[Vec<String>]| -> Vec<String> {
        paths.iter().map(|path| path.join("::")).collect()
    };
    let used = ["layers::rope", "model::run", "layers::gemma3n::streams::g"];
    assert_eq!(joined(&file.uses), used);
    assert_eq!(joined(&file.shown), ["config", "config::ModelConfig"]);
}
