//! The kernel of a named layer, by kind of device, capability and mode.
//!
//! A site may have a layer name, `#[fused_kernel("…", layer = "RMSNorm")]`. A [`Mapping`] assigns kernels to such
//! names. The sites then run these kernels instead of the ones that their attributes name. A target is any registered
//! kernel of the site's operation that accepts the site's semantics key, or the reference. A site without an entry runs
//! the kernel of its attribute.
//!
//! A mapping takes effect when it is registered. Nothing has to be re-applied, and nothing in a model changes. The
//! mapping in force is that of the thread's innermost [`scope`], otherwise the one that [`kernelize`] fixed, otherwise
//! the registered one. The rules of the [policy](crate::policy::Policy::map) are added to it and take precedence.
//!
//! ```
//! # extern crate kernels_runtime as burn_kernels;
//! use burn_kernels::dispatch::DeviceKind;
//! use burn_kernels::mapping::{self, Mapping, ModeFlags, Rule};
//!
//! let mapping = Mapping::new()
//!     .with(Rule::new("RMSNorm", DeviceKind::Cpu, "npu_fused_rmsnorm"))?
//!     .with(Rule::new("RMSNorm", DeviceKind::Cpu, "reference").during(ModeFlags::INFERENCE))?;
//! mapping::register(mapping); // adds to what is registered
//! # Ok::<(), mapping::MappingError>(())
//! ```
//!
//! # Look-up of an entry
//!
//! 1. The layer's name. Without an entry, the reason is [`Reason::NoLayer`].
//! 2. The kind of device. Without an entry, the reason is [`Reason::NoDevice`].
//! 3. The smallest interval of capabilities that contains the device's. Without one, the reason is
//!    [`Reason::NoCapability`].
//! 4. The mode, in the following order. Without an entry, the reason is [`Reason::NoMode`].
//!
//! | requested mode | modes tried in order |
//! |---|---|
//! | `inference` | `inference`, `inference+compile`, `training`, `training+compile`, `fallback` |
//! | `inference+compile` | `inference+compile`, `training+compile`, `fallback` |
//! | `training` | `training`, `training+compile`, `fallback` |
//! | `training+compile` | `training+compile`, `fallback` |
//!
//! A call requests `training` if autodiff is enabled for one of its tensors and `inference` otherwise, unless
//! [`kernelize`] fixed a mode.
//!
//! Without an entry for a call, the kernel of the attribute runs, with the [reaction](crate::policy::Policy::react)
//! to the reason above. If an entry is found but its kernel cannot run, the reference runs, with the reaction to the
//! kernel's reason.

mod error;
mod intervals;
mod kernelize;
mod mode;
mod rule;
mod scope;

pub use error::MappingError;
pub use kernelize::{KernelizeError, Problem, kernelize, kernelized, revert};
pub use mode::ModeFlags;
pub use rule::{Rule, Target};
pub use scope::{MappingGuard, current, register, registered, replace, scope, scope_only};

use crate::device::DeviceKind;
use crate::near::{nearest, unknown};
use crate::reason::Reason;
use crate::registry::{self, CapabilityRange, Implementation, SPECS, kernels};
use intervals::Intervals;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

type Modes = BTreeMap<ModeFlags, Target>;

/// The kernels of named layers; see the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    layers: BTreeMap<String, BTreeMap<DeviceKind, Intervals<Modes>>>,
}

/// The result of looking up a call in a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// The target, and the mode that it is registered for.
    Found(&'a Target, ModeFlags),
    /// No entry, and the reason.
    Missing(Reason),
}

impl Mapping {
    /// Creates the empty mapping, with which every site runs the kernel of its attribute.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule. It replaces a rule for the same layer, kind of device, interval and mode. Rules for other modes of
    /// the interval stay.
    ///
    /// # Errors
    /// Returns an error if the layer has no name, if the mode is invalid, if no kernel has the id, or if the kernel
    /// does not support the mode it is registered for: `training` without a gradient, or `compile` with an
    /// implementation that ends the fusion stream.
    pub fn with(mut self, rule: Rule) -> Result<Self, MappingError> {
        rule.mode.check_registration()?;
        check_layer(&rule.layer)?;
        if let Target::Kernel(id) = &rule.target {
            check_kernel(&rule, id)?;
        }
        self.put(rule);
        Ok(self)
    }

    fn put(&mut self, rule: Rule) {
        let devices = self.layers.entry(rule.layer).or_default();
        let intervals = devices.entry(rule.device).or_default();
        intervals
            .entry(rule.capability)
            .insert(rule.mode, rule.target);
    }

    /// Returns this mapping together with `other`, whose rules take precedence.
    pub fn extended(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for rule in other.rules() {
            both.put(rule);
        }
        both
    }

    /// Returns `true` without rules.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the names of the layers that have rules.
    pub fn layers(&self) -> impl Iterator<Item = &str> {
        self.layers.keys().map(String::as_str)
    }

    /// Returns the rules.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.layers.iter().flat_map(|(layer, devices)| {
            devices.iter().flat_map(move |(device, intervals)| {
                intervals.iter().flat_map(move |(capability, modes)| {
                    modes.iter().map(move |(mode, target)| Rule {
                        layer: layer.clone(),
                        device: *device,
                        capability,
                        mode: *mode,
                        target: target.clone(),
                    })
                })
            })
        })
    }

    /// Reads a mapping from TOML, an array of tables `[[mapping]]` as in
    /// [`Policy::from_toml`](crate::policy::Policy::from_toml).
    ///
    /// # Errors
    /// Returns an error if the text is not TOML, has an unknown key, or has a rule that [`Mapping::with`] refuses.
    pub fn from_toml(text: &str) -> Result<Self, MappingError> {
        let invalid = |error: toml::de::Error| MappingError::Toml(error.to_string());
        let table: toml::Table = toml::from_str(text).map_err(invalid)?;
        if let Some(key) = table.keys().find(|key| *key != "mapping") {
            return Err(MappingError::unknown("key of a mapping", key, ["mapping"]));
        }
        let file: File = toml::from_str(text).map_err(invalid)?;
        file.mapping.into_iter().try_fold(Self::new(), Self::with)
    }

    /// Returns the TOML form, which [`Mapping::from_toml`] reads back.
    pub fn to_toml(&self) -> String {
        let file = File {
            mapping: self.rules().collect(),
        };
        toml::to_string(&file).expect("rules are tables of text")
    }

    /// Looks up a call at a site with this layer name.
    pub(crate) fn find(
        &self,
        layer: &str,
        device: DeviceKind,
        capability: u16,
        mode: ModeFlags,
    ) -> Entry<'_> {
        let Some(devices) = self.layers.get(layer) else {
            return Entry::Missing(Reason::NoLayer);
        };
        let Some(intervals) = devices.get(&device) else {
            return Entry::Missing(Reason::NoDevice);
        };
        let Some(modes) = intervals.smallest(capability) else {
            return Entry::Missing(Reason::NoCapability);
        };
        let mut order = mode.order().iter();
        order
            .find_map(|mode| Some(Entry::Found(modes.get(mode)?, *mode)))
            .unwrap_or(Entry::Missing(Reason::NoMode))
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    mapping: Vec<Rule>,
}

/// Returns the layer names of the sites that are linked in.
fn known_layers() -> BTreeSet<&'static str> {
    SPECS.iter().filter_map(|site| site.layer).collect()
}

/// Returns the problem with a layer that no site of this program has: it is most likely misspelled.
pub(crate) fn unknown_layer(layer: &str) -> Option<String> {
    let known = known_layers();
    let near = nearest(layer, known.iter().copied())
        .map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
    (!known.contains(layer))
        .then(|| format!("the mapping names it, but no site of this program has it{near}"))
}

/// Checks that a site of this program has the layer.
///
/// # Errors
/// Returns an error with the nearest name if none has.
pub(crate) fn check_known(layer: &str) -> Result<(), MappingError> {
    check_layer(layer)?;
    let known = known_layers();
    match known.contains(layer) {
        true => Ok(()),
        false => Err(MappingError::unknown("layer", layer, known)),
    }
}

fn check_layer(layer: &str) -> Result<(), MappingError> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if layer.is_empty() || !layer.chars().all(is_name) {
        return Err(MappingError::Text(format!(
            "invalid name `{layer}` of a layer: names have letters, digits, `_`, `-` and `.`"
        )));
    }
    Ok(())
}

/// Checks that the kernel exists and supports the mode. An implementation that this build does not have is not an
/// error, because the same mapping may serve other builds.
fn check_kernel(rule: &Rule, id: &str) -> Result<(), MappingError> {
    let kernel = registry::kernel(id).ok_or_else(|| {
        MappingError::Text(unknown("kernel", id, kernels().map(|kernel| kernel.id)))
    })?;
    let here: Vec<_> = kernel
        .implementations
        .iter()
        .filter(|one| one.device.contains(rule.device) && overlap(one.capability, rule.capability))
        .collect();
    if here.is_empty() || here.iter().any(|one| lacks(one, rule.mode).is_none()) {
        return Ok(());
    }
    let why = here.iter().find_map(|one| lacks(one, rule.mode));
    Err(MappingError::CannotDo {
        layer: rule.layer.clone(),
        kernel: id.to_owned(),
        mode: rule.mode,
        device: rule.device,
        why: why.unwrap_or("it cannot"),
    })
}

/// Returns the feature that an implementation lacks for a mode, if any.
fn lacks(implementation: &Implementation, mode: ModeFlags) -> Option<&'static str> {
    if mode.contains(ModeFlags::TRAINING) && !implementation.gradient.is_some() {
        return Some("it has no gradient there");
    }
    if mode.contains(ModeFlags::COMPILE) && implementation.fusion_barrier {
        return Some("it ends Burn's fusion stream there");
    }
    None
}

fn overlap(a: CapabilityRange, b: CapabilityRange) -> bool {
    a.min <= b.max && b.min <= a.max
}

#[cfg(test)]
mod tests;
