use super::choose::candidates;
use super::{Decision, DeviceKind, Mode, Query, TensorType, choose};
use crate::policy::{self, PolicyError};
use crate::registry::{self, FloatType, sites};
use crate::table::Table;
use burn::tensor::{DType, Device};
use serde::Serialize;
use std::fmt;

/// What every site of the program will do on one device, without running it.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The policy in force.
    pub policy: String,
    /// The kind of device.
    pub device: DeviceKind,
    /// The type of the tensors.
    pub dtype: TensorType,
    /// With or without autodiff.
    pub mode: Mode,
    /// One row a site, sorted by name.
    pub sites: Vec<PlanRow>,
}

/// What one site will do.
#[derive(Debug, Serialize)]
pub struct PlanRow {
    /// The site's full name.
    pub site: String,
    /// The kernel that its attribute names.
    pub kernel: &'static str,
    /// That kernel's version; `None` if it is not linked in.
    pub kernel_version: Option<u32>,
    /// The site's semantics key, printed.
    pub key: String,
    /// The implementation that will run; `None` for the reference.
    pub implementation: Option<&'static str>,
    /// Why the reference runs, or why an explicit request can't be met.
    pub reason: Option<String>,
    /// Whether the policy asks for the kernel and the call would panic.
    pub unmet: bool,
    /// Each implementation that was refused: its name and the reason.
    pub rejected: Vec<(&'static str, String)>,
}

/// Plans every site for tensors of `dtype` on `device`, under the policy in force.
///
/// # Errors
/// `BURN_KERNELS` holds no policy.
pub fn plan(device: &Device, dtype: DType, mode: Mode) -> Result<Plan, PolicyError> {
    let policy = policy::current()?;
    let query = Query {
        device: DeviceKind::of(device),
        tensors: FloatType::from_dtype(dtype).map_or(TensorType::Unsupported, TensorType::Float),
        mode,
        condition: true,
    };
    let sites = sites()
        .map(|site| {
            let spec = site.spec();
            let kernel = registry::kernel(spec.kernel);
            let (implementation, reason, unmet) = match choose(spec, &policy, query) {
                Ok(Decision::Fused(implementation)) => (Some(implementation.name), None, false),
                Ok(Decision::Reference(reason)) => (None, Some(reason.to_string()), false),
                Err(unmet) => (None, Some(unmet.to_string()), true),
            };
            PlanRow {
                site: site.name(),
                kernel: spec.kernel,
                kernel_version: kernel.map(|kernel| kernel.version),
                key: spec.key.to_string(),
                implementation,
                reason,
                unmet,
                rejected: kernel
                    .into_iter()
                    .flat_map(|kernel| candidates(kernel, spec.key, query))
                    .filter_map(|c| Some((c.implementation.name, c.refused?.to_string())))
                    .collect(),
            }
        })
        .collect();
    Ok(Plan {
        policy: policy.to_string(),
        device: query.device,
        dtype: query.tensors,
        mode,
        sites,
    })
}

impl Plan {
    /// Whether every explicit request can be met.
    pub fn is_met(&self) -> bool {
        self.sites.iter().all(|row| !row.unmet)
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
        let mut table = Table::new(["site", "kernel", "semantics", "path"]);
        for row in &self.sites {
            let path = match (row.implementation, &row.reason) {
                (Some(name), _) => format!("fused {name}"),
                (None, Some(reason)) => format!("reference: {reason}"),
                (None, None) => "reference".to_owned(),
            };
            table.row([&row.site, row.kernel, &row.key, &path]);
        }
        table.fmt(f)
    }
}
