//! A rule of a mapping, and its two written forms.

use super::{MappingError, ModeFlags};
use crate::device::DeviceKind;
use crate::registry::CapabilityRange;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A rule of a [`Mapping`](super::Mapping): the target of a layer on a kind of device, for some capabilities and a
/// mode.
///
/// Its text is `layer@device=kernel`, `layer@device:80..=90=kernel` or `layer@device:80../training+compile=kernel`.
/// Without capabilities the rule is for all of them, and without a mode it is the fallback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name that sites carry as `layer = "…"`.
    pub layer: String,
    /// The kind of device.
    pub device: DeviceKind,
    /// The capabilities of devices; see [`DeviceKind::capability`].
    pub capability: CapabilityRange,
    /// The mode.
    pub mode: ModeFlags,
    /// The kernel that runs, or the reference.
    pub target: Target,
}

/// The target of a mapped layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The kernel with this id.
    Kernel(String),
    /// The layer's reference.
    Reference,
}

impl Rule {
    /// Creates a rule for `layer` on every device of a kind, as the fallback of all modes. `kernel` is the id of a
    /// kernel or `reference`.
    pub fn new(layer: impl Into<String>, device: DeviceKind, kernel: impl Into<Target>) -> Self {
        Self {
            layer: layer.into(),
            device,
            capability: CapabilityRange::ANY,
            mode: ModeFlags::FALLBACK,
            target: kernel.into(),
        }
    }

    /// Restricts the rule to devices of these capabilities.
    pub fn on(self, capability: CapabilityRange) -> Self {
        Self { capability, ..self }
    }

    /// Restricts the rule to this mode.
    pub fn during(self, mode: ModeFlags) -> Self {
        Self { mode, ..self }
    }
}

impl From<&str> for Target {
    fn from(name: &str) -> Self {
        match name {
            "reference" => Self::Reference,
            id => Self::Kernel(id.to_owned()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel(id) => id,
            Self::Reference => "reference",
        })
    }
}

/// The text form, which parses back.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.layer, self.device)?;
        if self.capability != CapabilityRange::ANY {
            write!(f, ":{}", self.capability)?;
        }
        if self.mode != ModeFlags::FALLBACK {
            write!(f, "/{}", self.mode)?;
        }
        write!(f, "={}", self.target)
    }
}

impl FromStr for Rule {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        let malformed = || MappingError::Rule {
            rule: text.to_owned(),
        };
        let (layer, rest) = text.split_once('@').ok_or_else(malformed)?;
        // The text is split at the last `=`, because an interval may contain one.
        let (rest, target) = rest.rsplit_once('=').ok_or_else(malformed)?;
        let (rest, mode) = match rest.split_once('/') {
            Some((rest, mode)) => (rest, mode.parse()?),
            None => (rest, ModeFlags::FALLBACK),
        };
        let (device, capability) = match rest.split_once(':') {
            Some((device, range)) => (device, range.parse().map_err(MappingError::Text)?),
            None => (rest, CapabilityRange::ANY),
        };
        if target.is_empty() {
            return Err(malformed());
        }
        let device = device.parse().map_err(MappingError::Text)?;
        Ok(Self::new(layer, device, target).on(capability).during(mode))
    }
}

/// A rule as a TOML table.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    layer: String,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    capability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    kernel: String,
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_any = self.capability == CapabilityRange::ANY;
        let is_fallback = self.mode == ModeFlags::FALLBACK;
        let table = Table {
            layer: self.layer.clone(),
            device: self.device.to_string(),
            capability: (!is_any).then(|| self.capability.to_string()),
            mode: (!is_fallback).then(|| self.mode.to_string()),
            kernel: self.target.to_string(),
        };
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let table = Table::deserialize(deserializer)?;
        let mut rule = Self::new(
            table.layer,
            table.device.parse().map_err(D::Error::custom)?,
            table.kernel.as_str(),
        );
        if let Some(range) = table.capability {
            rule.capability = range.parse().map_err(D::Error::custom)?;
        }
        if let Some(mode) = table.mode {
            rule.mode = mode.parse().map_err(D::Error::custom)?;
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_read_back() {
        for text in [
            "RMSNorm@cpu=reference",
            "RMSNorm@cuda:80..=90=npu_fused_rmsnorm",
            "MLP@npu:40../training+compile=acme-mlp",
            "MLP@webgpu/inference=acme-mlp",
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            let toml = toml::to_string(&rule).unwrap();
            assert_eq!(toml::from_str::<Rule>(&toml).unwrap(), rule, "{toml}");
        }
    }

    #[test]
    fn what_is_no_rule_is_an_error() {
        for (text, words) in [
            ("RMSNorm=a", "layer@device=kernel"),
            ("RMSNorm@cpu", "layer@device=kernel"),
            ("RMSNorm@cpu=", "layer@device=kernel"),
            ("RMSNorm@gpu=a", "unknown kind of device `gpu`"),
            ("RMSNorm@cpu/train=a", "unknown mode `train`"),
            ("RMSNorm@cpu:9..=3=a", "9..=3"),
            ("RMSNorm@cpu:x=a", "`x`"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
