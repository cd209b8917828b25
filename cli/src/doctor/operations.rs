//! Burn's operations on an NPU, with the place where each runs.

use kernels_io::{Page, Table};
use serde_json::{Value, json};

/// The operations, in the order of Burn's traits.
pub struct Operations(Vec<Line>);

#[cfg_attr(
    not(feature = "npu"),
    allow(dead_code, reason = "only NPUs have such a table")
)]
struct Line {
    family: &'static str,
    name: &'static str,
    path: String,
}

/// The values of the last column with their meanings.
const PATHS: [(&str, &str); 5] = [
    (
        "native",
        "on the NPU; operands that its operator refuses, such as f64, go to the host",
    ),
    ("composed", "a sequence of other operations"),
    ("view", "no computation: other strides of the same memory"),
    ("data", "a copy between host and NPU, as requested"),
    (
        "host",
        "on the processor, with copies both ways; an error with BURN_CANN_FALLBACK=deny",
    ),
];

/// Returns the backend's own list.
#[cfg(feature = "npu")]
pub fn list() -> anyhow::Result<Operations> {
    let lines = burn_cann::backend::ops().map(|operation| Line {
        family: operation.family(),
        name: operation.name(),
        path: operation.path().to_string(),
    });
    Ok(Operations(lines.collect()))
}

/// Returns an error, because this build has no NPU backend.
#[cfg(not(feature = "npu"))]
pub fn list() -> anyhow::Result<Operations> {
    Err(crate::feature::Missing {
        what: "kernels doctor --ops",
        features: "`--features npu`",
    }
    .into())
}

impl Operations {
    /// Returns the operations as JSON.
    pub fn json(&self) -> Value {
        let lines = self
            .0
            .iter()
            .map(|line| json!({ "family": line.family, "name": line.name, "path": line.path }));
        lines.collect()
    }

    /// Adds the operations, and the meaning of each path, to a page.
    pub fn show(&self, page: &mut Page) {
        let mut table = Table::new(["family", "operation", "where"]);
        for line in &self.0 {
            table.row([line.family, line.name, &line.path]);
        }
        page.table(&table);
        page.line("");
        for (path, meaning) in PATHS {
            let count = self.0.iter().filter(|line| line.path == path).count();
            page.line(format_args!("{count:>4} {path:<9} {meaning}"));
        }
    }
}
