//! What is wanted: which kernels may run, which must, and what happens when one can't.
//!
//! A policy comes, in this order, from a [`scope`] of the current thread, a process-wide
//! [`install`], the environment variable `BURN_KERNELS`, or the default [`Policy::auto`].
//!
//! # Threads
//!
//! [`install`] reaches every thread. A [`scope`] is for the thread that opened it alone: threads
//! that it starts, Rayon's workers and data loaders among them, see what is installed. To hand a
//! scope over, take [`current`] before and open a scope with it inside:
//!
//! ```
//! use kernels_runtime::policy::{self, Policy};
//!
//! let _scope = policy::scope(Policy::reference());
//! let wanted = policy::current()?;
//! std::thread::spawn(move || {
//!     let _scope = policy::scope(wanted);
//!     assert_eq!(policy::current().unwrap(), Policy::reference());
//! })
//! .join()
//! .unwrap();
//! # Ok::<(), policy::PolicyError>(())
//! ```
//!
//! The same holds for [`mapping::scope`](crate::mapping::scope).

mod error;
mod file;
mod grammar;
mod idle;
mod layers;
mod pattern;
mod reaction;
mod scope;

pub use error::PolicyError;
pub use grammar::GRAMMAR;
pub(crate) use idle::{may_call, no_site};
pub use layers::Layers;
pub(crate) use layers::Position;
pub use reaction::Reaction;
pub use scope::{LayerGuard, ScopeGuard, current, from_env, install, layer, scope};

use crate::mapping::{Mapping, Rule};
use crate::near::unknown;
use crate::reason::Reason;
use crate::registry::{self, SiteSpec, kernels};
pub(crate) use pattern::SitePattern;
use reaction::Reactions;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Which kernels run. Every kernel that is enabled runs where it can; see [`Policy::strict`],
/// [`Policy::enable`] and [`Policy::react`] for what happens where it can't.
///
/// It has three forms of equal power: this builder, a text ([`GRAMMAR`], the form of
/// `BURN_KERNELS`) and TOML ([`Policy::from_toml`]).
///
/// What it says of a site is decided by the most specific word: the last pattern of sites that
/// matches, else the last rule for the [`layer`] that is being computed, else what is said of the
/// kernel, else the base (`all` or `none`).
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
    kernels: BTreeMap<&'static str, bool>,
    /// In the order in which they were said: the last that matches wins.
    sites: Vec<(SitePattern, bool)>,
    /// In the order in which they were said: the last that holds wins.
    layers: Vec<(Layers, bool)>,
    /// What they say of the layer that is being computed.
    here: Option<bool>,
    strict: bool,
    deterministic: bool,
    /// Names of implementations, best first.
    prefer: Vec<&'static str>,
    reactions: Reactions,
    mapping: Mapping,
}

/// What a policy says of kernels that it does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Base {
    #[default]
    All,
    None,
}

/// What a policy says of one kernel at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Run it where it can run.
    Preferred,
    /// Run it; that it can't is an error unless the policy says otherwise of the reason.
    Strict,
    /// Run it, named explicitly; that it can't is an error.
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
    /// the device, a dtype it does not take), the call panics with the reason. If no site of the
    /// program can call it, the log says so, or in [`strict`](Policy::strict) mode the first call
    /// panics.
    ///
    /// # Errors
    /// No kernel has this id.
    pub fn enable(self, id: &str) -> Result<Self, PolicyError> {
        self.with_kernel(id, true)
    }

    /// Switches one kernel off, in text `-id`.
    ///
    /// # Errors
    /// No kernel has this id.
    pub fn disable(self, id: &str) -> Result<Self, PolicyError> {
        self.with_kernel(id, false)
    }

    /// Asks for the kernels of every site that matches, in text `+pattern`. Where one can't run,
    /// the call panics with the reason.
    ///
    /// In a pattern `.` and `::` part the segments of a path, `*` stands for any characters and `?`
    /// for one. Leading segments and the method may be left out: `llama::*`, `*Mlp`. Patterns that
    /// are said later win over earlier ones, and all of them over what is said of kernels.
    ///
    /// # Errors
    /// It is no pattern, or no site that is linked in matches.
    pub fn enable_sites(self, pattern: &str) -> Result<Self, PolicyError> {
        self.with_sites(pattern, true)
    }

    /// Switches the kernels of every site that matches off, in text `-pattern`; see
    /// [`Policy::enable_sites`].
    ///
    /// # Errors
    /// It is no pattern, or no site that is linked in matches.
    pub fn disable_sites(self, pattern: &str) -> Result<Self, PolicyError> {
        self.with_sites(pattern, false)
    }

    /// Asks for every kernel in some layers of a stack, in text `+first:N` and the like. Where one
    /// can't run, the call panics with the reason. Holds where the model says which layer it
    /// computes; see [`layer`]. If none does, the log and the [report](mod@crate::report) say so.
    pub fn enable_layers(self, layers: Layers) -> Self {
        self.with_layers(layers, true)
    }

    /// Switches every kernel off in some layers of a stack, in text `-first:N`, `-last:N`,
    /// `-layers:I-J`; see [`Policy::enable_layers`].
    pub fn disable_layers(self, layers: Layers) -> Self {
        self.with_layers(layers, false)
    }

    /// Makes every enabled kernel a demand: a site that can't run its kernel panics with the
    /// reason. In text `strict`. [`Policy::react`] makes exceptions by reason.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Whether [`Policy::strict`] was asked for.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Runs only implementations that give equal results, bit for bit, for equal inputs. In text
    /// `deterministic`.
    pub fn deterministic(mut self) -> Self {
        self.deterministic = true;
        self
    }

    /// Whether [`Policy::deterministic`] was asked for.
    pub fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    /// Tries this implementation first, where a kernel has several that can run; of several such
    /// names the one that was said first. In text `prefer:name`.
    ///
    /// # Errors
    /// No implementation has this name.
    pub fn prefer(mut self, name: &str) -> Result<Self, PolicyError> {
        let implementations = kernels().flat_map(|kernel| kernel.implementations);
        let mut names: Vec<&'static str> = implementations.map(|one| one.name).collect();
        names.sort_unstable();
        names.dedup();
        let Some(name) = names.iter().find(|known| **known == name) else {
            let message = unknown("implementation", name, names);
            return Err(PolicyError::Unknown(message));
        };
        if !self.prefer.contains(name) {
            self.prefer.push(name);
        }
        Ok(self)
    }

    /// What happens for one reason, in text `strict:reason`, `warn:reason` or `silent:reason`.
    ///
    /// Without this, what a policy or mapping switches off is silent and every other reason is a
    /// warning. It is said of a site once for every kind of call. What [`Policy::enable`] or
    /// [`Policy::enable_sites`] asks for stays an error.
    pub fn react(mut self, reason: Reason, reaction: Reaction) -> Self {
        self.reactions.insert(reason, reaction);
        self
    }

    /// Maps a layer to a kernel for as long as this policy is in force, in text
    /// `map:layer@device=kernel`. It adds to the [`mapping`](crate::mapping) in force and wins
    /// over it.
    ///
    /// # Errors
    /// See [`Mapping::with`].
    pub fn map(mut self, rule: Rule) -> Result<Self, PolicyError> {
        self.mapping = self.mapping.with(rule)?;
        Ok(self)
    }

    /// The policy's own part of the mapping.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    fn with_kernel(mut self, id: &str, on: bool) -> Result<Self, PolicyError> {
        let id = registry::kernel(id)
            .map(|kernel| kernel.id)
            .ok_or_else(|| {
                PolicyError::Unknown(unknown("kernel", id, kernels().map(|kernel| kernel.id)))
            })?;
        self.kernels.insert(id, on);
        Ok(self)
    }

    fn with_sites(mut self, pattern: &str, on: bool) -> Result<Self, PolicyError> {
        let pattern = SitePattern::new(pattern)?;
        self.sites.retain(|(known, _)| *known != pattern);
        self.sites.push((pattern, on));
        Ok(self)
    }

    fn with_layers(mut self, layers: Layers, on: bool) -> Self {
        self.layers.retain(|(known, _)| *known != layers);
        self.layers.push((layers, on));
        self
    }

    /// Whether it depends on the layer that is being computed.
    pub(crate) fn speaks_of_layers(&self) -> bool {
        !self.layers.is_empty()
    }

    /// What it is in one layer of a stack.
    pub(crate) fn in_layer(mut self, position: Option<Position>) -> Self {
        let mut rules = self.layers.iter().rev();
        self.here = position
            .and_then(|position| rules.find(|(layers, _)| layers.contains(position)))
            .map(|(_, on)| *on);
        self
    }

    /// This policy with the base of another and nothing said of single kernels and sites.
    pub(crate) fn with_base_only(self, other: Self) -> Self {
        Self {
            base: other.base,
            kernels: BTreeMap::new(),
            sites: Vec::new(),
            layers: Vec::new(),
            ..self
        }
    }

    /// What it says of kernel `id` at `site`.
    pub(crate) fn wish(&self, site: &SiteSpec, id: &str) -> Wish {
        let said = |on: bool| if on { Wish::Required } else { Wish::Off };
        let mut patterns = self.sites.iter().rev();
        if let Some((_, on)) = patterns.find(|(pattern, _)| pattern.matches(site)) {
            return said(*on);
        }
        if let Some(on) = self.here {
            return said(on);
        }
        match (self.kernels.get(id), self.base) {
            (Some(on), _) => said(*on),
            (None, Base::None) => Wish::Off,
            (None, Base::All) if self.strict => Wish::Strict,
            (None, Base::All) => Wish::Preferred,
        }
    }

    /// What happens if a wish is not met for `reason`.
    pub(crate) fn reaction(&self, wish: Wish, reason: Reason) -> Reaction {
        let default = Reaction::default_to(reason);
        match (wish, self.reactions.get(&reason)) {
            (Wish::Required, _) => Reaction::Strict,
            (_, Some(said)) => *said,
            (Wish::Strict, None) if default != Reaction::Silent => Reaction::Strict,
            _ => default,
        }
    }

    /// Where an implementation of this name stands among the preferred ones.
    pub(crate) fn rank(&self, name: &str) -> usize {
        let place = self.prefer.iter().position(|known| *known == name);
        place.unwrap_or(self.prefer.len())
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
    use crate::dispatch::tests::ROPE_SITE;

    #[test]
    fn wishes() {
        let wish = |policy: &Policy, id: &str| policy.wish(&ROPE_SITE, id);
        let policy = Policy::reference().enable("npu_fused_rope").unwrap();
        assert_eq!(wish(&policy, "npu_fused_rope"), Wish::Required);
        assert_eq!(wish(&policy, "npu_fused_swiglu"), Wish::Off);

        let policy = Policy::auto().disable("npu_fused_rope").unwrap();
        assert_eq!(wish(&policy, "npu_fused_rope"), Wish::Off);
        assert_eq!(wish(&policy, "npu_fused_swiglu"), Wish::Preferred);
        assert_eq!(wish(&policy.strict(), "npu_fused_swiglu"), Wish::Strict);
    }

    #[test]
    fn the_last_pattern_that_matches_wins_over_the_kernel_and_the_base() {
        let pattern = |text: &str, on| (SitePattern::unchecked(text), on);
        let id = "npu_fused_rope";
        let mut policy = Policy::reference().disable(id).unwrap();
        policy.sites = vec![pattern("tests::*", true)];
        assert_eq!(policy.wish(&ROPE_SITE, id), Wish::Required);
        policy.sites.push(pattern("*rope", false));
        assert_eq!(policy.wish(&ROPE_SITE, id), Wish::Off);
        policy.sites.push(pattern("elsewhere::*", true));
        assert_eq!(policy.wish(&ROPE_SITE, id), Wish::Off);
    }

    #[test]
    fn reactions_by_wish_and_reason() {
        let policy = Policy::auto().react(Reason::Dtype, Reaction::Silent);
        let reaction = |wish, reason| policy.reaction(wish, reason);
        assert_eq!(reaction(Wish::Preferred, Reason::Dtype), Reaction::Silent);
        assert_eq!(reaction(Wish::Preferred, Reason::Shape), Reaction::Warn);
        assert_eq!(reaction(Wish::Off, Reason::Policy), Reaction::Silent);
        assert_eq!(reaction(Wish::Strict, Reason::Shape), Reaction::Strict);
        assert_eq!(reaction(Wish::Strict, Reason::Dtype), Reaction::Silent);
        assert_eq!(reaction(Wish::Strict, Reason::Mapping), Reaction::Silent);
        assert_eq!(reaction(Wish::Required, Reason::Dtype), Reaction::Strict);
        assert_eq!(reaction(Wish::Required, Reason::Mapping), Reaction::Strict);
    }

    #[test]
    fn preferred_implementations_are_known_and_in_order() {
        let error = Policy::auto().prefer("gpu").unwrap_err().to_string();
        assert!(
            error.contains("no implementation is called `gpu`"),
            "{error}"
        );
        #[cfg(feature = "cpu")]
        {
            let policy = Policy::auto().prefer("cpu-simd").unwrap();
            assert!(policy.rank("cpu-simd") < policy.rank("other"));
            assert_eq!(policy.to_string(), "all,prefer:cpu-simd");
        }
    }
}
