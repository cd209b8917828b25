//! The implementation that attention runs, by name.

use super::{Policy, PolicyError, SitePattern};
use crate::near::unknown;
use crate::registry::{KernelSpec, SPECS, SiteSpec, kernels};
use std::fmt;

const OP: &str = "attention";

/// The names that are not those of kernels and implementations.
const AUTO: &str = "auto";
const REFERENCE: &str = "reference";

/// The choice of an implementation for attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    /// The kernel of the attribute or of the mapping, as without a rule.
    Auto,
    Reference,
    /// An implementation of this kernel, or the best one if it is not named.
    Kernel(&'static str, Option<&'static str>),
}

impl Attention {
    /// Reads the name of a choice.
    fn named(name: &str) -> Result<Self, PolicyError> {
        match name {
            AUTO => return Ok(Self::Auto),
            REFERENCE => return Ok(Self::Reference),
            _ => {}
        }
        let known: Vec<_> = kernels().filter(|kernel| kernel.op == OP).collect();
        let (path, version) = match name.split_once('@') {
            Some((path, version)) => (path, Some(version)),
            None => (name, None),
        };
        let is_named = |kernel: &&&KernelSpec| match path.split_once('/') {
            Some((package, id)) => kernel.krate == package && kernel.id == id,
            None => kernel.id == path,
        };
        if let Some(kernel) = known.iter().find(is_named) {
            return match version {
                Some(version) if version != kernel.version.to_string() => {
                    Err(PolicyError::Unknown(format!(
                        "unknown version `{}` of kernel `{}`: version {} is linked in",
                        kernels_io::escape(version),
                        kernel.id,
                        kernel.version
                    )))
                }
                _ => Ok(Self::Kernel(kernel.id, None)),
            };
        }
        let implementations = |kernel: &&'static KernelSpec| {
            let id = kernel.id;
            let names = kernel.implementations.iter().map(|one| one.name);
            names.map(move |name| (id, name))
        };
        let mut named = known.iter().flat_map(implementations);
        if let Some((id, found)) = named.find(|(_, known)| *known == name) {
            return Ok(Self::Kernel(id, Some(found)));
        }
        let ids = known.iter().map(|kernel| kernel.id);
        let names = known.iter().flat_map(implementations).map(|(_, name)| name);
        let all = [AUTO, REFERENCE].into_iter().chain(ids).chain(names);
        let message = unknown("implementation of attention", name, all);
        Err(PolicyError::Unknown(message))
    }
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => AUTO,
            Self::Reference => REFERENCE,
            Self::Kernel(_, Some(name)) => name,
            Self::Kernel(id, None) => id,
        })
    }
}

/// A rule for all attention, or for the attention sites that match a pattern. It is written `NAME` or `PATTERN=NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttentionRule {
    sites: Option<SitePattern>,
    choice: Attention,
}

impl AttentionRule {
    /// Returns `true` if the site is one of attention that the rule is for.
    pub(crate) fn matches(&self, site: &SiteSpec) -> bool {
        let mut sites = self.sites.iter();
        site.key.op() == OP && sites.all(|pattern| pattern.matches(site))
    }
}

impl fmt::Display for AttentionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pattern) = &self.sites {
            write!(f, "{pattern}=")?;
        }
        self.choice.fmt(f)
    }
}

impl Policy {
    /// Chooses the implementation of attention. The text form is `attn:NAME`, or `attn:PATTERN=NAME` for the attention
    /// sites that match a pattern as in [`Policy::enable_sites`]. Of several rules that match, the last one applies. It
    /// takes precedence over every other rule and over the mapping.
    ///
    /// A name is one of these:
    ///
    /// * an implementation, such as `cpu-simd`,
    /// * the id of a kernel of attention, alone or as `package/id@version` with the package that defines it and the
    ///   version of the kernel, both of which may be left out,
    /// * `reference`,
    /// * `auto`: the kernel of the attribute or of the mapping.
    ///
    /// The choice is an explicit request: if a call can't run it, the call panics with the reason.
    ///
    /// # Errors
    /// Returns an error if no kernel or implementation of attention that is linked in has this name, if the kernel has
    /// another version, or if the pattern matches no attention site.
    pub fn attention(mut self, rule: &str) -> Result<Self, PolicyError> {
        let (sites, name) = match rule.split_once('=') {
            Some((pattern, name)) => (Some(SitePattern::new(pattern)?), name),
            None => (None, rule),
        };
        let choice = Attention::named(name)?;
        let rule = AttentionRule { sites, choice };
        if let Some(pattern) = &rule.sites
            && !SPECS.iter().any(|site| rule.matches(site))
        {
            return Err(PolicyError::Unknown(format!(
                "no site that matches `{pattern}` is one of attention"
            )));
        }
        self.attention.retain(|known| known.sites != rule.sites);
        self.attention.push(rule);
        Ok(self)
    }

    /// Returns the rules for attention.
    pub(crate) fn attention_rules(&self) -> impl Iterator<Item = &AttentionRule> {
        self.attention.iter()
    }

    /// Returns the choice for a site of attention that has one.
    pub(crate) fn attention_at(&self, site: &SiteSpec) -> Option<Attention> {
        let mut rules = self.attention.iter().rev();
        rules
            .find(|rule| rule.matches(site))
            .map(|rule| rule.choice)
            .filter(|choice| *choice != Attention::Auto)
    }
}
