//! Plans in files, which are written once and checked later.

use super::{Plan, PlanRow};
use kernels_io::{escape, escape_lines};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// The version of the file format that this release writes and reads.
const SCHEMA: u32 = 1;

/// The content of a plan file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    device: String,
    dtype: String,
    mode: String,
    policy: String,
    #[serde(default)]
    site: Vec<FileSite>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSite {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<String>,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<String>,
    kernel: String,
    #[serde(rename = "crate", skip_serializing_if = "Option::is_none")]
    krate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crate_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    implementation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
}

/// The reason why a plan does not agree with a file.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum PlanCheckError {
    /// A file that is not a plan.
    #[error("not a plan of this release: {}", escape_lines(.0))]
    File(String),
    /// A file with a different plan.
    #[error(transparent)]
    Different(#[from] PlanDifference),
}

/// All differences between a plan and a file.
#[derive(Clone, PartialEq, Eq, Error)]
pub struct PlanDifference {
    differences: Vec<Difference>,
}

/// One difference between a file and a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A site that is missing in the file.
    Added {
        /// The site's name.
        site: String,
        /// The path that it takes.
        path: String,
    },
    /// A site that only the file has.
    Removed {
        /// The site's name.
        site: String,
        /// The path that it took.
        path: String,
    },
    /// A fact of a site, or of the plan as a whole, that changed.
    Changed {
        /// The site, or `None` for the whole plan.
        site: Option<String>,
        /// The name of the fact.
        what: &'static str,
        /// The value in the file.
        was: String,
        /// The value in the plan.
        is: String,
    },
}

impl PlanDifference {
    /// Returns the differences: those of the whole plan first, then those of each site.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }
}

impl fmt::Display for PlanDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plan differs in {} places", self.differences.len())?;
        for difference in &self.differences {
            write!(f, "\n  {difference}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { site, path } => write!(f, "+ {}: {}", escape(site), escape(path)),
            Self::Removed { site, path } => write!(f, "- {}: {}", escape(site), escape(path)),
            Self::Changed {
                site,
                what,
                was,
                is,
            } => {
                let site = site.as_deref().unwrap_or("the whole plan");
                let [site, was, is] = [site, was, is].map(escape);
                write!(f, "~ {site}: {what} was {was}, is {is}")
            }
        }
    }
}

impl Plan {
    /// Returns the plan as TOML, for a file that is checked in with the program.
    ///
    /// It contains everything that decides results: for each site the semantics key, the kernel with its crate and
    /// versions, and the implementation or the reason for the reference.
    pub fn to_toml(&self) -> String {
        toml::to_string(&File::of(self)).expect("text, numbers and tables are TOML")
    }

    /// Compares the plan with one that [`Plan::to_toml`] wrote.
    ///
    /// # Errors
    /// Returns an error if the text is not a plan, or if the plans differ. The error lists every difference.
    pub fn check(&self, toml: &str) -> Result<(), PlanCheckError> {
        let file: File = toml::from_str(toml)
            .map_err(|error| PlanCheckError::File(error.to_string().trim_end().to_owned()))?;
        if file.schema != SCHEMA {
            return Err(PlanCheckError::File(format!(
                "its schema is {}, and {SCHEMA} is read",
                file.schema
            )));
        }
        let differences = file.differences(&File::of(self));
        if differences.is_empty() {
            Ok(())
        } else {
            Err(PlanDifference { differences }.into())
        }
    }
}

impl File {
    fn of(plan: &Plan) -> Self {
        Self {
            schema: SCHEMA,
            device: plan.device.to_string(),
            dtype: plan.dtype.to_string(),
            mode: plan.mode.to_string(),
            policy: plan.policy.clone(),
            site: plan.sites.iter().map(FileSite::of).collect(),
        }
    }

    fn differences(&self, new: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        changed(&mut all, None, "device", &self.device, &new.device);
        changed(&mut all, None, "dtype", &self.dtype, &new.dtype);
        changed(&mut all, None, "mode", &self.mode, &new.mode);
        changed(&mut all, None, "policy", &self.policy, &new.policy);
        let (old, new) = (self.by_name(), new.by_name());
        for (name, site) in &old {
            match new.get(name) {
                Some(new) => site.differences(new, &mut all),
                None => all.push(Difference::Removed {
                    site: site.name.clone(),
                    path: site.path(),
                }),
            }
        }
        for (name, site) in &new {
            if !old.contains_key(name) {
                all.push(Difference::Added {
                    site: site.name.clone(),
                    path: site.path(),
                });
            }
        }
        all
    }

    /// Returns the sites by name, with a number that distinguishes sites of the same name.
    fn by_name(&self) -> BTreeMap<(&str, usize), &FileSite> {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let sites = self.site.iter().map(|site| {
            let number = numbers.entry(&site.name).or_default();
            *number += 1;
            ((site.name.as_str(), *number), site)
        });
        sites.collect()
    }
}

impl FileSite {
    fn of(row: &PlanRow) -> Self {
        Self {
            name: row.site.clone(),
            layer: row.layer.map(str::to_owned),
            key: row.key.clone(),
            condition: row.condition.map(str::to_owned),
            kernel: row.kernel.to_owned(),
            krate: row.krate.map(str::to_owned),
            crate_version: row.crate_version.map(str::to_owned),
            kernel_version: row.kernel_version,
            implementation: row.implementation.map(str::to_owned),
            reference: row.reason.map(|reason| reason.name().to_owned()),
        }
    }

    fn path(&self) -> String {
        let run = match (&self.implementation, &self.reference) {
            (Some(name), _) => format!("by {name}"),
            (None, Some(reason)) => format!("reference ({reason})"),
            (None, None) => "reference".to_owned(),
        };
        format!("{} {run}", self.kernel)
    }

    fn differences(&self, new: &Self, all: &mut Vec<Difference>) {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        let number = |value: Option<u32>| value.map_or("none".to_owned(), |n| n.to_string());
        let run = |site: &Self| match (&site.implementation, &site.reference) {
            (Some(name), _) => name.clone(),
            (None, reason) => format!("the reference ({})", text(reason)),
        };
        for (what, was, is) in [
            ("layer", text(&self.layer), text(&new.layer)),
            ("key", self.key.clone(), new.key.clone()),
            ("condition", text(&self.condition), text(&new.condition)),
            ("kernel", self.kernel.clone(), new.kernel.clone()),
            ("crate", text(&self.krate), text(&new.krate)),
            (
                "crate version",
                text(&self.crate_version),
                text(&new.crate_version),
            ),
            (
                "kernel version",
                number(self.kernel_version),
                number(new.kernel_version),
            ),
            ("implementation", run(self), run(new)),
        ] {
            changed(all, Some(&self.name), what, &was, &is);
        }
    }
}

fn changed(all: &mut Vec<Difference>, site: Option<&str>, what: &'static str, was: &str, is: &str) {
    if was != is {
        all.push(Difference::Changed {
            site: site.map(str::to_owned),
            what,
            was: was.to_owned(),
            is: is.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;
    use crate::dispatch::Mode;
    use crate::dispatch::tests::F32;
    use crate::reason::Reason;

    fn row(site: &str) -> PlanRow {
        PlanRow {
            site: site.to_owned(),
            layer: None,
            kernel: "npu_fused_rope",
            krate: Some("kernels-runtime"),
            crate_version: Some("0.1.0"),
            kernel_version: Some(1),
            mapped: None,
            missing: None,
            key: "rope()".to_owned(),
            implementation: Some("cpu-simd"),
            operators: Vec::new(),
            reason: None,
            lack: None,
            unmet: None,
            candidates: Vec::new(),
            is_step: false,
            is_idle: false,
            condition: None,
        }
    }

    fn plan(sites: Vec<PlanRow>) -> Plan {
        Plan {
            policy: "all".to_owned(),
            device: DeviceKind::Cpu,
            capability: 3,
            dtype: F32,
            mode: Mode::Training,
            sites,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_plan_agrees_with_its_file_on_any_machine_of_the_kind() {
        let old = plan(vec![row("a::f"), row("a::f"), row("b::f")]);
        let toml = old.to_toml();
        assert_eq!(old.check(&toml), Ok(()));
        let elsewhere = Plan {
            capability: 4,
            ..old
        };
        assert_eq!(elsewhere.check(&toml), Ok(()), "{toml}");
    }

    #[test]
    fn every_difference_is_listed() {
        let toml = plan(vec![row("a::f"), row("b::f")]).to_toml();
        let changed = PlanRow {
            layer: Some("rotary"),
            key: "rope(style=interleaved)".to_owned(),
            kernel: "acme_rope",
            krate: Some("acme"),
            crate_version: Some("2.0.0"),
            kernel_version: Some(7),
            implementation: None,
            reason: Some(Reason::Dtype),
            ..row("b::f")
        };
        let mut new = plan(vec![changed, row("c::f")]);
        new.mode = Mode::Inference;
        new.policy = "all,strict".to_owned();
        let Err(PlanCheckError::Different(difference)) = new.check(&toml) else {
            panic!("the plans differ")
        };
        let lines: Vec<_> = difference
            .differences()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            lines,
            [
                "~ the whole plan: mode was training, is inference",
                "~ the whole plan: policy was all, is all,strict",
                "- a::f: npu_fused_rope by cpu-simd",
                "~ b::f: layer was none, is rotary",
                "~ b::f: key was rope(), is rope(style=interleaved)",
                "~ b::f: kernel was npu_fused_rope, is acme_rope",
                "~ b::f: crate was kernels-runtime, is acme",
                "~ b::f: crate version was 0.1.0, is 2.0.0",
                "~ b::f: kernel version was 1, is 7",
                "~ b::f: implementation was cpu-simd, is the reference (dtype)",
                "+ c::f: npu_fused_rope by cpu-simd",
            ]
        );
        assert!(
            difference
                .to_string()
                .starts_with("the plan differs in 11 places\n")
        );
    }

    #[test]
    fn what_is_no_plan_is_an_error() {
        let plan = plan(vec![row("a::f")]);
        let toml = plan.to_toml();
        for (text, words) in [
            (String::new(), "schema"),
            ("x".to_owned(), "not a plan"),
            (toml.replace("schema = 1", "schema = 2"), "its schema is 2"),
            (toml.replace("policy =", "polcy ="), "polcy"),
            (toml.replace("kernel =", "colour = 1\nkernel ="), "colour"),
        ] {
            let error = plan.check(&text).unwrap_err();
            assert!(matches!(error, PlanCheckError::File(_)), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
