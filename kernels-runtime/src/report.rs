//! The report of all sites, with the paths that their calls took.

use crate::active::{self, Active};
use crate::device::DeviceKind;
use crate::dispatch::{Mode, Outcome, TensorType};
use crate::dispatch::{Site, sites};
use crate::policy::may_call;
use crate::reason::Reason;
use crate::semantics::STEP;
use kernels_io::{Cell, Fit, Look, Page, Table, Tone};
use serde::Serialize;
use std::fmt;

/// A snapshot of every site's counters, taken by [`report`].
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One row per site and path. A site that was never reached has one row without a call.
    pub rows: Vec<ReportRow>,
    /// Warnings about parts of the policy in force on this thread that had no effect so far: rules for layers although
    /// no layer was entered, and explicitly requested kernels that no call could run.
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
    /// The kind of call and its path, or `None` if the site was never reached.
    pub call: Option<Call>,
    /// The number of calls.
    pub calls: u64,
}

/// A kind of call and the path it took.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The kind of device that held the tensors.
    pub device: DeviceKind,
    /// The type of the tensors.
    pub dtype: TensorType,
    /// The mode: training with autodiff, inference without.
    pub mode: Mode,
    /// The kernel that ran: the attribute's or the one that the layer is mapped to. `None` for the reference.
    pub kernel: Option<&'static str>,
    /// The implementation that ran; `None` for the reference.
    pub implementation: Option<&'static str>,
    /// The reason why the reference ran. `None` for a fused implementation.
    pub reason: Option<Reason>,
    /// True if the call is a step of an optimiser. Its mode is inference in training too, because it works on tensors
    /// without autodiff.
    #[serde(skip)]
    pub is_step: bool,
}

/// Returns the counts of all threads since the start of the process or the last [`reset`].
pub fn report() -> Report {
    Report {
        rows: sites().flat_map(rows_of).collect(),
        // The calls report a bad policy.
        idle: active::current().map_or_else(|_| Vec::new(), |active| idle(&active)),
    }
}

/// Returns warnings about parts of the policy in force that had no effect.
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
                is_step: !site.spec().key.is_differentiable(),
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
    /// Returns the number of calls that took a fused implementation.
    pub fn fused_calls(&self) -> u64 {
        self.count(|call| call.implementation.is_some())
    }

    /// Returns the number of calls that took the reference.
    pub fn reference_calls(&self) -> u64 {
        self.count(|call| call.implementation.is_none())
    }

    /// Returns the report as JSON, an object with `rows`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("text and numbers are JSON")
    }

    /// Returns the report laid out for `look`. If `shown_by` is given, it hides the sites that were not reached and
    /// states what lists them, such as "`--report FILE` lists them".
    #[doc(hidden)]
    pub fn page(&self, look: Look, shown_by: Option<&str>) -> Page {
        let (reached, rest): (Vec<_>, Vec<_>) =
            self.rows.iter().partition(|row| row.call.is_some());
        let shown = match shown_by {
            Some(_) => reached,
            None => self.rows.iter().collect(),
        };
        let mut page = Page::new(look);
        if !shown.is_empty() {
            page.table(&table(&shown));
        }
        if let (Some(shown_by), false) = (shown_by, rest.is_empty()) {
            let sites = match rest.len() {
                1 => "1 site was".to_owned(),
                count => format!("{count} sites were"),
            };
            page.paragraph(format_args!("{sites} not reached; {shown_by}"));
        }
        self.idle.iter().for_each(|idle| page.line(idle));
        page
    }

    fn count(&self, which: impl Fn(&Call) -> bool) -> u64 {
        self.rows
            .iter()
            .filter(|row| row.call.as_ref().is_some_and(&which))
            .map(|row| row.calls)
            .sum()
    }
}

fn table(rows: &[&ReportRow]) -> Table<5> {
    let mut table = Table::new(["site", "kernel", "call", "path", "calls"]).fit([
        Fit::Item,
        Fit::Wrap,
        Fit::Wrap,
        Fit::Wrap,
        Fit::Wrap,
    ]);
    for row in rows {
        let (call, path) = match &row.call {
            None => (Cell::from(""), Cell::from("not reached")),
            Some(call) => {
                let tone = match call.implementation {
                    Some(_) => Tone::Good,
                    None => Tone::Caution,
                };
                (call.into(), Cell::new(tone, call.path()))
            }
        };
        let ran = row.call.as_ref().and_then(|call| call.kernel);
        let kernel = ran.unwrap_or(row.kernel);
        table.row([
            row.site.as_str().into(),
            kernel.into(),
            call,
            path,
            row.calls.into(),
        ]);
    }
    table
}

impl fmt::Display for Report {
    /// Writes the sites that were reached, in a table of at most 100 columns. `{:#}` writes every site, with each path
    /// on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.alternate() {
            true => self.page(Look::WIDE, None).fmt(f),
            false => self
                .page(Look::PLAIN, Some("`{:#}` prints every site"))
                .fmt(f),
        }
    }
}

impl Call {
    /// Returns the path in words, such as `fused cpu-simd`. Experts with adapters have a path between kernel and
    /// reference.
    pub fn path(&self) -> String {
        match (self.implementation, self.reason) {
            (Some(name), _) => format!("fused {name}"),
            (None, Some(reason @ Reason::Adapters)) => format!("grouped kernels: {reason}"),
            (None, Some(reason)) => format!("reference: {reason}"),
            (None, None) => "reference".to_owned(),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.device, self.dtype)?;
        match self.is_step {
            true => f.write_str(STEP),
            false => self.mode.fmt(f),
        }
    }
}
