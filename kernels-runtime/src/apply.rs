//! Kernels by name, for the whole process: apply one, or apply a list.
//!
//! A shorthand for the [`policy`]: the same checks, one call, and a report.

use crate::active::{self, Active};
use crate::dispatch::{Mode, Plan, PlanError, Query, TensorType, plan_under};
use crate::policy::{self, Policy, PolicyError};
use crate::registry::{self, FloatType, RegistryError, kernels};
use crate::table::Table;
use burn::tensor::{DType, Device};
use serde::Serialize;
use std::fmt;
use thiserror::Error;

/// Which kernels [`apply_default_kernels`] applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Include {
    /// Every kernel, where it can run: `"auto"`, `"all"` or `true`.
    Auto,
    /// No kernel: `"none"`, `""` or `false`.
    None,
    /// These, each asked for explicitly: a list, or a text with commas.
    Kernels(Vec<String>),
}

impl From<&str> for Include {
    fn from(text: &str) -> Self {
        match text.trim() {
            "auto" | "all" => Self::Auto,
            "" | "none" => Self::None,
            names => names.split(',').map(str::trim).collect(),
        }
    }
}

impl From<bool> for Include {
    fn from(on: bool) -> Self {
        if on { Self::Auto } else { Self::None }
    }
}

impl<'a> FromIterator<&'a str> for Include {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        Self::Kernels(names.into_iter().map(str::to_owned).collect())
    }
}

impl From<&[&str]> for Include {
    fn from(names: &[&str]) -> Self {
        names.iter().copied().collect()
    }
}

impl<const N: usize> From<[&str; N]> for Include {
    fn from(names: [&str; N]) -> Self {
        names.into_iter().collect()
    }
}

impl From<Vec<String>> for Include {
    fn from(names: Vec<String>) -> Self {
        Self::Kernels(names)
    }
}

/// Why nothing was applied.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A kernel that there is not, or a bad `BURN_KERNELS`.
    #[error("nothing was applied: {0}")]
    Policy(#[from] PolicyError),
    /// The kernels that are linked in don't go together.
    #[error("nothing was applied: {0}")]
    Registry(#[from] RegistryError),
    /// A site can't run a kernel that was asked for.
    #[error("nothing was applied: {}", .0.join("; "))]
    Unmet(Vec<String>),
    /// The policy is strict, and no site runs these kernels.
    #[error("nothing was applied: no site runs {}", .0.join(", "))]
    NoSite(Vec<String>),
}

impl From<PlanError> for ApplyError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Policy(error) => Self::Policy(error),
            PlanError::Registry(error) => Self::Registry(error),
        }
    }
}

/// What was applied.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// Every kernel that was asked for; with `auto` every kernel there is.
    pub kernels: Vec<AppliedKernel>,
    /// What every site will do.
    pub plan: Plan,
}

/// One kernel of [`Applied`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AppliedKernel {
    /// Its id.
    pub id: &'static str,
    /// How many sites name it or are mapped to it.
    pub sites: usize,
    /// How many of them will run an implementation of it on the device.
    pub fused: usize,
}

/// Where kernels are applied: the device, dtype and mode that the report is about and that
/// explicit requests are checked for. Without more, Burn's default device, its default float type
/// and training.
///
/// ```no_run
/// use burn::tensor::Device;
/// use kernels_runtime::apply::Apply;
/// use kernels_runtime::dispatch::Mode;
///
/// let applied = Apply::on(&Device::flex())
///     .mode(Mode::Inference)
///     .kernels("npu_fused_rmsnorm, npu_fused_rope")?;
/// println!("{applied}");
/// # Ok::<(), kernels_runtime::apply::ApplyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Apply {
    device: Device,
    dtype: DType,
    mode: Mode,
}

impl Apply {
    /// On this device, with its default float type, for training.
    pub fn on(device: &Device) -> Self {
        Self {
            device: device.clone(),
            dtype: device.settings().float_dtype.into(),
            mode: Mode::Training,
        }
    }

    /// With tensors of this type.
    pub fn dtype(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// For training or inference.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// As [`apply_kernel`].
    ///
    /// # Errors
    /// As [`apply_kernel`].
    pub fn kernel(&self, id: &str) -> Result<Applied, ApplyError> {
        let policy = policy::current()?.enable(id)?;
        self.apply(policy, &Include::from_iter([id]))
    }

    /// As [`apply_default_kernels`].
    ///
    /// # Errors
    /// As [`apply_default_kernels`].
    pub fn kernels(&self, include: impl Into<Include>) -> Result<Applied, ApplyError> {
        let include = include.into();
        let current = policy::current()?;
        let policy = match &include {
            Include::Auto => current.with_base_only(Policy::auto()),
            Include::None => current.with_base_only(Policy::reference()),
            Include::Kernels(ids) => {
                let none = current.with_base_only(Policy::reference());
                ids.iter().try_fold(none, |policy, id| policy.enable(id))?
            }
        };
        self.apply(policy, &include)
    }

    /// Checks, then installs.
    fn apply(&self, policy: Policy, include: &Include) -> Result<Applied, ApplyError> {
        registry::check()?;
        let strict = policy.is_strict();
        let plan = self.plan(&policy)?;
        let unmet: Vec<_> = plan
            .sites
            .iter()
            .filter_map(|row| row.unmet.clone())
            .collect();
        if !unmet.is_empty() {
            return Err(ApplyError::Unmet(unmet));
        }
        let applied = Applied {
            kernels: counted(&plan, include),
            plan,
        };
        let idle: Vec<_> = applied.idle(include).map(str::to_owned).collect();
        if !idle.is_empty() {
            if strict {
                return Err(ApplyError::NoSite(idle));
            }
            tracing::warn!("no site runs {}", idle.join(", "));
        }
        policy::install(policy);
        Ok(applied)
    }

    /// What would be in force with this policy.
    fn plan(&self, policy: &Policy) -> Result<Plan, ApplyError> {
        let in_force = active::current()?;
        let active = Active {
            policy: policy.clone(),
            mapping: crate::mapping::current().extended(policy.mapping()),
            mode: in_force.mode,
        };
        let tensors =
            FloatType::from_dtype(self.dtype).map_or(TensorType::Unsupported, TensorType::Float);
        let query = Query::new(&self.device, tensors, self.mode);
        Ok(plan_under(&active, query))
    }
}

/// The kernels that were asked for, with the sites that the plan gives them.
fn counted(plan: &Plan, include: &Include) -> Vec<AppliedKernel> {
    let is_asked_for = |id: &str| match include {
        Include::Auto => true,
        Include::None => false,
        Include::Kernels(ids) => ids.iter().any(|asked| asked == id),
    };
    kernels()
        .filter(|kernel| is_asked_for(kernel.id))
        .map(|kernel| {
            let mine = || plan.sites.iter().filter(|row| row.kernel == kernel.id);
            AppliedKernel {
                id: kernel.id,
                sites: mine().count(),
                fused: mine().filter(|row| row.implementation.is_some()).count(),
            }
        })
        .collect()
}

impl Applied {
    /// Kernels that were asked for by name and that no site runs; with `auto` all kernels, if no
    /// site runs any.
    fn idle(&self, include: &Include) -> impl Iterator<Item = &'static str> {
        let none_runs = self.kernels.iter().all(|kernel| kernel.fused == 0);
        let counts = *include != Include::Auto || none_runs;
        let idle = self
            .kernels
            .iter()
            .filter(move |kernel| counts && kernel.fused == 0);
        idle.map(|kernel| kernel.id)
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["kernel", "sites", "fused", ""]);
        for kernel in &self.kernels {
            let warning = match (kernel.sites, kernel.fused) {
                (0, _) => "warning: no site asks for it",
                (_, 0) => "warning: no site can run it here",
                _ => "",
            };
            table.row([
                kernel.id,
                &kernel.sites.to_string(),
                &kernel.fused.to_string(),
                warning,
            ]);
        }
        writeln!(f, "{table}\n{}", self.plan)
    }
}

/// Asks for one kernel in the whole process, beside what runs already, and returns what every site
/// will do. For another device than the default one, dtype or mode, see [`Apply`].
///
/// # Errors
/// No kernel has this id (the message lists what is near), a site that names it can't run it on
/// the device, or, under a strict policy, no site runs it. Then nothing is changed.
pub fn apply_kernel(id: &str) -> Result<Applied, ApplyError> {
    Apply::on(&Device::default()).kernel(id)
}

/// Applies kernels in the whole process and no others, and returns what every site will do.
///
/// `include` is `"auto"`, `"none"`, a text of ids with commas, a list of ids, or a `bool`. Ids are
/// explicit requests. What the policy says besides of kernels and sites (`strict`, reactions,
/// `prefer`, its mapping) stays. For another device than the default one, dtype or mode, see
/// [`Apply`].
///
/// # Errors
/// As for [`apply_kernel`].
pub fn apply_default_kernels(include: impl Into<Include>) -> Result<Applied, ApplyError> {
    Apply::on(&Device::default()).kernels(include)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_the_ways_to_say_it() {
        let both = Include::from(["a", "b"]);
        for text in ["a,b", " a , b ", "a, b"] {
            assert_eq!(Include::from(text), both);
        }
        assert_eq!(Include::from(&["a", "b"][..]), both);
        assert_eq!(Include::from(vec!["a".to_owned(), "b".to_owned()]), both);
        assert_eq!(Include::from(" auto "), Include::Auto);
        assert_eq!(Include::from(true), Include::Auto);
        for none in [
            Include::from("none"),
            Include::from(""),
            Include::from(false),
        ] {
            assert_eq!(none, Include::None);
        }
        // An empty name is not dropped: no kernel has it.
        assert_eq!(Include::from("a,,b"), Include::from(["a", "", "b"]));
    }
}
