//! What is wanted: which kernels may run, which must, and what happens when one can't.
//!
//! A policy comes, in this order, from a [`scope`] of the current thread, a process-wide
//! [`install`], the environment variable `BURN_KERNELS`, or the default [`Policy::auto`].

mod active;
mod grammar;

pub use active::{ScopeGuard, current, from_env, install, scope};
pub(crate) use active::{UNCOUNTED, active_id, by_id, uncounted};
pub use grammar::{GRAMMAR, PolicyError};

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Which kernels run. Every kernel that is enabled runs where it can; see [`Policy::strict`] and
/// [`Policy::enable`] for what happens where it can't.
///
/// ```
/// use kernels_runtime::policy::Policy;
///
/// let policy: Policy = "all,-npu_fused_rope".parse().unwrap();
/// assert_eq!(policy, Policy::auto().disable("npu_fused_rope").unwrap());
/// assert!("none,+npu_fused_rop".parse::<Policy>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    base: Base,
    overrides: BTreeMap<&'static str, bool>,
    strict: bool,
}

/// What a policy says of kernels that it does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Base {
    #[default]
    All,
    None,
}

/// What a policy says of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Run it where it can run.
    Preferred,
    /// Run it; that it can't is an error.
    Required,
    /// Don't run it.
    Off,
}

impl Policy {
    /// Every kernel runs where it can. The default; in text `auto` or `all`.
    pub fn auto() -> Self {
        Self::default()
    }

    /// No kernel runs: every site computes its reference. In text `none`.
    pub fn reference() -> Self {
        Self {
            base: Base::None,
            ..Self::default()
        }
    }

    /// Asks for one kernel explicitly, in text `+id`. Where it can't run (no implementation for
    /// the device, a dtype it does not take), the call panics with the reason.
    ///
    /// # Errors
    /// No kernel has this id.
    pub fn enable(self, id: &str) -> Result<Self, PolicyError> {
        self.with(id, true)
    }

    /// Switches one kernel off, in text `-id`.
    ///
    /// # Errors
    /// No kernel has this id.
    pub fn disable(self, id: &str) -> Result<Self, PolicyError> {
        self.with(id, false)
    }

    /// Makes every enabled kernel a demand: a site that can't run its kernel panics with the
    /// reason. In text `strict`.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Whether [`Policy::strict`] was asked for.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    fn with(mut self, id: &str, on: bool) -> Result<Self, PolicyError> {
        let id = grammar::known_id(id)?;
        self.overrides.insert(id, on);
        Ok(self)
    }

    pub(crate) fn wish(&self, id: &str) -> Wish {
        match (self.overrides.get(id), self.base) {
            (Some(true), _) => Wish::Required,
            (Some(false), _) | (None, Base::None) => Wish::Off,
            (None, Base::All) if self.strict => Wish::Required,
            (None, Base::All) => Wish::Preferred,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.base {
            Base::All => "all",
            Base::None => "none",
        })?;
        for (id, on) in &self.overrides {
            write!(f, ",{}{id}", if *on { '+' } else { '-' })?;
        }
        if self.strict {
            f.write_str(",strict")?;
        }
        Ok(())
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes() {
        let policy = Policy::reference().enable("npu_fused_rope").unwrap();
        assert_eq!(policy.wish("npu_fused_rope"), Wish::Required);
        assert_eq!(policy.wish("npu_fused_swiglu"), Wish::Off);

        let policy = Policy::auto().disable("npu_fused_rope").unwrap();
        assert_eq!(policy.wish("npu_fused_rope"), Wish::Off);
        assert_eq!(policy.wish("npu_fused_swiglu"), Wish::Preferred);
        assert_eq!(policy.strict().wish("npu_fused_swiglu"), Wish::Required);
    }

    #[test]
    fn display_parses_back() {
        for text in [
            "all",
            "none",
            "all,-npu_fused_rope",
            "none,+npu_fused_rmsnorm,+npu_fused_swiglu",
            "all,strict",
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
        }
    }
}
