//! Validate every named layer, then hold the mapping and a mode fast.

use super::{MappingError, ModeFlags};
use crate::active::{self, Active};
use crate::dispatch::{Plan, PlanError, PlanRow, Query, TensorType, plan_under};
use crate::near::nearest;
use crate::policy::{Policy, PolicyError, Reaction, Wish};
use crate::reason::Reason;
use crate::registry::{self, FloatType, RegistryError, SPECS};
use burn::tensor::{DType, Device};
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// Why nothing was kernelized.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelizeError {
    /// No model can be kernelized for this mode.
    #[error(transparent)]
    Mode(#[from] MappingError),
    /// `BURN_KERNELS` holds no policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The kernels that are linked in don't go together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Layers that can't run what they are mapped to. Nothing was changed.
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

/// A layer that can't run what it is mapped to, or that nothing is mapped to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The layer.
    pub layer: String,
    /// The site with that layer name; `None` for a layer of the mapping that no site has.
    pub site: Option<String>,
    /// What is wrong and what to do.
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

/// Checks every site with a layer name against the mapping in force on this thread, for `mode` on
/// `device` and its default float type; then holds that mapping and the mode fast for the whole
/// process, until [`revert`] or the next call. Returns what every site will run.
///
/// Decisions follow a registered mapping without this. It adds three things: all problems are
/// found at once and before the first call; the mode is the one given, also for calls without
/// autodiff (a `training` kernel in evaluation, say) and for `compile`, which no call can tell; and
/// a mapping that is registered or scoped later has no effect on other threads until the next
/// call. A [`scope`](super::scope) of a thread still wins on it.
///
/// Where a layer can't run what it is mapped to, or nothing is mapped to it, the
/// [reaction](crate::policy::Policy::react) of the reason counts: an error, a warning in the log
/// or nothing. A kernel that is registered *for* a mode (not as `fallback`) and can't do it on this
/// device is always an error, and so is, under [`Policy::strict`], a layer of the mapping that no
/// site has.
///
/// # Errors
/// The mode is none; a layer has a problem that is an error; there is no valid policy; the
/// registered kernels don't go together. Then nothing is changed, and all layers are listed.
pub fn kernelize(mode: ModeFlags, device: &Device) -> Result<Plan, KernelizeError> {
    mode.check_request()?;
    registry::check()?;
    let in_force = active::current()?;
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
            tracing::warn!("{problem}");
        }
    }
    active::kernelize(Some((mapping, mode)));
    Ok(plan)
}

/// Lets go of what [`kernelize`] held fast: the registered mapping and the mode of each call count
/// again. Without a registered mapping every site runs the kernel of its attribute.
pub fn revert() {
    active::kernelize(None);
}

/// The mode that [`kernelize`] holds fast.
pub fn kernelized() -> Option<ModeFlags> {
    active::kernelized_mode()
}

/// What is wrong with a named layer, and what to do about it.
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

/// Layers of the mapping that no site has, most likely misspelled.
fn unknown_layers(active: &Active) -> Vec<(Problem, Reaction)> {
    let known: BTreeSet<&str> = SPECS.iter().filter_map(|site| site.layer).collect();
    let reaction = match active.policy.is_strict() {
        true => Reaction::Strict,
        false => Reaction::Warn,
    };
    let layers = active
        .mapping
        .layers()
        .filter(|layer| !known.contains(layer));
    layers
        .map(|layer| {
            let near = nearest(layer, known.iter().copied())
                .map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
            let problem = Problem {
                layer: layer.to_owned(),
                site: None,
                message: format!("the mapping names it, but no site of this program has it{near}"),
            };
            (problem, reaction)
        })
        .collect()
}
