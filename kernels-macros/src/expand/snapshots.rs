//! Whole expansions, one file per form under `snapshots/`, formatted as Rust.
//!
//! `BLESS=1 cargo test -p kernels-macros snapshots` writes them anew; read what changed.

mod block;
mod function;
mod structure;

use std::path::Path;

use proc_macro2::TokenStream;
use quote::quote;
use similar::TextDiff;

use crate::testing::origin;

#[track_caller]
fn check(name: &str, attribute: TokenStream, item: TokenStream) {
    compare(name, &crate::run(attribute, item, &origin()));
}

/// Compares an expansion with the committed file. A method is put into a block, as a file can hold only items.
#[track_caller]
fn compare(name: &str, expansion: &TokenStream) {
    let parsed = syn::parse2(expansion.clone())
        .or_else(|_| syn::parse2(quote!(impl AroundTheMethod { #expansion })));
    let written = prettyplease::unparse(&parsed.expect("the expansion is Rust"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("snapshots/{name}.rs"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, written).expect("the snapshot can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == written,
        "the expansion is not that of snapshots/{name}.rs (-); BLESS=1 writes it anew\n{}",
        TextDiff::from_lines(&expected, &written).unified_diff()
    );
}
