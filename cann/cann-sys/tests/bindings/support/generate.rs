//! Makes `src/bindings/<area>.rs` from `include/cann/<area>.h`.
//!
//! `bindgen` makes types, constants and prototypes. Each prototype becomes an alias of a function pointer, and the
//! names of all prototypes become a table, which is resolved at run time.

use std::path::{Path, PathBuf};

use bindgen::EnumVariation;
use syn::{ForeignItem, Item, ItemForeignMod};

/// An area: its header and module, and the name of its table, if it has functions.
pub struct Area {
    pub name: &'static str,
    pub table: Option<&'static str>,
    /// The areas whose types it uses.
    pub uses: &'static [&'static str],
}

const fn operators(name: &'static str, table: &'static str) -> Area {
    Area {
        name,
        table: Some(table),
        uses: &["types"],
    }
}

pub const AREAS: &[Area] = &[
    Area {
        name: "types",
        table: None,
        uses: &[],
    },
    Area {
        name: "errors",
        table: None,
        uses: &["types"],
    },
    operators("runtime", "Runtime"),
    operators("meta", "Meta"),
    operators("norm", "Norm"),
    operators("activation", "Activation"),
    operators("rotary", "Rotary"),
    operators("matmul", "Matmul"),
    operators("grouped_matmul", "GroupedMatmul"),
    operators("moe", "Moe"),
    operators("attention", "Attention"),
    operators("training", "Training"),
    operators("elementwise", "Elementwise"),
    operators("reduce", "Reduce"),
    operators("index", "Index"),
    operators("shape", "Shape"),
    operators("create", "Create"),
    // Prototypes without a table: this crate doesn't open the compiler, which is large, nor the libraries of kernels as
    // binaries and of the profiler, which it does not need.
    Area {
        name: "compile",
        table: None,
        uses: &["types", "runtime"],
    },
    Area {
        name: "kernel",
        table: None,
        uses: &["types"],
    },
    Area {
        name: "profiling",
        table: None,
        uses: &["types"],
    },
    Area {
        name: "hccl",
        table: Some("Hccl"),
        uses: &["types", "runtime"],
    },
];

pub fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

pub fn committed(area: &Area) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/bindings/{}.rs", area.name))
}

/// Returns the settings with which our headers and a toolkit's are read.
pub fn builder() -> bindgen::Builder {
    bindgen::builder()
        .default_enum_style(EnumVariation::NewType {
            is_bitfield: false,
            is_global: true,
        })
        .generate_comments(false)
        .prepend_enum_name(false)
        .layout_tests(false)
        .merge_extern_blocks(true)
        .disable_header_comment()
        .formatter(bindgen::Formatter::None)
}

/// Returns the text of an area's module.
pub fn module(area: &Area) -> String {
    let header = include().join(format!("cann/{}.h", area.name));
    let bindings = builder()
        .header(header.to_str().expect("the path is text"))
        .clang_args(["-std=c11", "-I"])
        .clang_arg(include().to_str().expect("the path is text"))
        .allowlist_file(format!(".*/cann/{}\\.h", area.name))
        .allowlist_recursively(false)
        .layout_tests(true)
        // All 64-bit targets have the same layout.
        .clang_arg("--target=x86_64-unknown-linux-gnu")
        .generate()
        .expect("the headers are C");
    let mut file = syn::parse_file(&bindings.to_string()).expect("bindgen writes Rust");
    let functions = aliases_for_functions(&mut file);
    let mut text = format!(
        "// Made from include/cann/{}.h by tests/bindings/bindings.rs. Don't edit: run\n\
         // UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings\n\n",
        area.name
    );
    for used in area.uses {
        text += &format!("pub use super::{used}::*;\n");
    }
    text += "\n";
    text += &prettyplease::unparse(&file);
    if let Some(table) = area.table {
        text += &format!(
            "\ncrate::table::function_table! {{\n    /// The functions of `include/cann/{0}.h`.\n    \
             {table} {{\n",
            area.name
        );
        for function in &functions {
            text += &format!("        {function},\n");
        }
        text += "    }\n}\n";
    }
    text
}

/// Replaces the prototypes of `file` by aliases and returns their names, in order.
fn aliases_for_functions(file: &mut syn::File) -> Vec<String> {
    let mut names = Vec::new();
    let items = std::mem::take(&mut file.items);
    for item in items {
        match item {
            Item::ForeignMod(block) => file.items.extend(aliases(&block, &mut names)),
            other => file.items.push(other),
        }
    }
    names
}

fn aliases(block: &ItemForeignMod, names: &mut Vec<String>) -> Vec<Item> {
    let mut made = Vec::new();
    for item in &block.items {
        let ForeignItem::Fn(function) = item else {
            panic!("only functions are external")
        };
        let (name, inputs, output) = (
            &function.sig.ident,
            &function.sig.inputs,
            &function.sig.output,
        );
        names.push(name.to_string());
        made.push(syn::parse_quote!(pub type #name = unsafe extern "C" fn(#inputs) #output;));
    }
    made
}
