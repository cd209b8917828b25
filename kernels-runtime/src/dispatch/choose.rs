use super::{Mode, Query, Reason, TensorType};
use crate::policy::{Policy, Wish};
use crate::registry::{self, Implementation, KernelSpec, SiteSpec};
use crate::semantics::SemanticsKey;
use std::fmt;

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

/// The kernel's implementations in their order, each with the first reason against it.
pub(super) fn candidates(
    kernel: &'static KernelSpec,
    key: SemanticsKey,
    query: Query,
) -> impl Iterator<Item = Candidate> {
    kernel
        .implementations
        .iter()
        .map(move |implementation| Candidate {
            implementation,
            refused: refusal(implementation, &key, query),
        })
}

fn refusal(implementation: &Implementation, key: &SemanticsKey, query: Query) -> Option<Reason> {
    if implementation.device != query.device {
        return Some(Reason::NoImplementation);
    }
    if !(implementation.accepts)(key) {
        return Some(Reason::Semantics);
    }
    match query.tensors {
        TensorType::Mixed => return Some(Reason::MixedDtypes),
        TensorType::Float(float) if implementation.dtypes.contains(&float) => {}
        _ => return Some(Reason::Dtype),
    }
    if query.mode == Mode::Training && !implementation.gradient {
        return Some(Reason::NoGradient);
    }
    None
}

/// A kernel was asked for explicitly and can't run.
#[derive(Debug)]
pub(crate) struct UnmetWish {
    site: String,
    kernel: &'static str,
    policy: String,
    query: Query,
    reason: Reason,
}

impl fmt::Display for UnmetWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Query {
            device,
            tensors,
            mode,
            ..
        } = self.query;
        write!(
            f,
            "the policy `{}` asks for {} at {}, which can't run it on {device} with {tensors} \
             tensors for {mode}: {}; {}",
            self.policy,
            self.kernel,
            self.site,
            self.reason,
            self.reason.advice()
        )
    }
}

/// The decision for one site, looked up afresh.
pub(crate) fn choose(
    site: &SiteSpec,
    policy: &Policy,
    query: Query,
) -> Result<Decision, UnmetWish> {
    let wish = policy.wish(site.kernel);
    if wish == Wish::Off {
        return Ok(Decision::Reference(Reason::Policy));
    }
    let found = match query.condition {
        true => registry::kernel(site.kernel)
            .ok_or(Reason::UnknownKernel)
            .and_then(|kernel| best(kernel, &site.key, query)),
        false => Err(Reason::Condition),
    };
    let reason = match found {
        Ok(implementation) => return Ok(Decision::Fused(implementation)),
        Err(reason) => reason,
    };
    if wish == Wish::Required {
        return Err(UnmetWish {
            site: format!("{}::{}", site.module, site.item),
            kernel: site.kernel,
            policy: policy.to_string(),
            query,
            reason,
        });
    }
    Ok(Decision::Reference(reason))
}

/// The first candidate that can be taken, or the reason against the one that came closest: a
/// refusal on the right device says more than that other devices are other devices.
pub(crate) fn best(
    kernel: &'static KernelSpec,
    key: &SemanticsKey,
    query: Query,
) -> Result<&'static Implementation, Reason> {
    if kernel.op != key.op() {
        return Err(Reason::Semantics);
    }
    let mut closest = Reason::NoImplementation;
    for candidate in candidates(kernel, *key, query) {
        match candidate.refused {
            None => return Ok(candidate.implementation),
            Some(Reason::NoImplementation) => {}
            Some(reason) => closest = reason,
        }
    }
    Err(closest)
}
