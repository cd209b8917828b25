//! A new decision: the implementation that a call takes, or the reason for the reference.

use super::{Mode, Query, TensorType};
use crate::context::Active;
use crate::device::{DeviceKind, Served};
use crate::mapping::{Entry, ModeFlags, Target};
use crate::policy::{Attention, Policy, Reaction, Wish};
use crate::reason::Reason;
use crate::registry::{self, Implementation, KernelSpec, SiteSpec};
use crate::semantics::SemanticsKey;
use crate::tune::Call;
use burn::backend::DispatchTensor;
use std::fmt;

/// The path that a call takes.
#[derive(Clone, Copy, Debug)]
pub enum Decision {
    /// A fused implementation.
    Fused(&'static Implementation),
    /// The plain composition, with the reason.
    Reference(Reason),
}

impl Decision {
    /// Returns `true` if the fused path runs.
    pub const fn is_fused(&self) -> bool {
        matches!(self, Self::Fused(_))
    }
}

impl fmt::Display for Decision {
    /// Writes the path in words, such as `fused cpu-simd`. An implementation by operators of the device's library, which
    /// may be several, is named alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fused(implementation) if implementation.operators.is_some() => {
                f.write_str(implementation.name)
            }
            Self::Fused(implementation) => write!(f, "fused {}", implementation.name),
            Self::Reference(reason) => write!(f, "reference: {reason}"),
        }
    }
}

/// An implementation that was considered, with the reason if it was refused.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The implementation.
    pub implementation: &'static Implementation,
    /// The reason why it was refused, or `None` if it can run.
    pub refused: Option<Reason>,
}

/// The result of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// An implementation of a kernel.
    Fused(&'static KernelSpec, &'static Implementation),
    /// The reference.
    Reference(Reason),
}

impl Outcome {
    #[inline]
    pub(crate) const fn decision(self) -> Decision {
        match self {
            Self::Fused(_, implementation) => Decision::Fused(implementation),
            Self::Reference(reason) => Decision::Reference(reason),
        }
    }
}

impl PartialEq for Outcome {
    /// Kernels and implementations are statics, so they are equal if their addresses are.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fused(_, a), Self::Fused(_, b)) => std::ptr::eq(*a, *b),
            (Self::Reference(a), Self::Reference(b)) => a == b,
            _ => false,
        }
    }
}

/// A decision with the facts that led to it.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The id of the kernel that was considered.
    pub(crate) kernel: &'static str,
    /// The considered kernel, if it is linked in.
    pub(crate) spec: Option<&'static KernelSpec>,
    /// The mode of the mapping's rule that named the kernel, or `None` if the attribute named it.
    pub(crate) mapped: Option<ModeFlags>,
    /// The reason why the mapping in force names no kernel for a site with a layer name.
    pub(crate) missing: Option<Reason>,
    /// The result of the decision.
    pub(crate) outcome: Outcome,
    /// Every implementation of the kernel, best first.
    pub(crate) candidates: Vec<Candidate>,
    /// The reactions to the reasons of this decision.
    pub(crate) reactions: Vec<(Reason, Reaction)>,
}

impl Choice {
    /// Returns the reason that makes the decision an error, if there is one.
    pub(crate) fn unmet(&self) -> Option<Reason> {
        let mut strict = self.reactions.iter();
        strict
            .find(|(_, reaction)| *reaction == Reaction::Strict)
            .map(|(reason, _)| *reason)
    }

    /// Returns the choice of another implementation, because it was measured to be faster or is measured.
    pub(crate) fn taking(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    /// Returns the choice of the reference in place of a kernel, because it was measured to be faster.
    pub(crate) fn yielding(self, policy: &Policy, site: &SiteSpec) -> Self {
        let wish = policy.wish(site, self.kernel);
        Self {
            outcome: Outcome::Reference(Reason::Tuned),
            reactions: vec![(Reason::Tuned, policy.reaction(wish, Reason::Tuned))],
            ..self
        }
    }
}

/// Makes a new decision for one site. `tensors` are those of the call, if there is one. With them, the limits of
/// implementations are checked too.
pub(crate) fn choose(
    site: &SiteSpec,
    active: &Active,
    query: Query,
    tensors: Option<&[&DispatchTensor]>,
) -> Choice {
    let attention = active.policy.attention_at(site);
    let entry = match attention {
        Some(_) => None,
        None => entry(site, active, query),
    };
    let (target, mapped, missing) = match entry {
        Some(Entry::Found(target, mode)) => (Some(target), Some(mode), None),
        Some(Entry::Missing(reason)) => (None, None, Some(reason)),
        None => (None, None, None),
    };
    let (id, only) = match (attention, target) {
        (Some(Attention::Kernel(id, only)), _) => (id, only),
        (_, Some(Target::Kernel(id))) => (id.as_str(), None),
        _ => (site.kernel, None),
    };
    let spec = registry::kernel(id);
    let kernel = spec.map_or(site.kernel, |spec| spec.id);
    let wish = active.policy.wish(site, kernel);
    let ask = Ask {
        policy: &active.policy,
        query,
        only,
        fusion: mapped.is_some() && active.mode.is_some_and(asks_for_fusion),
        tensors,
    };
    let candidates = spec.map_or_else(Vec::new, |spec| ask.candidates(spec, &site.key));
    let outcome = match spec {
        _ if wish == Wish::Off => Err(Reason::Policy),
        _ if target == Some(&Target::Reference) => Err(Reason::Mapping),
        _ if !query.condition => Err(Reason::Condition),
        _ if query.opaque => Err(Reason::Layers),
        _ if query.adapted => Err(Reason::Adapters),
        None => Err(Reason::UnknownKernel),
        Some(spec) => best_of(&candidates).map(|implementation| (spec, implementation)),
    };
    let outcome = match outcome {
        Ok((spec, implementation)) => Outcome::Fused(spec, implementation),
        Err(reason) => Outcome::Reference(reason),
    };
    let of_mapping = missing
        // A layer that the mapping does not contain is not reported here. `kernelize` reports it once.
        .filter(|reason| *reason != Reason::NoLayer && wish != Wish::Off)
        .map(|reason| (reason, active.policy.reaction(Wish::Preferred, reason)));
    let of_outcome = match outcome {
        Outcome::Reference(reason) => Some((reason, active.policy.reaction(wish, reason))),
        Outcome::Fused(..) => None,
    };
    Choice {
        kernel,
        spec,
        mapped,
        missing,
        outcome,
        candidates,
        reactions: of_outcome.into_iter().chain(of_mapping).collect(),
    }
}

/// Returns the result of the mapping in force for the site. Returns `None` if the site has no layer name or the mapping
/// is empty.
pub(crate) fn entry<'a>(site: &SiteSpec, active: &'a Active, query: Query) -> Option<Entry<'a>> {
    let layer = site.layer?;
    if active.mapping.is_empty() {
        return None;
    }
    let mode = active.mode.unwrap_or_else(|| query.mode.into());
    Some(
        active
            .mapping
            .find(layer, query.device, query.capability, mode),
    )
}

fn asks_for_fusion(mode: ModeFlags) -> bool {
    mode.contains(ModeFlags::COMPILE)
}

/// The requirements that implementations are checked against.
struct Ask<'a> {
    policy: &'a Policy,
    query: Query,
    /// The implementation that the policy chooses for attention.
    only: Option<&'a str>,
    /// True if Burn's fusion has to continue through the layer.
    fusion: bool,
    tensors: Option<&'a [&'a DispatchTensor]>,
}

impl Ask<'_> {
    /// Returns the kernel's implementations, the preferred ones first, each with the first reason against it.
    fn candidates(&self, kernel: &'static KernelSpec, key: &SemanticsKey) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = kernel
            .implementations
            .iter()
            .map(|implementation| Candidate {
                implementation,
                refused: self.refusal(kernel, implementation, key),
            })
            .collect();
        candidates.sort_by_key(|candidate| self.policy.rank(candidate.implementation.name));
        candidates
    }

    fn refusal(
        &self,
        kernel: &KernelSpec,
        implementation: &Implementation,
        key: &SemanticsKey,
    ) -> Option<Reason> {
        if self.only.is_some_and(|name| name != implementation.name) {
            return Some(Reason::Policy);
        }
        if kernel.op != key.op() {
            return Some(Reason::Semantics);
        }
        if let Some(reason) = refusal(implementation, key, self.query) {
            return Some(reason);
        }
        if self.policy.is_deterministic() && !implementation.deterministic {
            return Some(Reason::NotDeterministic);
        }
        if self.fusion && implementation.fusion_barrier {
            return Some(Reason::FusionBarrier);
        }
        let (limits, tensors) = (implementation.limits?, self.tensors?);
        limits(key, tensors).err()
    }
}

/// Returns the other implementations that a call may take. The policy prefers none of both.
pub(super) fn rivals<'a>(
    call: &'a Call<'_>,
    active: &'a Active,
) -> impl Iterator<Item = &'static Implementation> + 'a {
    let (site, policy) = (call.site.spec(), &active.policy);
    let ask = Ask {
        policy,
        query: call.query,
        only: match policy.attention_at(site) {
            Some(Attention::Kernel(_, only)) => only,
            _ => None,
        },
        fusion: site.layer.is_some() && active.mode.is_some_and(asks_for_fusion),
        tensors: Some(call.tensors),
    };
    let rank = policy.rank(call.implementation.name);
    let others = call.kernel.implementations.iter();
    others.filter(move |one| {
        !std::ptr::eq(*one, call.implementation)
            && policy.rank(one.name) == rank
            && ask.refusal(call.kernel, one, &site.key).is_none()
    })
}

/// Returns `true` if the implementation runs where the tensors are. On a served device, the server has to declare the
/// operation. Functions of packages run in this process alone. NPUs are always served, and the limits of functions for
/// them check that this process serves them.
fn runs(implementation: &Implementation, place: Served) -> bool {
    let launch = implementation.launch;
    let is_served_there = || launch.op().is_some_and(|op| place.offers(op));
    let may_be_served =
        launch.package_key().is_none() || implementation.device.contains(DeviceKind::Npu);
    !place.is_served() || (may_be_served && is_served_there())
}

/// Returns the first reason against an implementation for a call of this kind.
fn refusal(implementation: &Implementation, key: &SemanticsKey, query: Query) -> Option<Reason> {
    if !implementation.device.contains(query.device) {
        return Some(Reason::NoImplementation);
    }
    if !runs(implementation, query.served) {
        return Some(Reason::NotServed);
    }
    if !implementation.capability.contains(query.capability) {
        return Some(Reason::Capability);
    }
    if !implementation.computes(key) {
        return Some(Reason::Semantics);
    }
    match query.tensors {
        TensorType::Mixed => return Some(Reason::MixedDtypes),
        TensorType::Float(float)
            if implementation.dtypes.contains(&float)
                && query.served.computes_in(float.dtype()) => {}
        _ => return Some(Reason::Dtype),
    }
    if query.mode == Mode::Training && !implementation.gradient.is_some() {
        return Some(Reason::NoGradient);
    }
    None
}

/// Returns the first candidate that can run, or else the reason against the one that came closest. The refusal of the
/// latest check is the most informative.
fn best_of(candidates: &[Candidate]) -> Result<&'static Implementation, Reason> {
    let mut closest = Reason::NoImplementation;
    for candidate in candidates {
        match candidate.refused {
            None => return Ok(candidate.implementation),
            Some(reason) if closeness(reason) > closeness(closest) => closest = reason,
            Some(_) => {}
        }
    }
    Err(closest)
}

/// Returns a rank that is higher the later the check of this reason is made.
fn closeness(reason: Reason) -> u8 {
    match reason {
        Reason::NoImplementation | Reason::Policy => 0,
        Reason::NotServed => 1,
        Reason::Capability => 2,
        Reason::Semantics => 3,
        Reason::Dtype | Reason::MixedDtypes => 4,
        Reason::NoGradient => 5,
        Reason::NotDeterministic => 6,
        Reason::FusionBarrier => 7,
        // The implementation's own reasons, about the tensors of the call.
        _ => 8,
    }
}

/// Returns the implementation for a direct call of a kernel, or the reason why none fits.
pub(crate) fn best(
    kernel: &'static KernelSpec,
    key: &SemanticsKey,
    query: Query,
) -> Result<&'static Implementation, Reason> {
    let ask = Ask {
        policy: &Policy::auto(),
        query,
        only: None,
        fusion: false,
        tensors: None,
    };
    best_of(&ask.candidates(kernel, key))
}
