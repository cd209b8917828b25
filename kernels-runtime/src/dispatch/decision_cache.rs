//! The memory of a site: its decisions, and the number of times that each path ran.
//!
//! A site sees few distinct calls (device, dtype, mode, policy). Its cache is therefore a short array of words, in the
//! order in which the calls came. Looking up a decision and counting the call takes two thread-local reads, a few loads
//! and one atomic add. It allocates nothing and takes no lock.

use super::log::say;
use super::unmet::Unmet;
use super::{Choice, Decision, Outcome, Query, Route, Site, choose};
use crate::bisection;
use crate::context::{self, ACTIVE_BITS, Active, ActiveId};
use crate::policy::Wish;
use crate::reason::Reason;
use crate::registry::{self, SiteSpec};
use burn::backend::DispatchTensor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const SLOTS: usize = 12;

/// The cache and the counters of one site.
pub(crate) struct DecisionCache {
    slots: [Slot; SLOTS],
    /// Calls for which no slot was left. They are decided anew each time and counted under a lock.
    overflow: Mutex<Vec<(Key, Outcome, u64)>>,
}

/// One cached decision. The thread that sets `outcome` owns the slot and then publishes `key`. From then on, the
/// outcome and the query in the key stay the same, so that the count belongs to one query and outcome. Only the part of
/// the key that identifies the state in force may change.
pub(super) struct Slot {
    key: AtomicU64,
    outcome: OnceLock<Outcome>,
    calls: AtomicU64,
}

/// The id of the state in force (24 bits) and the query (40 bits). Zero is an empty slot.
pub(super) type Key = u64;

const QUERY_BITS: u32 = 64 - ACTIVE_BITS;
const QUERY: Key = (1 << QUERY_BITS) - 1;

/// The mark of slots for calls whose tensors the cached implementation did not take, or whose reference was measured to be
/// faster. These slots only count, because each such call is decided by its tensors.
pub(super) const LIMITED: Key = 0x80;

impl DecisionCache {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    key: AtomicU64::new(0),
                    outcome: OnceLock::new(),
                    calls: AtomicU64::new(0),
                }
            }; SLOTS],
            overflow: Mutex::new(Vec::new()),
        }
    }

    /// Decides a call and counts it, without its tensors.
    #[inline(always)]
    pub(crate) fn decide(&self, site: &SiteSpec, query: Query) -> Decision {
        self.decide_by(site, query, Self::key(query), None)
    }

    /// Decides a call with these tensors. A policy that tunes chooses by their sizes.
    #[inline(always)]
    pub(crate) fn decide_call(
        &self,
        site: &'static Site,
        query: Query,
        tensors: &[&DispatchTensor],
    ) -> Route {
        let key = Self::key(query);
        if context::tunes(active_id(key)) {
            return self.decide_tuned(site, query, key, tensors);
        }
        self.decide_by(site.spec(), query, key, Some(tensors))
            .into()
    }

    /// Decides and counts a call. With its tensors, the limits of implementations are checked too. The function has two
    /// callers, one with tensors and one without.
    #[inline(always)]
    fn decide_by(
        &self,
        site: &SiteSpec,
        query: Query,
        key: Key,
        tensors: Option<&[&DispatchTensor]>,
    ) -> Decision {
        match self.find(key) {
            Some((slot, outcome)) if is_within_limits(site, outcome, tensors) => {
                slot.calls.fetch_add(1, Ordering::Relaxed);
                outcome.decision()
            }
            Some(_) => self.decide_within(site, query, key, tensors),
            None => self.decide_anew(site, query, key, tensors),
        }
    }

    /// Decides without counting.
    #[inline]
    pub(crate) fn peek(&self, site: &SiteSpec, query: Query) -> Decision {
        let key = Self::key(query);
        match self.find(key) {
            Some((_, outcome)) => outcome.decision(),
            None => self.remember_anew(site, query, key, 0).decision(),
        }
    }

    #[inline]
    fn key(query: Query) -> Key {
        u64::from(context::active_id()) << QUERY_BITS | query.pack()
    }

    /// Returns the slot of the key. The first slot, which holds the earliest kind of call, is checked inline.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<(&Slot, &Outcome)> {
        let [first, others @ ..] = &self.slots;
        if first.key.load(Ordering::Acquire) == key {
            return Some((first, first.outcome.get()?));
        }
        Self::find_among(others, key)
    }

    #[inline(never)]
    fn find_among(slots: &[Slot], key: Key) -> Option<(&Slot, &Outcome)> {
        for slot in slots {
            let known = slot.key.load(Ordering::Acquire);
            if known == key {
                return Some((slot, slot.outcome.get()?));
            }
            if known == 0 {
                break;
            }
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn decide_anew(
        &self,
        site: &SiteSpec,
        query: Query,
        key: Key,
        tensors: Option<&[&DispatchTensor]>,
    ) -> Decision {
        if is_uncounted(key) {
            return Decision::Reference(Reason::Policy);
        }
        // The call is counted below, once it is known whether the implementation takes the tensors.
        let outcome = self.remember_anew(site, query, key, 0);
        if !is_within_limits(site, &outcome, tensors) {
            return self.decide_within(site, query, key, tensors);
        }
        self.remember(key, outcome, 1);
        outcome.decision()
    }

    /// Makes a new decision, logs it and stores it.
    #[cold]
    #[inline(never)]
    pub(super) fn remember_anew(
        &self,
        site: &SiteSpec,
        query: Query,
        key: Key,
        calls: u64,
    ) -> Outcome {
        if is_uncounted(key) {
            return Outcome::Reference(Reason::Policy);
        }
        registry::check().unwrap_or_else(|error| panic!("{error}"));
        let choice = chosen(site, key, query, None);
        if self.remember(key, choice.outcome, calls) {
            say(site, query, &choice);
        }
        choice.outcome
    }

    /// Decides a call whose tensors the cached implementation does not take. The next implementation that takes them
    /// runs.
    #[cold]
    #[inline(never)]
    fn decide_within(
        &self,
        site: &SiteSpec,
        query: Query,
        key: Key,
        tensors: Option<&[&DispatchTensor]>,
    ) -> Decision {
        let choice = chosen(site, key, query, tensors);
        if self.remember(key | LIMITED, choice.outcome, 1) {
            say(site, query, &choice);
        }
        choice.outcome.decision()
    }

    /// Returns `true` if the policy in force switches a [step](super::Step) off. A check of live verification is not a call of
    /// the program, which a policy could switch off.
    pub(super) fn is_off(&self, step: &SiteSpec, query: Query) -> bool {
        let key = Self::key(query);
        match self.find(key) {
            _ if is_uncounted(key) => false,
            Some((_, outcome)) => *outcome == Outcome::Reference(Reason::Policy),
            None => {
                context::by_id(active_id(key))
                    .policy
                    .wish(step, step.kernel)
                    == Wish::Off
            }
        }
    }

    /// Counts the outcome of a step, and reacts to its reason.
    ///
    /// # Panics
    /// Panics if the policy requires the kernel.
    pub(super) fn told(&self, step: &SiteSpec, query: Query, outcome: Outcome) {
        let key = Self::key(query);
        if is_uncounted(key) {
            return;
        }
        // The kernel's own reasons depend on the tensors of each call, so they are not cached.
        let (key, reason) = match outcome {
            Outcome::Fused(..) => (key, None),
            Outcome::Reference(Reason::Policy) => (key, Some(Reason::Policy)),
            Outcome::Reference(reason) => (key | LIMITED, Some(reason)),
        };
        let is_new = self.remember(key, outcome, 1);
        if !is_new && reason.is_none_or(|reason| reason == Reason::Policy) {
            return;
        }
        let active = context::by_id(active_id(key));
        let reactions = reason.map(|reason| {
            let wish = active.policy.wish(step, step.kernel);
            (reason, active.policy.reaction(wish, reason))
        });
        let choice = Choice {
            kernel: step.kernel,
            spec: registry::kernel(step.kernel),
            mapped: None,
            missing: None,
            outcome,
            candidates: Vec::new(),
            reactions: reactions.into_iter().collect(),
        };
        refuse_unmet(step, &active, query, &choice);
        match outcome {
            _ if !is_new => {}
            // A step makes only some of the operators that the kernel's calls make.
            Outcome::Fused(kernel, one) => tracing::debug!(
                site = step.item,
                module = step.module,
                kernel = kernel.id,
                implementation = one.name,
                ?query,
                "fused"
            ),
            Outcome::Reference(_) => say(step, query, &choice),
        }
    }

    /// Adds calls to the slot of the key and outcome. Without such a slot, takes a free one, or else one that differs
    /// only in the state in force. Returns `true` if the key was new.
    pub(super) fn remember(&self, key: Key, outcome: Outcome, calls: u64) -> bool {
        for slot in &self.slots {
            let is_free = slot.outcome.set(outcome).is_ok();
            if is_free {
                slot.key.store(key, Ordering::Release);
            }
            if is_free || slot.is(key, outcome) {
                slot.calls.fetch_add(calls, Ordering::Relaxed);
                return is_free;
            }
        }
        for slot in &self.slots {
            let known = slot.key.load(Ordering::Acquire);
            if known & QUERY == key & QUERY && slot.outcome.get() == Some(&outcome) {
                slot.key.store(key, Ordering::Release);
                slot.calls.fetch_add(calls, Ordering::Relaxed);
                return true;
            }
        }
        self.remember_beyond(key & QUERY, outcome, calls)
    }

    fn remember_beyond(&self, query: Key, outcome: Outcome, calls: u64) -> bool {
        let mut overflow = self.overflow();
        let known = overflow
            .iter_mut()
            .find(|(q, o, _)| (*q, *o) == (query, outcome));
        match known {
            Some((_, _, sum)) => *sum += calls,
            None => {
                overflow.push((query, outcome, calls));
                return true;
            }
        }
        false
    }

    fn overflow(&self) -> MutexGuard<'_, Vec<(Key, Outcome, u64)>> {
        // A panic while the lock is held leaves the list consistent, because it grows by single pushes.
        self.overflow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns every query and outcome seen, with its number of calls.
    pub(crate) fn counts(&self) -> Vec<(Query, Outcome, u64)> {
        let mut counts: Vec<(Query, Outcome, u64)> = Vec::new();
        let slots = self.slots.iter().filter_map(|slot| {
            let key = slot.key.load(Ordering::Acquire);
            Some((
                key,
                *slot.outcome.get()?,
                slot.calls.load(Ordering::Relaxed),
            ))
        });
        for (key, outcome, calls) in slots.chain(self.overflow().iter().copied()) {
            let Some(query) = Query::unpack(key & QUERY & !LIMITED) else {
                continue;
            };
            match counts
                .iter_mut()
                .find(|(q, o, _)| (*q, *o) == (query, outcome))
            {
                Some((_, _, sum)) => *sum += calls,
                None => counts.push((query, outcome, calls)),
            }
        }
        counts.retain(|(_, _, calls)| *calls > 0);
        counts
    }

    /// Sets every count to zero. Cached decisions stay.
    pub(crate) fn reset(&self) {
        for slot in &self.slots {
            slot.calls.store(0, Ordering::Relaxed);
        }
        self.overflow().clear();
    }
}

impl Slot {
    fn is(&self, key: Key, outcome: Outcome) -> bool {
        self.key.load(Ordering::Acquire) == key && self.outcome.get() == Some(&outcome)
    }
}

#[inline]
pub(super) fn is_within_limits(
    site: &SiteSpec,
    outcome: &Outcome,
    tensors: Option<&[&DispatchTensor]>,
) -> bool {
    let Outcome::Fused(_, implementation) = outcome else {
        return true;
    };
    match (implementation.limits, tensors) {
        (Some(limits), Some(tensors)) => limits(&site.key, tensors).is_ok(),
        _ => true,
    }
}

/// Returns the id of the state in force from a key.
#[inline]
pub(super) const fn active_id(key: Key) -> ActiveId {
    (key >> QUERY_BITS) as ActiveId
}

/// Returns `true` if the call belongs to a check of live verification and not to the program.
fn is_uncounted(key: Key) -> bool {
    active_id(key) == context::UNCOUNTED
}

/// Makes a new decision, which a bisection may override.
pub(super) fn chosen(
    site: &SiteSpec,
    key: Key,
    query: Query,
    tensors: Option<&[&DispatchTensor]>,
) -> Choice {
    let active = context::by_id(active_id(key));
    let mut choice = choose(site, &active, query, tensors);
    if bisection::is_off(site) {
        choice.outcome = Outcome::Reference(Reason::Policy);
        return choice;
    }
    refuse_unmet(site, &active, query, &choice);
    if let Outcome::Fused(..) = choice.outcome {
        bisection::ran_fused(site);
    }
    choice
}

fn refuse_unmet(site: &SiteSpec, active: &Active, query: Query, choice: &Choice) {
    if let Some(reason) = choice.unmet() {
        let unmet = Unmet {
            site,
            active,
            query,
            choice,
            reason,
        };
        panic!("{unmet}");
    }
}

#[cfg(test)]
mod tests;
