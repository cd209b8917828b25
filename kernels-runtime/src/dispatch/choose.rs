//! A decision from scratch: which implementation a call takes, or why it takes none.

use super::{Mode, Query, TensorType};
use crate::active::Active;
use crate::device::Served;
use crate::mapping::{Entry, ModeFlags, Target};
use crate::policy::{Policy, Reaction, Wish};
use crate::reason::Reason;
use crate::registry::{self, Implementation, KernelSpec, SiteSpec};
use crate::semantics::SemanticsKey;
use burn::backend::DispatchTensor;

/// Which path a call takes.
#[derive(Clone, Copy, Debug)]
pub enum Decision {
    /// The fused implementation.
    Fused(&'static Implementation),
    /// The plain composition, and why.
    Reference(Reason),
}

impl Decision {
    /// Whether the fused path runs.
    pub const fn is_fused(&self) -> bool {
        matches!(self, Self::Fused(_))
    }
}

/// An implementation that was looked at, and why it was refused, if it was.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The implementation.
    pub implementation: &'static Implementation,
    /// Why it can't be taken; `None` if it can.
    pub refused: Option<Reason>,
}

/// What was decided.
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
    /// Kernels and implementations are statics: the same is the one at the same place.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fused(_, a), Self::Fused(_, b)) => std::ptr::eq(*a, *b),
            (Self::Reference(a), Self::Reference(b)) => a == b,
            _ => false,
        }
    }
}

/// A decision with its story.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The id of the kernel that was looked at.
    pub(crate) kernel: &'static str,
    /// That kernel, if it is linked in.
    pub(crate) spec: Option<&'static KernelSpec>,
    /// The mode of the mapping's rule that named it; `None` if the attribute did.
    pub(crate) mapped: Option<ModeFlags>,
    /// Why the mapping in force names none, though it may know the layer.
    pub(crate) missing: Option<Reason>,
    /// What was decided.
    pub(crate) outcome: Outcome,
    /// Every implementation of the kernel, best first.
    pub(crate) candidates: Vec<Candidate>,
    /// What to do about it.
    pub(crate) reactions: Vec<(Reason, Reaction)>,
}

impl Choice {
    /// The reason that makes it an error, if one does.
    pub(crate) fn unmet(&self) -> Option<Reason> {
        let mut strict = self.reactions.iter();
        strict
            .find(|(_, reaction)| *reaction == Reaction::Strict)
            .map(|(reason, _)| *reason)
    }
}

/// The decision for one site, looked up afresh. `tensors` are those of the call, if there is one:
/// with them the limits of implementations are asked too.
pub(crate) fn choose(
    site: &SiteSpec,
    active: &Active,
    query: Query,
    tensors: Option<&[&DispatchTensor]>,
) -> Choice {
    let entry = entry(site, active, query);
    let (target, mapped, missing) = match entry {
        Some(Entry::Found(target, mode)) => (Some(target), Some(mode), None),
        Some(Entry::Missing(reason)) => (None, None, Some(reason)),
        None => (None, None, None),
    };
    let spec = registry::kernel(match target {
        Some(Target::Kernel(id)) => id,
        _ => site.kernel,
    });
    let kernel = spec.map_or(site.kernel, |spec| spec.id);
    let wish = active.policy.wish(site, kernel);
    let ask = Ask {
        policy: &active.policy,
        query,
        fusion: mapped.is_some() && active.mode.is_some_and(asks_for_fusion),
        tensors,
    };
    let candidates = spec.map_or_else(Vec::new, |spec| ask.candidates(spec, &site.key));
    let outcome = match spec {
        _ if wish == Wish::Off => Err(Reason::Policy),
        _ if target == Some(&Target::Reference) => Err(Reason::Mapping),
        _ if !query.condition => Err(Reason::Condition),
        _ if query.opaque => Err(Reason::Layers),
        None => Err(Reason::UnknownKernel),
        Some(spec) => best_of(&candidates).map(|implementation| (spec, implementation)),
    };
    let outcome = match outcome {
        Ok((spec, implementation)) => Outcome::Fused(spec, implementation),
        Err(reason) => Outcome::Reference(reason),
    };
    let of_mapping = missing
        // A mapping speaks of the layers that it knows; whether it should know more is asked once,
        // by `kernelize`.
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

/// What the mapping in force says of the site; `None` where there is nothing to say.
fn entry<'a>(site: &SiteSpec, active: &'a Active, query: Query) -> Option<Entry<'a>> {
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

/// What an implementation is asked.
struct Ask<'a> {
    policy: &'a Policy,
    query: Query,
    /// Whether Burn's fusion has to go on.
    fusion: bool,
    tensors: Option<&'a [&'a DispatchTensor]>,
}

impl Ask<'_> {
    /// The kernel's implementations, the preferred ones first, each with the first reason against
    /// it.
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

/// Whether the implementation runs where the tensors are: on a served device, if its server declares the
/// operation.
fn runs(implementation: &Implementation, place: Served) -> bool {
    let op = implementation.launch.op();
    !place.is_served() || op.is_some_and(|op| place.offers(op))
}

/// The first reason against an implementation for a call of this kind.
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
    if !(implementation.accepts)(key) {
        return Some(Reason::Semantics);
    }
    match query.tensors {
        TensorType::Mixed => return Some(Reason::MixedDtypes),
        TensorType::Float(float) if implementation.dtypes.contains(&float) => {}
        _ => return Some(Reason::Dtype),
    }
    if query.mode == Mode::Training && !implementation.gradient.is_some() {
        return Some(Reason::NoGradient);
    }
    None
}

/// The first candidate that can be taken, or the reason against the one that came closest: the
/// refusal that was asked for last says the most.
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

/// How far an implementation got before this refusal.
fn closeness(reason: Reason) -> u8 {
    match reason {
        Reason::NoImplementation => 0,
        Reason::NotServed => 1,
        Reason::Capability => 2,
        Reason::Semantics => 3,
        Reason::Dtype | Reason::MixedDtypes => 4,
        Reason::NoGradient => 5,
        Reason::NotDeterministic => 6,
        Reason::FusionBarrier => 7,
        // What an implementation says itself of the tensors of the call.
        _ => 8,
    }
}

/// The implementation that a kernel which is called directly takes, or the reason against it.
pub(crate) fn best(
    kernel: &'static KernelSpec,
    key: &SemanticsKey,
    query: Query,
) -> Result<&'static Implementation, Reason> {
    let ask = Ask {
        policy: &Policy::auto(),
        query,
        fusion: false,
        tensors: None,
    };
    best_of(&ask.candidates(kernel, key))
}
