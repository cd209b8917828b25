//! The functions of a package, and the operations that they are bound to.

use crate::inspect::key_text;
use burn_kernels::packages::Package;
use burn_kernels::packages::binding::Binding;
use burn_kernels::semantics::SemanticsKey;
use kernels_io::{Cell, Table, Tone};
use serde_json::{Value, json};

/// Returns the bindings as JSON. Each has the field `known`: whether this release has the operation with these
/// settings.
pub(super) fn as_json(package: &Package) -> Vec<Value> {
    let bindings = package.bindings().iter().map(|binding| {
        let key = key(binding);
        json!({
            "symbol": binding.forward.symbol,
            "known": SemanticsKey::from_json(&key).is_some(),
            "semantics": key,
            "dtypes": binding.dtypes,
            "backward": backward(binding),
        })
    });
    bindings.collect()
}

/// Returns a row for each binding, and one for each function without one.
pub(super) fn table(package: &Package) -> Table<4> {
    let mut table = Table::new(["function", "computes", "dtypes", "gradient"]);
    let mut bound = Vec::new();
    for binding in package.bindings() {
        let key = key(binding);
        let text = key_text(&key);
        let computes = match SemanticsKey::from_json(&key) {
            Some(_) => Cell::from(text),
            None => Cell::new(Tone::Caution, format!("{text}: not known to this release")),
        };
        table.row([
            (&binding.forward.symbol).into(),
            computes,
            binding.dtypes.join(" ").into(),
            backward(binding).into(),
        ]);
        bound.push(&binding.forward.symbol);
    }
    for function in package.functions() {
        if !bound.contains(&&function) {
            table.row([function.into(), "-".into(), "-".into(), Cell::from("-")]);
        }
    }
    table
}

/// Returns the semantics key in JSON.
fn key(binding: &Binding) -> Value {
    // The package was read, so it is JSON.
    serde_json::from_str(&binding.semantics).unwrap_or_default()
}

/// Returns the function of the gradients, or `reference`.
fn backward(binding: &Binding) -> &str {
    let backward = binding.backward.as_ref();
    backward.map_or("reference", |call| &call.symbol)
}
