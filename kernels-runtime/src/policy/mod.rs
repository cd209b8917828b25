//! The choice of kernels: which may run, which must run, and what happens if one can't.
//!
//! The policy in force is the first of these: a [`scope`] of the current thread, a process-wide [`install`], the
//! environment variable `BURN_KERNELS`, and the default [`Policy::auto`].
//!
//! # Threads
//!
//! [`install`] affects every thread. A [`scope`] affects only the thread that opened it. Threads that it starts,
//! including Rayon's workers and data loaders, use the installed policy. To pass a scope on, read [`current`] before
//! and open a scope with it inside:
//!
//! ```
//! # extern crate kernels_runtime as burn_kernels;
//! use burn_kernels::policy::{self, Policy};
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
//! The same holds for [`mapping::scope`].

mod attention;
mod error;
mod file;
mod grammar;
mod idle;
mod layers;
mod pattern;
mod reaction;
mod scope;
mod tune;

pub(crate) use attention::Attention;
pub use error::PolicyError;
pub use grammar::GRAMMAR;
pub(crate) use idle::{may_call, no_site};
pub use layers::Layers;
pub(crate) use layers::Position;
pub use reaction::Reaction;
pub use scope::{LayerGuard, ScopeGuard, current, from_env, install, layer, scope};

use crate::mapping::{self, Mapping, Rule};
use crate::near::unknown;
use crate::reason::Reason;
use crate::registry::{self, SiteSpec, kernels};
use attention::AttentionRule;
pub(crate) use pattern::SitePattern;
use reaction::Reactions;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use tune::Tune;

/// A choice of the kernels to run. Every kernel that is enabled runs where it can. See [`Policy::strict`],
/// [`Policy::enable`] and [`Policy::react`] for the case that it can't.
///
/// A policy has three equivalent forms: this builder, a text ([`GRAMMAR`], the form of `BURN_KERNELS`) and TOML
/// ([`Policy::from_toml`]).
///
/// The most specific rule decides about a site: a rule for [`attention`](Policy::attention), otherwise the last
/// matching pattern of sites, otherwise the last rule for the [`layer`] that is being computed, otherwise the rule for
/// the kernel, otherwise the base (`all` or `none`).
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// use burn_kernels::policy::Policy;
///
/// let policy: Policy = "all,-npu_fused_rope".parse().unwrap();
/// assert_eq!(policy, Policy::auto().disable("npu_fused_rope").unwrap());
/// assert!("none,+npu_fused_rop".parse::<Policy>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    base: Base,
    kernels: BTreeMap<&'static str, bool>,
    /// Rules for sites, in the order in which they were added. The last match applies.
    sites: Vec<(SitePattern, bool)>,
    /// Rules for layers, in the order in which they were added. The last match applies.
    layers: Vec<(Layers, bool)>,
    /// The decision of `layers` for the layer that is being computed.
    here: Option<bool>,
    strict: bool,
    deterministic: bool,
    tune: Tune,
    /// Names of implementations, best first.
    prefer: Vec<&'static str>,
    /// Rules for attention, in the order in which they were added. The last match applies.
    attention: Vec<AttentionRule>,
    reactions: Reactions,
    mapping: Mapping,
}

/// The rule for kernels that the policy does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Base {
    #[default]
    All,
    None,
}

/// The decision of a policy about one kernel at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Runs the kernel where it can run.
    Preferred,
    /// Requires the kernel. If it can't run, this is an error unless the policy has another reaction to the reason.
    Strict,
    /// Requires the kernel, which is named explicitly. If it can't run, this is an error.
    Required,
    /// Does not run the kernel.
    Off,
}

impl Policy {
    /// Creates the default policy, under which every kernel runs where it can. The text form is `auto` or `all`.
    pub fn auto() -> Self {
        Self::default()
    }

    /// Creates a policy under which no kernel runs: every site computes its reference. The text form is `none`.
    pub fn none() -> Self {
        Self::reference()
    }

    /// Creates the same policy as [`Policy::none`].
    pub fn reference() -> Self {
        Self {
            base: Base::None,
            ..Self::default()
        }
    }

    /// Requests one kernel explicitly. The text form is `+id`. If it can't run (for example because it has no
    /// implementation for the device, or does not take the dtype), the call panics with the reason. If no site of the
    /// program can call it, a warning is logged; under a [`strict`](Policy::strict) policy, the first call panics.
    ///
    /// # Errors
    /// Returns an error if no kernel has this id.
    pub fn enable(self, id: &str) -> Result<Self, PolicyError> {
        self.with_kernel(id, true)
    }

    /// Switches one kernel off. The text form is `-id`.
    ///
    /// # Errors
    /// Returns an error if no kernel has this id.
    pub fn disable(self, id: &str) -> Result<Self, PolicyError> {
        self.with_kernel(id, false)
    }

    /// Requests the kernels of every site that matches. The text form is `+pattern`. If one can't run, the call panics
    /// with the reason.
    ///
    /// In a pattern, `.` and `::` separate the segments of a path, `*` matches any characters and `?` matches one.
    /// Leading segments and the method may be left out: `llama::*`, `*Mlp`. Later patterns take precedence over earlier
    /// ones, and all of them over the rules for kernels.
    ///
    /// # Errors
    /// Returns an error if the text is not a pattern, or if it matches no site that is linked in.
    pub fn enable_sites(self, pattern: &str) -> Result<Self, PolicyError> {
        self.with_sites(pattern, true)
    }

    /// Switches off the kernels of every site that matches. The text form is `-pattern`; see [`Policy::enable_sites`].
    ///
    /// # Errors
    /// Returns an error if the text is not a pattern, or if it matches no site that is linked in.
    pub fn disable_sites(self, pattern: &str) -> Result<Self, PolicyError> {
        self.with_sites(pattern, false)
    }

    /// Requests every kernel in some layers of a stack. The text forms are `+first:N`, `+last:N` and `+layers:I-J`. If
    /// one can't run, the call panics with the reason. The rule applies only if the model states the layer that it
    /// computes; see [`layer`]. If no model does, the log and the [report](mod@crate::report) contain a warning.
    pub fn enable_layers(self, layers: Layers) -> Self {
        self.with_layers(layers, true)
    }

    /// Switches every kernel off in some layers of a stack. The text forms are `-first:N`, `-last:N` and `-layers:I-J`;
    /// see [`Policy::enable_layers`].
    pub fn disable_layers(self, layers: Layers) -> Self {
        self.with_layers(layers, false)
    }

    /// Requires every enabled kernel: a site that can't run its kernel panics with the reason. The text form is
    /// `strict`. [`Policy::react`] makes exceptions by reason.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Returns `true` if [`Policy::strict`] was set.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Restricts the policy to implementations that give equal results, bit for bit, for equal inputs. The text form is
    /// `deterministic`.
    pub fn deterministic(mut self) -> Self {
        self.deterministic = true;
        self
    }

    /// Returns `true` if [`Policy::deterministic`] was set.
    pub fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    /// Prefers this implementation if a kernel has several that can run. Of several preferred names, the first one that
    /// was added takes precedence. The text form is `prefer:name`.
    ///
    /// # Errors
    /// Returns an error if no implementation has this name.
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

    /// Sets the reaction to one reason. The text form is `strict:reason`, `warn:reason` or `silent:reason`.
    ///
    /// By default, kernels that a policy or mapping switches off are silent, and so are layers that a mapping leaves out and
    /// references that were measured to be faster. Every other reason is a warning. A site warns once for every kind of
    /// call. Requests by [`Policy::enable`], [`Policy::enable_sites`] and [`Policy::enable_layers`] that can't be met
    /// are always errors.
    pub fn react(mut self, reason: Reason, reaction: Reaction) -> Self {
        self.reactions.insert(reason, reaction);
        self
    }

    /// Maps a layer to a kernel while this policy is in force. The text form is `map:layer@device=kernel`. The rule is
    /// added to the [`mapping`] in force and takes precedence over it.
    ///
    /// # Errors
    /// Returns an error as [`Mapping::with`] does, or if no site that is linked in has the layer.
    pub fn map(mut self, rule: Rule) -> Result<Self, PolicyError> {
        mapping::check_known(&rule.layer)?;
        self.mapping = self.mapping.with(rule)?;
        Ok(self)
    }

    /// Returns the policy's own part of the mapping.
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

    /// Returns `true` if the policy depends on the layer that is being computed.
    pub(crate) fn speaks_of_layers(&self) -> bool {
        !self.layers.is_empty()
    }

    /// Returns the policy for one layer of a stack.
    pub(crate) fn in_layer(mut self, position: Option<Position>) -> Self {
        let mut rules = self.layers.iter().rev();
        self.here = position
            .and_then(|position| rules.find(|(layers, _)| layers.contains(position)))
            .map(|(_, on)| *on);
        self
    }

    /// Returns this policy with the base of another and without rules for single kernels, sites, layers and attention.
    pub(crate) fn with_base_only(self, other: Self) -> Self {
        Self {
            base: other.base,
            kernels: BTreeMap::new(),
            sites: Vec::new(),
            layers: Vec::new(),
            attention: Vec::new(),
            ..self
        }
    }

    /// Returns the decision about kernel `id` at `site`.
    pub(crate) fn wish(&self, site: &SiteSpec, id: &str) -> Wish {
        let said = |on: bool| if on { Wish::Required } else { Wish::Off };
        match self.attention_at(site) {
            Some(Attention::Reference) => return Wish::Off,
            Some(_) => return Wish::Required,
            None => {}
        }
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

    /// Returns the reaction if a wish can't be met for `reason`.
    pub(crate) fn reaction(&self, wish: Wish, reason: Reason) -> Reaction {
        let default = Reaction::default_to(reason);
        match (wish, self.reactions.get(&reason)) {
            (Wish::Required, _) => Reaction::Strict,
            (_, Some(said)) => *said,
            (Wish::Strict, None) if default != Reaction::Silent => Reaction::Strict,
            _ => default,
        }
    }

    /// Returns `true` if an implementation is preferred.
    pub fn prefers(&self, name: &str) -> bool {
        self.prefer.contains(&name)
    }

    /// Returns `true` if any implementation is preferred.
    pub(crate) fn prefers_any(&self) -> bool {
        !self.prefer.is_empty()
    }

    /// Returns the rank of an implementation among the preferred ones.
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
        assert!(error.contains("unknown implementation `gpu`"), "{error}");
        #[cfg(feature = "cpu")]
        {
            let policy = Policy::auto().prefer("cpu-simd").unwrap();
            assert!(policy.rank("cpu-simd") < policy.rank("other"));
            assert_eq!(policy.to_string(), "all,prefer:cpu-simd");
        }
    }
}
