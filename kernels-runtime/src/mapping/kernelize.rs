//! Checks every named layer, then fixes the mapping and a mode.

use super::{MappingError, ModeFlags, unknown_layer};
use crate::context::{self, Active};
use crate::dispatch::{Plan, PlanError, PlanRow, Query, TensorType, plan_under};
use crate::policy::{Policy, PolicyError, Reaction, Wish};
use crate::reason::Reason;
use crate::registry::{self, FloatType, RegistryError};
use crate::warning::warning;
use burn::tensor::{DType, Device};
use std::fmt;
use thiserror::Error;

/// The reason why nothing was kernelized.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelizeError {
    /// An invalid mode: models can't be kernelized for it.
    #[error(transparent)]
    Mode(#[from] MappingError),
    /// The value of `BURN_KERNELS` is not a policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The registry of kernels is inconsistent.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Layers that can't run the kernels they are mapped to. Nothing was changed.
    #[error("nothing was kernelized: {}", lines(.0))]
    Layers(Vec<Problem>),
}

impl From<PlanError> for KernelizeError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Policy(error) => Self::Policy(error),
            PlanError::Registry(error) => Self::Registry(error),
        }
    }
}

/// A layer that can't run the kernel it is mapped to, or that has no entry in the mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The layer.
    pub layer: String,
    /// The site with that layer name, or `None` for a layer of the mapping that no site has.
    pub site: Option<String>,
    /// The problem and its remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.site {
            Some(site) => write!(f, "layer `{}` at {site}: {}", self.layer, self.message),
            None => write!(f, "layer `{}`: {}", self.layer, self.message),
        }
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems
        .iter()
        .map(|problem| format!("\n  {problem}"))
        .collect();
    lines.concat()
}

/// Checks every site with a layer name against the mapping in force on this thread, for `mode` on `device` with its
/// default float type. Then fixes that mapping and the mode for the whole process, until [`revert`] or the next call.
/// Returns the plan of every site.
///
/// Decisions follow a registered mapping without this call. It adds three things:
///
/// * It finds all problems at once, before the first call.
/// * The mode is the given one. It also applies to calls without autodiff, for example to run a `training` kernel in
///   evaluation. It may include `compile`, which a call can't detect.
/// * A mapping that is registered or scoped later has no effect on other threads until the next call of `kernelize`. A
///   [`scope`](super::scope) of a thread still takes precedence on that thread.
///
/// If a layer can't run the kernel it is mapped to, or has no entry in the mapping, the
/// [reaction](crate::policy::Policy::react) to the reason applies: an error, a warning in the log or nothing. Two
/// problems are always errors: a kernel that is registered *for* a mode (not as `fallback`) and does not support it on
/// this device, and, under [`Policy::strict`], a layer of the mapping that no site has.
///
/// # Errors
/// Returns an error if the mode is invalid, if a layer has a problem that is an error, if the policy is invalid, or
/// if the registry of kernels is inconsistent. Nothing is changed then, and the error lists all layers with such a
/// problem.
pub fn kernelize(mode: ModeFlags, device: &Device) -> Result<Plan, KernelizeError> {
    mode.check_request()?;
    registry::check()?;
    let in_force = context::current()?;
    let mapping = super::current();
    let active = Active {
        policy: in_force.policy.clone(),
        mapping: mapping.extended(in_force.policy.mapping()),
        mode: Some(mode),
    };
    let dtype = DType::from(device.settings().float_dtype);
    let tensors = FloatType::from_dtype(dtype).map_or(TensorType::Unsupported, TensorType::Float);
    let plan = plan_under(&active, Query::new(device, tensors, mode.call_mode()));
    let findings: Vec<_> = plan
        .sites
        .iter()
        .filter_map(|row| of_site(row, &active.policy))
        .chain(unknown_layers(&active))
        .collect();
    let (errors, rest): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .partition(|(_, reaction)| *reaction == Reaction::Strict);
    if !errors.is_empty() {
        let problems = errors.into_iter().map(|(problem, _)| problem);
        return Err(KernelizeError::Layers(problems.collect()));
    }
    for (problem, reaction) in &rest {
        if *reaction == Reaction::Warn {
            warning!("{problem}");
        }
    }
    context::kernelize(Some((mapping, mode)));
    Ok(plan)
}

/// Releases the mapping and the mode that [`kernelize`] fixed. The registered mapping and the mode of each call apply
/// again. Without a registered mapping, every site runs the kernel of its attribute.
pub fn revert() {
    context::kernelize(None);
}

/// Returns the mode that [`kernelize`] fixed.
pub fn kernelized() -> Option<ModeFlags> {
    context::kernelized_mode()
}

/// Returns the problem of a named layer and the reaction to it, if there is a problem.
fn of_site(row: &PlanRow, policy: &Policy) -> Option<(Problem, Reaction)> {
    let layer = row.layer?;
    let problem = |message: String| Problem {
        layer: layer.to_owned(),
        site: Some(row.site.clone()),
        message,
    };
    let asked = row.mapped.filter(|mode| *mode != ModeFlags::FALLBACK);
    if let (Some(mode), Some(reason)) = (asked, row.reason)
        && matches!(reason, Reason::NoGradient | Reason::FusionBarrier)
    {
        let message = format!("{} is registered for `{mode}`, but {reason}", row.kernel);
        return Some((problem(message), Reaction::Strict));
    }
    if let Some(unmet) = &row.unmet {
        return Some((problem(unmet.clone()), Reaction::Strict));
    }
    let reason = row.missing.or(row.reason)?;
    let wish = match policy.is_strict() {
        true => Wish::Strict,
        false => Wish::Preferred,
    };
    let message = format!("it runs {} {}; {}", row.kernel, row.path(), reason.advice());
    Some((problem(message), policy.reaction(wish, reason)))
}

/// Returns the layers of the mapping that no site has.
fn unknown_layers(active: &Active) -> impl Iterator<Item = (Problem, Reaction)> {
    let reaction = match active.policy.is_strict() {
        true => Reaction::Strict,
        false => Reaction::Warn,
    };
    active.mapping.layers().filter_map(move |layer| {
        let problem = Problem {
            layer: layer.to_owned(),
            site: None,
            message: unknown_layer(layer)?,
        };
        Some((problem, reaction))
    })
}
