//! The report of all sites, with the paths that their calls took.

use crate::context::{self, Active};
use crate::device::DeviceKind;
use crate::dispatch::{DecisionCache, Mode, Outcome, Site, TensorType, entry, operators, sites};
use crate::mapping::{self, Entry};
use crate::ops::moe::STEPS;
use crate::policy::may_call;
use crate::reason::Reason;
use crate::registry::{self, SiteSpec};
use crate::semantics::STEP;
use kernels_io::{Cell, Fit, Look, Page, Table, Tone};
use serde::Serialize;
use std::fmt;

/// A snapshot of every site's counters, taken by [`report`].
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One row per site and path. A site that was never reached has one row without a call. After the sites come those
    /// operations of [`ops::moe`](crate::ops::moe) that were called without one: [`route`](crate::ops::moe::route),
    /// [`moe_permute`](crate::ops::moe::moe_permute), [`moe_unpermute`](crate::ops::moe::moe_unpermute),
    /// [`sharded`](crate::ops::moe::experts::sharded) experts, and the steps of experts with adapters.
    pub rows: Vec<ReportRow>,
    /// Warnings about parts of the policy and mapping in force on this thread that had no effect so far: rules for layers
    /// although no layer was entered, explicitly requested kernels that no call could run, and mapped layers whose rules
    /// matched no call.
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
    /// The operators of the device's library that the implementation puts together, in order. Empty if it is a kernel of
    /// its own, and for the reference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<&'static str>,
    /// The reason why the reference ran. `None` for a fused implementation.
    pub reason: Option<Reason>,
    /// The operator or option that the device's library lacks for the site, if the reference ran for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
    /// True if the call is a step of an optimiser. Its mode is inference in training too, because it works on tensors
    /// without autodiff.
    #[serde(skip)]
    pub is_step: bool,
}

/// Returns the counts of all threads since the start of the process or the last [`reset`].
pub fn report() -> Report {
    Report {
        rows: sites().flat_map(rows_of).chain(rows_of_steps()).collect(),
        // The calls report a bad policy.
        idle: context::current().map_or_else(|_| Vec::new(), |active| idle(&active)),
    }
}

/// Returns warnings about parts of the policy in force that had no effect.
fn idle(active: &Active) -> Vec<String> {
    let policy = &active.policy;
    let is_reached = |site: &Site| !site.cache().counts().is_empty();
    let reached = |id: &str| {
        let mut callers = sites().filter(|site| may_call(site.spec(), id, &active.mapping));
        let mut steps = STEPS.iter().filter(|step| step.spec().kernel == id);
        callers.any(is_reached) || steps.any(|step| !step.cache().counts().is_empty())
    };
    let not_reached = policy.asked_for().filter(|id| !reached(id)).map(|id| {
        format!(
            "the policy `{policy}` asks for `+{id}`, which did nothing: no call so far could run it"
        )
    });
    let attention = policy.attention_rules().filter(|rule| {
        let mut sites = sites();
        !sites.any(|site| rule.matches(site.spec()) && is_reached(site))
    });
    let attention = attention
        .map(|rule| format!("`attn:{rule}` did nothing: no call so far was one of its attention"));
    let layers = active.mapping.layers();
    let not_matched = layers.filter_map(|layer| not_matched(layer, active));
    not_reached
        .chain(policy.without_layers())
        .chain(attention)
        .chain(not_matched)
        .collect()
}

/// Returns a warning if no call so far matched a rule for the layer.
fn not_matched(layer: &str, active: &Active) -> Option<String> {
    if let Some(unknown) = mapping::unknown_layer(layer) {
        return Some(format!("layer `{layer}`: {unknown}"));
    }
    let matched = sites().any(|site| {
        site.spec().layer == Some(layer)
            && (site.cache().counts().into_iter()).any(|(query, ..)| {
                let entry = entry(site.spec(), active, query);
                matches!(entry, Some(Entry::Found(..)))
            })
    });
    let rules = active.mapping.rules().filter(|rule| rule.layer == layer);
    let rules = rules.map(|rule| format!("`map:{rule}`"));
    (!matched).then(|| {
        let rules = rules.collect::<Vec<_>>().join(", ");
        format!("{rules} did nothing: no call so far matched")
    })
}

/// Sets every site's counts to zero.
pub fn reset() {
    for site in sites() {
        site.cache().reset();
    }
    for step in STEPS {
        step.cache().reset();
    }
}

fn rows_of(site: &'static Site) -> Vec<ReportRow> {
    let mut rows = counted(site.spec(), site.cache());
    if rows.is_empty() {
        rows.push(ReportRow {
            site: site.name(),
            kernel: site.spec().kernel,
            call: None,
            calls: 0,
        });
    }
    rows
}

/// Returns the rows of the steps that were called. A step makes only some of the operators that the kernel's calls make, so
/// that the rows name none.
fn rows_of_steps() -> impl Iterator<Item = ReportRow> {
    let rows = STEPS
        .iter()
        .flat_map(|step| counted(step.spec(), step.cache()));
    rows.map(|mut row| {
        if let Some(call) = &mut row.call {
            call.operators.clear();
        }
        row
    })
}

fn counted(site: &SiteSpec, cache: &DecisionCache) -> Vec<ReportRow> {
    let row = |call, calls| ReportRow {
        site: site.name(),
        kernel: site.kernel,
        call,
        calls,
    };
    cache
        .counts()
        .into_iter()
        .map(|(query, outcome, calls)| {
            let (kernel, implementation, reason) = match outcome {
                Outcome::Fused(kernel, one) => (Some(kernel.id), Some(one), None),
                Outcome::Reference(reason) => (None, None, Some(reason)),
            };
            let key = &site.key;
            let operators = implementation.map(|one| operators::of(one, key, query));
            let lack = match reason {
                Some(Reason::Semantics) => registry::kernel(site.kernel)
                    .and_then(|kernel| operators::lack(kernel, key, query)),
                _ => None,
            };
            let call = Call {
                device: query.device,
                dtype: query.tensors,
                mode: query.mode,
                kernel,
                implementation: implementation.map(|one| one.name),
                operators: operators.unwrap_or_default(),
                reason,
                lack,
                is_step: !site.key.is_differentiable(),
            };
            row(Some(call), calls)
        })
        .collect()
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
            (Some(name), _) => operators::path(name, &self.operators),
            (None, Some(reason @ Reason::Adapters)) => format!("grouped kernels: {reason}"),
            (None, Some(reason)) => operators::reference(reason, self.lack.as_deref()),
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
