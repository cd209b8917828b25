//! What ran: every site with the paths that its calls took.

use crate::active::{self, Active};
use crate::device::DeviceKind;
use crate::dispatch::{Mode, Outcome, TensorType};
use crate::dispatch::{Site, sites};
use crate::policy::may_call;
use crate::reason::Reason;
use crate::table::Table;
use serde::Serialize;
use std::fmt;

/// A snapshot of every site's counters, taken by [`report`].
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One row a site and path; a site that was never reached has one row with no call.
    pub rows: Vec<ReportRow>,
    /// The words of the policy in force on this thread that did nothing so far: rules for layers
    /// though no layer was entered, kernels that are asked for though no call could run them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<String>,
}

/// One path of one site.
#[derive(Clone, Debug, Serialize)]
pub struct ReportRow {
    /// The site's full name.
    pub site: String,
    /// The kernel that its attribute names.
    pub kernel: &'static str,
    /// What was called; `None` if the site was never reached.
    pub call: Option<Call>,
    /// How often.
    pub calls: u64,
}

/// A kind of call and the path it took.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// Where the tensors were.
    pub device: DeviceKind,
    /// Their type.
    pub dtype: TensorType,
    /// With or without autodiff.
    pub mode: Mode,
    /// The kernel that ran, its attribute's or the one that it is mapped to; `None` for the
    /// reference.
    pub kernel: Option<&'static str>,
    /// The implementation that ran; `None` for the reference.
    pub implementation: Option<&'static str>,
    /// Why the reference ran; `None` for a fused implementation.
    pub reason: Option<Reason>,
}

/// Counts since the start of the process or the last [`reset`], over all threads.
pub fn report() -> Report {
    Report {
        rows: sites().flat_map(rows_of).collect(),
        // A bad policy is told by the calls.
        idle: active::current().map_or_else(|_| Vec::new(), |active| idle(&active)),
    }
}

/// Returns the words of the policy in force that did nothing.
fn idle(active: &Active) -> Vec<String> {
    let policy = &active.policy;
    let reached = |id: &str| {
        let mut callers = sites().filter(|site| may_call(site.spec(), id, &active.mapping));
        callers.any(|site| !site.tally().counts().is_empty())
    };
    let not_reached = policy.asked_for().filter(|id| !reached(id)).map(|id| {
        format!(
            "the policy `{policy}` asks for `+{id}`, which did nothing: no call so far could run it"
        )
    });
    not_reached.chain(policy.without_layers()).collect()
}

/// Sets every site's counts to zero.
pub fn reset() {
    for site in sites() {
        site.tally().reset();
    }
}

fn rows_of(site: &'static Site) -> Vec<ReportRow> {
    let row = |call, calls| ReportRow {
        site: site.name(),
        kernel: site.spec().kernel,
        call,
        calls,
    };
    let mut rows: Vec<_> = site
        .tally()
        .counts()
        .into_iter()
        .map(|(query, outcome, calls)| {
            let (kernel, implementation, reason) = match outcome {
                Outcome::Fused(kernel, one) => (Some(kernel.id), Some(one.name), None),
                Outcome::Reference(reason) => (None, None, Some(reason)),
            };
            let call = Call {
                device: query.device,
                dtype: query.tensors,
                mode: query.mode,
                kernel,
                implementation,
                reason,
            };
            row(Some(call), calls)
        })
        .collect();
    if rows.is_empty() {
        rows.push(row(None, 0));
    }
    rows
}

impl Report {
    /// Calls that took a fused implementation.
    pub fn fused_calls(&self) -> u64 {
        self.count(|call| call.implementation.is_some())
    }

    /// Calls that took the reference.
    pub fn reference_calls(&self) -> u64 {
        self.count(|call| call.implementation.is_none())
    }

    /// The report as JSON, an object with `rows`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("text and numbers are JSON")
    }

    fn count(&self, which: impl Fn(&Call) -> bool) -> u64 {
        self.rows
            .iter()
            .filter(|row| row.call.as_ref().is_some_and(&which))
            .map(|row| row.calls)
            .sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["site", "kernel", "call", "path", "calls"]);
        for row in &self.rows {
            let (call, path) = match &row.call {
                None => (String::new(), "not reached".to_owned()),
                Some(call) => (call.to_string(), call.path()),
            };
            let ran = row.call.as_ref().and_then(|call| call.kernel);
            let kernel = ran.unwrap_or(row.kernel);
            table.row([&row.site, kernel, &call, &path, &row.calls.to_string()]);
        }
        table.fmt(f)?;
        self.idle.iter().try_for_each(|idle| writeln!(f, "{idle}"))
    }
}

impl Call {
    /// The path in words, such as `fused cpu-simd`.
    pub fn path(&self) -> String {
        match (self.implementation, self.reason) {
            (Some(name), _) => format!("fused {name}"),
            (None, Some(reason)) => format!("reference: {reason}"),
            (None, None) => "reference".to_owned(),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.device, self.dtype, self.mode)
    }
}
