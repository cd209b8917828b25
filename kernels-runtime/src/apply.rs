//! Kernels by name, for the whole process: apply one kernel or a list of them.
//!
//! The functions are shorthands for the [`policy`]: one call makes the same checks and returns a report.

use crate::context::{self, Active};
use crate::dispatch::{Mode, Plan, PlanError, Query, TensorType, plan_under};
use crate::policy::{self, Policy, PolicyError};
use crate::registry::{self, FloatType, RegistryError, kernels};
use crate::warning::warning;
use burn::tensor::{DType, Device};
use kernels_io::Table;
use serde::Serialize;
use std::fmt;
use thiserror::Error;

/// The kernels that [`apply_default_kernels`] applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Include {
    /// Every kernel, where it can run: `"auto"`, `"all"` or `true`.
    Auto,
    /// No kernel: `"none"`, `""` or `false`.
    None,
    /// These kernels, each an explicit request: a list, or a text with commas.
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

/// The reason why nothing was applied.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// An unknown kernel, or a `BURN_KERNELS` that holds no policy.
    #[error("nothing was applied: {0}")]
    Policy(#[from] PolicyError),
    /// The registry of kernels is inconsistent.
    #[error("nothing was applied: {0}")]
    Registry(#[from] RegistryError),
    /// A site that can't run a kernel that was asked for.
    #[error("nothing was applied: {}", .0.join("; "))]
    Unmet(Vec<String>),
    /// Kernels that no site runs, under a strict policy.
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

/// The result of applying kernels.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// Every kernel that was asked for. With `auto`, every registered kernel.
    pub kernels: Vec<AppliedKernel>,
    /// The plan of every site.
    pub plan: Plan,
}

/// One kernel of [`Applied`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AppliedKernel {
    /// The kernel's id.
    pub id: &'static str,
    /// The number of sites that name it or are mapped to it.
    pub sites: usize,
    /// The number of these sites that will run an implementation of it on the device.
    pub fused: usize,
}

/// The device, dtype and mode to apply kernels for. The report describes them, and explicit requests are checked for
/// them.
///
/// [`apply_kernel`] uses the device's default float type and training.
///
/// ```no_run
/// # extern crate kernels_runtime as burn_kernels;
/// use burn::tensor::Device;
/// use burn_kernels::apply::Apply;
/// use burn_kernels::dispatch::Mode;
///
/// let applied = Apply::on(&Device::flex())
///     .mode(Mode::Inference)
///     .kernels("npu_fused_rmsnorm, npu_fused_rope")?;
/// println!("{applied}");
/// # Ok::<(), burn_kernels::apply::ApplyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Apply {
    device: Device,
    dtype: DType,
    mode: Mode,
}

impl Apply {
    /// Creates a request for this device, with its default float type, for training.
    pub fn on(device: &Device) -> Self {
        Self {
            device: device.clone(),
            dtype: device.settings().float_dtype.into(),
            mode: Mode::Training,
        }
    }

    /// Sets the dtype of the tensors.
    pub fn dtype(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// Sets the mode, training or inference.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Applies one kernel, as [`apply_kernel`] does.
    ///
    /// # Errors
    /// Returns an error as [`apply_kernel`] does.
    pub fn kernel(&self, id: &str) -> Result<Applied, ApplyError> {
        let policy = policy::current()?.enable(id)?;
        self.apply(policy, &Include::from_iter([id]))
    }

    /// Applies kernels and no others, as [`apply_default_kernels`] does.
    ///
    /// # Errors
    /// Returns an error as [`apply_default_kernels`] does.
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

    /// Checks the policy, then installs it.
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
            warning!("no site runs {}", idle.join(", "));
        }
        policy::install(policy);
        Ok(applied)
    }

    /// Returns the plan that would hold under this policy.
    fn plan(&self, policy: &Policy) -> Result<Plan, ApplyError> {
        let in_force = context::current()?;
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

/// Returns the kernels that were asked for, with the numbers of their sites in the plan.
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
    /// Returns the kernels that were asked for by name and that no site runs. With `auto`, returns all kernels if no
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
                kernel.id.to_owned(),
                kernel.sites.to_string(),
                kernel.fused.to_string(),
                warning.to_owned(),
            ]);
        }
        writeln!(f, "{table}\n{}", self.plan)
    }
}

/// Requests one kernel explicitly in the whole process, in addition to the kernels enabled already, and returns the
/// plan of every site for training on `device`. The request holds for every model of the process: to limit it to some,
/// write a [`policy`] with patterns of sites, or open a [`policy::scope`] around their calls. For another dtype or mode,
/// see [`Apply`].
///
/// # Errors
/// Returns an error if no kernel has this id (the message lists similar ids), if a site that names the kernel can't run
/// it on the device, or if the policy is strict and no site runs it. Nothing is changed then.
pub fn apply_kernel(id: &str, device: &Device) -> Result<Applied, ApplyError> {
    Apply::on(device).kernel(id)
}

/// Enables these kernels and no others in the whole process, and returns the plan of every site for training on `device`.
///
/// `include` is `"auto"`, `"none"`, a text of ids with commas, a list of ids, or a `bool`. Ids are explicit requests.
/// The rest of the policy (`strict`, `deterministic`, reactions, `prefer`, its mapping) stays; its rules for single
/// kernels, sites and layers are dropped. For another dtype or mode, see [`Apply`].
///
/// # Errors
/// Returns an error as [`apply_kernel`] does.
pub fn apply_default_kernels(
    include: impl Into<Include>,
    device: &Device,
) -> Result<Applied, ApplyError> {
    Apply::on(device).kernels(include)
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
        // An empty name is kept, although no kernel has it.
        assert_eq!(Include::from("a,,b"), Include::from(["a", "", "b"]));
    }
}
