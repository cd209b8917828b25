use super::unmet::Unmet;
use super::{Choice, Mode, Outcome, Query, Site, TensorType, choose, operators, sites};
use crate::context::{self, Active};
use crate::device::{DeviceKind, DeviceKinds};
use crate::mapping::ModeFlags;
use crate::policy::{PolicyError, no_site};
use crate::reason::Reason;
use crate::registry::{self, FloatType, RegistryError, SiteSpec};
use crate::semantics::{STEP, as_written};
use burn::tensor::{DType, Device};
use kernels_io::{Cell, Fit, Look, Page, Table, Tone};
use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// The paths that every site of the program will take on one device, found without running it.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The policy in force.
    pub policy: String,
    /// The kind of device.
    pub device: DeviceKind,
    /// The capability of the device; see [`DeviceKind::capability`].
    pub capability: u16,
    /// The type of the tensors.
    pub dtype: TensorType,
    /// The mode: training with autodiff, inference without.
    pub mode: Mode,
    /// One row per site, sorted by name.
    pub sites: Vec<PlanRow>,
    /// Warnings about the parts of the policy that a plan can't follow: rules for layers, and kernels that no site can
    /// call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The plan of one site.
#[derive(Clone, Debug, Serialize)]
pub struct PlanRow {
    /// The site's full name.
    pub site: String,
    /// Its layer name, if it has one.
    pub layer: Option<&'static str>,
    /// The kernel that it runs if it can: the attribute's or the one that the layer is mapped to.
    pub kernel: &'static str,
    /// The package that defines the kernel, or `None` if the kernel is not linked in.
    #[serde(rename = "crate")]
    pub krate: Option<&'static str>,
    /// The version of that package.
    pub crate_version: Option<&'static str>,
    /// The kernel's version.
    pub kernel_version: Option<u32>,
    /// The mode of the mapping's rule that names the kernel, or `None` if the attribute names it.
    #[serde(serialize_with = "mode_text")]
    pub mapped: Option<ModeFlags>,
    /// The reason why the mapping in force names no kernel, if the site has a layer name.
    pub missing: Option<Reason>,
    /// The site's semantics key, as text.
    pub key: String,
    /// The implementation that will run, or `None` for the reference.
    pub implementation: Option<&'static str>,
    /// The operators of the device's library that the implementation puts together, in order. Empty if it is a kernel of
    /// its own, and for the reference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<&'static str>,
    /// The reason why the reference runs.
    pub reason: Option<Reason>,
    /// The operator or option that the device's library lacks for the site, if the reference runs for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
    /// The message of the panic, if a call would panic because the policy requires a kernel that can't run.
    pub unmet: Option<String>,
    /// The site's condition, from `when = …`. If it is false, the reference runs.
    pub condition: Option<&'static str>,
    /// Every implementation of the kernel, best first.
    pub candidates: Vec<PlanCandidate>,
    /// True if the site is a step of an optimiser. It is planned as inference in every mode, because it works on
    /// tensors without autodiff.
    #[serde(skip)]
    pub is_step: bool,
    /// True if the site is a layer of burn-kernels itself (`nn`, `optim`) that no call has reached. Tables leave it out.
    #[serde(skip)]
    pub is_idle: bool,
}

/// An implementation that was considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanCandidate {
    /// The name of the implementation.
    pub implementation: &'static str,
    /// The kinds of device that it is for.
    pub device: DeviceKinds,
    /// The reason why it was refused, or `None` if it can run.
    pub refused: Option<Reason>,
    /// True if it has limits on shapes or layouts, which are checked at each call.
    pub limited: bool,
}

/// The reason why a plan can't be made.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The value of `BURN_KERNELS` is not a policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The registry of kernels is inconsistent.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

fn mode_text<S: Serializer>(mode: &Option<ModeFlags>, serializer: S) -> Result<S::Ok, S::Error> {
    match mode {
        Some(mode) => serializer.collect_str(mode),
        None => serializer.serialize_none(),
    }
}

/// Plans every site for `device` under the policy and mapping in force. The tensors have the device's default float
/// type. The mode is training if `device` has autodiff enabled (`device.autodiff()`), and inference otherwise.
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// use burn::tensor::Device;
/// use burn_kernels::dispatch::{Mode, plan};
///
/// let device = Device::default();
/// assert_eq!(plan(&device)?.mode, Mode::Inference);
/// println!("{}", plan(&device.autodiff())?);
/// # Ok::<(), burn_kernels::dispatch::PlanError>(())
/// ```
///
/// # Errors
/// Returns an error as [`plan_for`] does.
pub fn plan(device: &Device) -> Result<Plan, PlanError> {
    let mode = match device.is_autodiff() {
        true => Mode::Training,
        false => Mode::Inference,
    };
    plan_for(device, device.settings().float_dtype.into(), mode)
}

/// Plans every site for tensors of `dtype` on `device`, under the policy and mapping in force.
///
/// Two facts are known only at a call: whether the site's condition (`when = …`) holds, and whether the tensors are
/// within the [limits](crate::registry::Implementation::limits) of the implementation. Rows contain the condition,
/// notes name the implementations with limits, and [`report`](crate::report) counts the paths of the calls.
///
/// # Errors
/// Returns an error if `BURN_KERNELS` holds no policy, or if the registry of kernels is inconsistent.
pub fn plan_for(device: &Device, dtype: DType, mode: Mode) -> Result<Plan, PlanError> {
    let (active, query) = asked(device, dtype, mode)?;
    Ok(plan_under(&active, query))
}

/// Plans the given sites with the kernels of this program. The sites may belong to another program, such as those in
/// the records of a built file.
///
/// # Errors
/// Returns an error as [`plan_for`] does.
pub fn plan_sites(
    sites: &[SiteSpec],
    device: &Device,
    dtype: DType,
    mode: Mode,
) -> Result<Plan, PlanError> {
    let (active, query) = asked(device, dtype, mode)?;
    // Kernels that no site of this program can call do not matter for these sites.
    let policy = &active.policy;
    let notes = policy.layers_in_a_plan().into_iter();
    let notes = notes.chain(policy.tuning_in_a_plan()).collect();
    Ok(plan_of(sites.iter(), notes, &active, query))
}

fn asked(device: &Device, dtype: DType, mode: Mode) -> Result<(Arc<Active>, Query), PlanError> {
    registry::check()?;
    let active = context::current()?;
    let tensors = FloatType::from_dtype(dtype).map_or(TensorType::Unsupported, TensorType::Float);
    Ok((active, Query::new(device, tensors, mode)))
}

/// Returns the plan that would hold if `active` were in force.
pub(crate) fn plan_under(active: &Active, query: Query) -> Plan {
    let mut plan = plan_of(sites().map(Site::spec), notes(active), active, query);
    for (row, site) in plan.sites.iter_mut().zip(sites()) {
        row.is_idle = site.spec().krate == "burn-kernels" && site.cache().counts().is_empty();
    }
    plan
}

fn plan_of<'a>(
    sites: impl Iterator<Item = &'a SiteSpec>,
    notes: Vec<String>,
    active: &Active,
    query: Query,
) -> Plan {
    Plan {
        policy: active.policy.to_string(),
        device: query.device,
        capability: query.capability,
        dtype: query.tensors,
        mode: query.mode,
        sites: sites.map(|site| row(site, active, query)).collect(),
        notes,
    }
}

fn notes(active: &Active) -> Vec<String> {
    let never_called = active.policy.never_called(&active.mapping);
    let no_site = (!never_called.is_empty()).then(|| no_site(&active.policy, &never_called));
    no_site
        .into_iter()
        .chain(active.policy.layers_in_a_plan())
        .chain(active.policy.tuning_in_a_plan())
        .collect()
}

fn row(spec: &SiteSpec, active: &Active, query: Query) -> PlanRow {
    let query = Query {
        mode: match spec.key.is_differentiable() {
            true => query.mode,
            // An optimiser's step never needs a gradient.
            false => Mode::Inference,
        },
        ..query
    };
    let choice = choose(spec, active, query, None);
    let (implementation, reason) = match choice.outcome {
        Outcome::Fused(_, implementation) => (Some(implementation), None),
        Outcome::Reference(reason) => (None, Some(reason)),
    };
    let operators = implementation.map(|one| operators::of(one, &spec.key, query));
    let lack = reason.and(choice.spec).and_then(|kernel| match reason {
        Some(Reason::Semantics) => operators::lack(kernel, &spec.key, query),
        _ => None,
    });
    let unmet = choice.unmet().map(|reason| {
        let unmet = Unmet {
            site: spec,
            active,
            query,
            choice: &choice,
            reason,
        };
        unmet.to_string()
    });
    PlanRow {
        site: spec.name(),
        layer: spec.layer,
        kernel: choice.kernel,
        krate: choice.spec.map(|kernel| kernel.krate),
        crate_version: choice.spec.map(|kernel| kernel.crate_version),
        kernel_version: choice.spec.map(|kernel| kernel.version),
        mapped: choice.mapped,
        missing: choice.missing,
        key: spec.key.to_string(),
        condition: spec.condition,
        implementation: implementation.map(|implementation| implementation.name),
        operators: operators.unwrap_or_default(),
        reason,
        lack,
        unmet,
        candidates: candidates(&choice),
        is_step: !spec.key.is_differentiable(),
        is_idle: false,
    }
}

fn candidates(choice: &Choice) -> Vec<PlanCandidate> {
    let candidates = choice.candidates.iter();
    candidates
        .map(|candidate| PlanCandidate {
            implementation: candidate.implementation.name,
            device: candidate.implementation.device,
            refused: candidate.refused,
            limited: candidate.implementation.limits.is_some(),
        })
        .collect()
}

impl Plan {
    /// Returns `true` if every explicit request can be met.
    pub fn is_met(&self) -> bool {
        self.sites.iter().all(|row| row.unmet.is_none())
    }

    /// Describes what only calls decide: the limits of implementations.
    fn open_questions(&self) -> Option<String> {
        let limited = self.sites.iter().filter(|row| row.is_limited());
        let mut names: Vec<&str> = limited.filter_map(|row| row.implementation).collect();
        names.sort_unstable();
        names.dedup();
        let names = match names.as_slice() {
            [] => return None,
            names => names.join(", "),
        };
        Some(format!(
            "{names} also asks each call for its shapes and layouts, which a plan does not have; a report counts the \
             calls that took the reference for them"
        ))
    }

    /// Returns the plan laid out for `look`. `path` gives the cell for the path of each row. If `shown_by` is given, it
    /// hides the idle layers of burn-kernels and states what lists them.
    #[doc(hidden)]
    pub fn page(
        &self,
        look: Look,
        shown_by: Option<&str>,
        path: impl Fn(&PlanRow) -> Cell,
    ) -> Page {
        let Self {
            policy,
            device,
            dtype,
            mode,
            ..
        } = self;
        let mut page = Page::new(look);
        page.line(format_args!("{device}, {dtype}, {mode}, policy `{policy}`"));
        let mut table = Table::new(["site", "layer", "kernel", "semantics", "path"]).fit([
            Fit::Item,
            Fit::Wrap,
            Fit::Wrap,
            Fit::Wrap,
            Fit::Wrap,
        ]);
        let (hidden, shown): (Vec<_>, Vec<_>) =
            (self.sites.iter()).partition(|row| row.is_idle && shown_by.is_some());
        for row in shown {
            table.row([
                row.site.as_str().into(),
                row.layer.unwrap_or("-").into(),
                row.kernel.into(),
                as_written(&row.key).into(),
                path(row),
            ]);
        }
        page.table(&table);
        if let (Some(shown_by), false) = (shown_by, hidden.is_empty()) {
            page.paragraph(format_args!(
                "{} of burn-kernels' own layers were not called so far; {shown_by}",
                hidden.len()
            ));
        }
        for note in self.notes.iter().cloned().chain(self.open_questions()) {
            page.paragraph(format_args!("note: {note}"));
        }
        page
    }
}

impl PlanRow {
    /// Returns `true` if the implementation that will run checks shapes and layouts at each call.
    fn is_limited(&self) -> bool {
        let mut candidates = self.candidates.iter();
        candidates.any(|one| one.limited && Some(one.implementation) == self.implementation)
    }

    /// Returns the path as a cell of a plan's table.
    #[doc(hidden)]
    pub fn cell(&self) -> Cell {
        let tone = match (self.implementation, &self.unmet) {
            (_, Some(_)) => Tone::Bad,
            (Some(_), None) => Tone::Good,
            (None, None) => Tone::Caution,
        };
        match self.is_step {
            true => Cell::new(tone, format_args!("{} ({STEP})", self.path())),
            false => Cell::new(tone, self.path()),
        }
    }

    /// Returns the path in words, such as `fused cpu-simd`, with the site's condition, the influence of the mapping and
    /// a note if the policy requires more.
    pub fn path(&self) -> String {
        let mut path = match (self.implementation, self.reason) {
            (Some(name), _) => {
                let path = operators::path(name, &self.operators);
                match self.condition {
                    Some(condition) => format!("{path} when `{condition}`"),
                    None => path,
                }
            }
            (None, Some(reason)) => operators::reference(reason, self.lack.as_deref()),
            (None, None) => "reference".to_owned(),
        };
        if let Some(mode) = self.mapped {
            path.push_str(&format!(" (mapped for {mode})"));
        }
        if let Some(missing) = self.missing {
            path.push_str(&format!(" ({missing})"));
        }
        if self.unmet.is_some() {
            path.push_str(" (an error: the policy asks for more)");
        }
        path
    }
}

impl fmt::Display for Plan {
    /// Writes a table of at most 100 columns, without the layers of burn-kernels itself that no call has reached. `{:#}`
    /// writes every site, each on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (look, shown_by) = match f.alternate() {
            true => (Look::WIDE, None),
            false => (Look::PLAIN, Some("`{:#}` lists them")),
        };
        self.page(look, shown_by, PlanRow::cell).fmt(f)
    }
}
