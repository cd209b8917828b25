//! Reads our own declarations and those of other headers alike.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::compare::Declarations;
use super::generate::{AREAS, builder, include};

/// The arguments with which headers are read. CANN's own are C++, although they declare C functions.
pub const CXX: [&str; 3] = ["-xc++", "-std=c++17", "--target=x86_64-unknown-linux-gnu"];

/// Returns our declarations.
pub fn ours() -> (Declarations, BTreeSet<String>) {
    let text: String = AREAS
        .iter()
        .map(|area| format!("#include \"cann/{}.h\"\n", area.name))
        .collect();
    let bindings = builder()
        .header_contents("ours.h", &text)
        .clang_args(["-xc", "-std=c11", "--target=x86_64-unknown-linux-gnu"])
        .clang_arg(format!("-I{}", include().display()))
        .allowlist_file(".*/cann/.*")
        .generate()
        .expect("our headers are C")
        .to_string();
    let names = type_names(&bindings);
    (Declarations::read(&bindings, &names), names)
}

/// Returns the declarations of a foreign header and of the headers that it includes.
///
/// # Errors
///
/// Returns an error if the header can't be read by itself.
pub fn foreign(
    header: &Path,
    folders: &[PathBuf],
    names: &BTreeSet<String>,
) -> Result<Declarations, String> {
    let bindings = builder()
        .header(header.to_str().ok_or("the path is not text")?)
        .clang_args(CXX)
        // Some headers leave this include to the file that includes them.
        .clang_args(["-include", "stdint.h"])
        .clang_args(
            folders
                .iter()
                .map(|folder| format!("-I{}", folder.display())),
        )
        .allowlist_function("(acl|Acl|Hccl).*")
        .allowlist_type("(acl|Acl|Hccl).*")
        .allowlist_var("(ACL|HCCL).*")
        .generate()
        .map_err(|error| error.to_string())?;
    Ok(Declarations::read(&bindings.to_string(), names))
}

fn type_names(bindings: &str) -> BTreeSet<String> {
    let file = syn::parse_file(bindings).expect("bindgen writes Rust");
    let names = file.items.iter().filter_map(|item| match item {
        syn::Item::Type(alias) => Some(alias.ident.to_string()),
        syn::Item::Struct(record) => Some(record.ident.to_string()),
        syn::Item::Union(record) => Some(record.ident.to_string()),
        _ => None,
    });
    names.collect()
}
