use super::unmet::Unmet;
use super::{Choice, Mode, Outcome, Query, Site, TensorType, choose, sites};
use crate::active::{self, Active};
use crate::device::{DeviceKind, DeviceKinds};
use crate::mapping::ModeFlags;
use crate::policy::{PolicyError, no_site};
use crate::reason::Reason;
use crate::registry::{self, FloatType, RegistryError};
use crate::table::Table;
use burn::tensor::{DType, Device};
use serde::{Serialize, Serializer};
use std::fmt;
use thiserror::Error;

/// What every site of the program will do on one device, without running it.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The policy in force.
    pub policy: String,
    /// The kind of device.
    pub device: DeviceKind,
    /// What the device is capable of; see [`DeviceKind::capability`].
    pub capability: u16,
    /// The type of the tensors.
    pub dtype: TensorType,
    /// With or without autodiff.
    pub mode: Mode,
    /// One row a site, sorted by name.
    pub sites: Vec<PlanRow>,
    /// The words of the policy that a plan can't follow: rules for layers, and kernels that no site can
    /// call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What one site will do.
#[derive(Clone, Debug, Serialize)]
pub struct PlanRow {
    /// The site's full name.
    pub site: String,
    /// Its layer name, if it has one.
    pub layer: Option<&'static str>,
    /// The kernel that it runs where it can: its attribute's, or the one that it is mapped to.
    pub kernel: &'static str,
    /// The package that defines the kernel; `None` if it is not linked in.
    #[serde(rename = "crate")]
    pub krate: Option<&'static str>,
    /// That package's version.
    pub crate_version: Option<&'static str>,
    /// The kernel's version.
    pub kernel_version: Option<u32>,
    /// The mode of the mapping's rule that names the kernel; `None` if the attribute names it.
    #[serde(serialize_with = "mode_text")]
    pub mapped: Option<ModeFlags>,
    /// Why the mapping in force names no kernel, though the site has a layer name.
    pub missing: Option<Reason>,
    /// The site's semantics key, printed.
    pub key: String,
    /// The implementation that will run; `None` for the reference.
    pub implementation: Option<&'static str>,
    /// Why the reference runs.
    pub reason: Option<Reason>,
    /// The message with which the call would panic, because the policy asks for what can't be.
    pub unmet: Option<String>,
    /// Every implementation of the kernel, best first.
    pub candidates: Vec<PlanCandidate>,
}

/// An implementation that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanCandidate {
    /// Its name.
    pub implementation: &'static str,
    /// The kinds of device that it is for.
    pub device: DeviceKinds,
    /// Why it can't be taken; `None` if it can.
    pub refused: Option<Reason>,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// `BURN_KERNELS` holds no policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The kernels that are linked in don't go together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

fn mode_text<S: Serializer>(mode: &Option<ModeFlags>, serializer: S) -> Result<S::Ok, S::Error> {
    match mode {
        Some(mode) => serializer.collect_str(mode),
        None => serializer.serialize_none(),
    }
}

/// Plans every site for tensors of `dtype` on `device`, under the policy and mapping in force.
///
/// Limits on shapes and layouts are not known without tensors: [`report`](crate::report) tells
/// which calls met them.
///
/// # Errors
/// `BURN_KERNELS` holds no policy, or the kernels that are linked in don't go together.
pub fn plan(device: &Device, dtype: DType, mode: Mode) -> Result<Plan, PlanError> {
    registry::check()?;
    let active = active::current()?;
    let tensors = FloatType::from_dtype(dtype).map_or(TensorType::Unsupported, TensorType::Float);
    Ok(plan_under(&active, Query::new(device, tensors, mode)))
}

/// The plan as it would be if `active` were in force.
pub(crate) fn plan_under(active: &Active, query: Query) -> Plan {
    Plan {
        policy: active.policy.to_string(),
        device: query.device,
        capability: query.capability,
        dtype: query.tensors,
        mode: query.mode,
        sites: sites().map(|site| row(site, active, query)).collect(),
        notes: notes(active),
    }
}

fn notes(active: &Active) -> Vec<String> {
    let never_called = active.policy.never_called(&active.mapping);
    let no_site = (!never_called.is_empty()).then(|| no_site(&active.policy, &never_called));
    no_site
        .into_iter()
        .chain(active.policy.layers_in_a_plan())
        .collect()
}

fn row(site: &Site, active: &Active, query: Query) -> PlanRow {
    let spec = site.spec();
    let query = Query {
        mode: match spec.key.is_differentiable() {
            true => query.mode,
            // It is never asked for a gradient.
            false => Mode::Inference,
        },
        ..query
    };
    let choice = choose(spec, active, query, None);
    let (implementation, reason) = match choice.outcome {
        Outcome::Fused(_, implementation) => (Some(implementation.name), None),
        Outcome::Reference(reason) => (None, Some(reason)),
    };
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
        site: site.name(),
        layer: spec.layer,
        kernel: choice.kernel,
        krate: choice.spec.map(|kernel| kernel.krate),
        crate_version: choice.spec.map(|kernel| kernel.crate_version),
        kernel_version: choice.spec.map(|kernel| kernel.version),
        mapped: choice.mapped,
        missing: choice.missing,
        key: spec.key.to_string(),
        implementation,
        reason,
        unmet,
        candidates: candidates(&choice),
    }
}

fn candidates(choice: &Choice) -> Vec<PlanCandidate> {
    let candidates = choice.candidates.iter();
    candidates
        .map(|candidate| PlanCandidate {
            implementation: candidate.implementation.name,
            device: candidate.implementation.device,
            refused: candidate.refused,
        })
        .collect()
}

impl Plan {
    /// Whether every explicit request can be met.
    pub fn is_met(&self) -> bool {
        self.sites.iter().all(|row| row.unmet.is_none())
    }
}

impl PlanRow {
    /// The path in words, such as `fused cpu-simd`, and who says so.
    pub fn path(&self) -> String {
        let mut path = match (self.implementation, self.reason) {
            (Some(name), _) => format!("fused {name}"),
            (None, Some(reason)) => format!("reference: {reason}"),
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            policy,
            device,
            dtype,
            mode,
            ..
        } = self;
        writeln!(f, "{device}, {dtype}, {mode}, policy `{policy}`")?;
        let mut table = Table::new(["site", "layer", "kernel", "semantics", "path"]);
        for row in &self.sites {
            let layer = row.layer.unwrap_or("-");
            table.row([&row.site, layer, row.kernel, &row.key, &row.path()]);
        }
        table.fmt(f)?;
        self.notes
            .iter()
            .try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
