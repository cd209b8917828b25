//! Burn's operations on an NPU, and where each runs.

use crate::table::Table;
use serde_json::{Value, json};
use std::fmt;

/// The operations, in the order of Burn's traits.
pub struct Operations(Vec<Line>);

#[cfg_attr(not(feature = "npu"), allow(dead_code, reason = "there are none"))]
struct Line {
    family: &'static str,
    name: &'static str,
    path: String,
}

/// What the words of the last column mean.
const PATHS: [(&str, &str); 5] = [
    (
        "native",
        "on the NPU; operands that its operator refuses, f64 say, go to the host",
    ),
    ("composed", "a sequence of other operations"),
    (
        "view",
        "nothing is computed: other strides of the same memory",
    ),
    (
        "data",
        "a copy between host and NPU, which is what was asked for",
    ),
    (
        "host",
        "on the processor, with copies both ways; an error with BURN_CANN_FALLBACK=deny",
    ),
];

/// The list of the backend itself.
#[cfg(feature = "npu")]
pub fn list() -> anyhow::Result<Operations> {
    let lines = burn_cann::backend::ops().map(|operation| Line {
        family: operation.family(),
        name: operation.name(),
        path: operation.path().to_string(),
    });
    Ok(Operations(lines.collect()))
}

/// There is no backend to ask.
#[cfg(not(feature = "npu"))]
pub fn list() -> anyhow::Result<Operations> {
    anyhow::bail!("--ops lists operations on an NPU: build the program with `--features npu`")
}

impl Operations {
    /// For programs.
    pub fn json(&self) -> Value {
        let lines = self
            .0
            .iter()
            .map(|line| json!({ "family": line.family, "name": line.name, "path": line.path }));
        lines.collect()
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["family", "operation", "where"]);
        for line in &self.0 {
            table.row([
                line.family.to_owned(),
                line.name.to_owned(),
                line.path.clone(),
            ]);
        }
        writeln!(f, "{table}")?;
        for (path, meaning) in PATHS {
            let count = self.0.iter().filter(|line| line.path == path).count();
            write!(f, "\n{count:>4} {path:<9} {meaning}")?;
        }
        Ok(())
    }
}
