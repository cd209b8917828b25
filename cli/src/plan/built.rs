//! Plans for the sites of a built program, from the records in its file.
//!
//! Plans use the kernels of `kernels`. Nothing is known about the limits of kernels that only the file has.

use crate::inspect::{implementations, records, sorted, text};
use anyhow::Context;
use burn::tensor::{DType, Device};
use burn_kernels::dispatch::{self, Mode, Plan, PlanRow, Reason};
use burn_kernels::registry::{self, KernelSpec, SiteSpec};
use kernels_io::{Cell, Page, Tone, escape_path};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A note on what a plan from records can't know.
const UNKNOWN: &str = "records contain neither a site's `when` nor the shapes and layouts that an implementation \
     refuses; the plan assumes that neither rules a kernel out. `burn_kernels::report` in the program shows what ran";

/// The sites and kernels in a built file.
pub struct Built {
    path: String,
    sites: Vec<SiteSpec>,
    kernels: BTreeMap<String, Value>,
    /// The sites that can't be planned, each with the reason.
    unread: Vec<String>,
}

/// A plan for the sites of a built file.
pub struct BuiltPlan {
    plan: Plan,
    path: String,
    /// The kernels that only the file has, each with its package.
    own: BTreeMap<String, String>,
}

impl Built {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error as [`records`] does.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let records = records(path)?;
        let (kernels, sites) = sorted(&records);
        let mut built = Self {
            path: escape_path(path),
            sites: Vec::new(),
            kernels: BTreeMap::new(),
            unread: Vec::new(),
        };
        for kernel in kernels {
            let id = text(kernel, "id");
            // If several kernels have this id, the one that replaces the others is used.
            if kernel["replaces"].is_string() || !built.kernels.contains_key(&id) {
                built.kernels.insert(id, kernel.clone());
            }
        }
        for site in sites {
            match SiteSpec::from_record(site) {
                Ok(spec) => built.sites.push(spec),
                Err(why) => {
                    let name = crate::inspect::site_name(site);
                    built.unread.push(format!("{name} is not planned: {why}"));
                }
            }
        }
        Ok(built)
    }

    /// Plans the sites with the kernels of this program.
    ///
    /// # Errors
    /// Returns an error if the policy is invalid.
    pub fn plan(&self, device: &Device, dtype: DType, mode: Mode) -> anyhow::Result<BuiltPlan> {
        let plan = dispatch::plan_sites(&self.sites, device, dtype, mode);
        let mut planned = BuiltPlan {
            plan: plan.with_context(|| format!("cannot plan {}", self.path))?,
            path: self.path.clone(),
            own: BTreeMap::new(),
        };
        let mut others = BTreeSet::new();
        for row in &mut planned.plan.sites {
            match (self.kernels.get(row.kernel), registry::kernel(row.kernel)) {
                (None, _) => not_run(row),
                (Some(theirs), Some(ours)) if text(theirs, "crate") == ours.krate => {
                    others.extend(difference(theirs, ours));
                }
                (Some(theirs), _) => {
                    planned.own.insert(row.kernel.to_owned(), origin(theirs));
                    not_run(row);
                    // The program itself may be able to run the kernel.
                    row.unmet = None;
                }
            }
        }
        let notes = &mut planned.plan.notes;
        if self.sites.is_empty() && self.unread.is_empty() {
            notes.push(format!("{} has kernels, but no annotated site", self.path));
        }
        notes.extend(self.unread.iter().cloned());
        notes.extend(others);
        notes.push(UNKNOWN.to_owned());
        Ok(planned)
    }
}

/// Marks the kernel of a row as not linked.
fn not_run(row: &mut PlanRow) {
    row.implementation = None;
    row.reason = Some(Reason::UnknownKernel);
    row.krate = None;
    row.crate_version = None;
    row.kernel_version = None;
    row.candidates.clear();
}

fn origin(kernel: &Value) -> String {
    format!(
        "{} {}",
        text(kernel, "crate"),
        text(kernel, "crate_version")
    )
}

/// Returns a note if the file's kernel differs from the one that the plan uses.
fn difference(theirs: &Value, ours: &KernelSpec) -> Option<String> {
    let describe = |version: &str, origin: &str, names: &[String]| {
        format!("version {version} of {origin} ({})", names.join(", "))
    };
    let names: Vec<_> = ours
        .implementations
        .iter()
        .map(|one| one.name.to_owned())
        .collect();
    let planned = describe(&ours.version.to_string(), &ours.origin(), &names);
    let linked = describe(
        &text(theirs, "version"),
        &origin(theirs),
        &implementations(theirs),
    );
    (planned != linked).then(|| {
        format!(
            "{}: the file links {linked}, the plan uses {planned}",
            ours.id
        )
    })
}

impl BuiltPlan {
    /// Returns the plan, in which kernels that only the file has are not linked.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the plan as JSON.
    ///
    /// # Errors
    /// Returns no error in practice, because plans can always be written as JSON.
    pub fn json(&self) -> serde_json::Result<Value> {
        let mut json = serde_json::to_value(&self.plan)?;
        json["file"] = self.path.as_str().into();
        json["own_kernels"] = self.own.keys().cloned().collect();
        Ok(json)
    }

    /// Adds the plan to a page.
    pub fn show(&self, page: &mut Page) {
        page.line(format_args!(
            "{}, planned with the kernels of `kernels`:",
            self.path
        ));
        let look = page.look();
        page.page(
            &self
                .plan
                .page(look, None, |row| match self.own.get(row.kernel) {
                    Some(origin) => Cell::new(
                        Tone::Caution,
                        format_args!("unknown here: a kernel of {origin}"),
                    ),
                    None => row.cell(),
                }),
        );
    }
}
