//! The memory of a site: its decisions, and the number of times that each path ran.
//!
//! A site sees few distinct calls (device, dtype, mode, policy). Its cache is therefore a short array of words, in the
//! order in which the calls came. Looking up a decision and counting the call takes two thread-local reads, a few loads
//! and one atomic add. It allocates nothing and takes no lock.

use super::log::say;
use super::unmet::Unmet;
use super::{Choice, Decision, Outcome, Query, Route, Site, choose};
use crate::active::{self, ACTIVE_BITS, Active, ActiveId};
use crate::bisection;
use crate::reason::Reason;
use crate::registry::{self, SiteSpec};
use burn::backend::DispatchTensor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const SLOTS: usize = 12;

/// The cache and the counters of one site.
pub(crate) struct Tally {
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

impl Tally {
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
        if active::tunes(active_id(key)) {
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
        u64::from(active::active_id()) << QUERY_BITS | query.pack()
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

    /// Adds calls to the slot of the key and outcome. If there is none, takes a free slot, or else one that differs
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
    active_id(key) == active::UNCOUNTED
}

/// Makes a new decision, which a bisection may override.
pub(super) fn chosen(
    site: &SiteSpec,
    key: Key,
    query: Query,
    tensors: Option<&[&DispatchTensor]>,
) -> Choice {
    let active = active::by_id(active_id(key));
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
mod tests {
    use super::super::tests::{F32, ROPE_SITE as SITE, query};
    use super::*;
    use crate::dispatch::{Mode, TensorType};
    use crate::policy::{Policy, scope};
    use crate::reason::Reason;
    use crate::registry::FloatType;

    fn decide(tally: &Tally, tensors: TensorType) -> Decision {
        tally.decide(&SITE, query(tensors))
    }

    #[test]
    fn calls_are_counted_by_path() {
        let tally = Tally::new();
        let _auto = scope(Policy::auto());
        for _ in 0..3 {
            assert!(decide(&tally, F32).is_fused());
        }
        let mixed = decide(&tally, TensorType::Mixed);
        assert!(matches!(mixed, Decision::Reference(Reason::MixedDtypes)));
        {
            let _off = scope(Policy::reference());
            let off = decide(&tally, F32);
            assert!(matches!(off, Decision::Reference(Reason::Policy)));
        }
        assert!(decide(&tally, F32).is_fused());

        let counts = tally.counts();
        let fused = |(q, outcome, calls): &(Query, Outcome, u64)| {
            *q == query(F32) && matches!(outcome, Outcome::Fused(..)) && *calls == 4
        };
        assert!(counts.iter().any(fused), "{counts:?}");
        assert!(counts.contains(&(query(F32), Outcome::Reference(Reason::Policy), 1)));
        assert_eq!(counts.iter().map(|(_, _, calls)| calls).sum::<u64>(), 6);

        assert!(tally.peek(&SITE, query(F32)).is_fused());
        assert_eq!(tally.counts(), counts);

        tally.reset();
        assert!(tally.counts().is_empty());
        assert!(decide(&tally, F32).is_fused());
    }

    #[test]
    fn what_was_only_peeked_at_is_not_counted() {
        let tally = Tally::new();
        let _auto = scope(Policy::auto());
        assert!(tally.peek(&SITE, query(F32)).is_fused());
        assert!(tally.peek(&SITE, query(F32)).is_fused());
        assert_eq!(tally.counts(), []);
        assert!(decide(&tally, F32).is_fused());
        assert_eq!(tally.counts().len(), 1);
    }

    #[test]
    fn more_policies_than_slots_still_count_every_call() {
        let tally = Tally::new();
        let ids = ["npu_fused_rmsnorm", "npu_fused_swiglu", "npu_fused_rope"];
        let mut calls = 0;
        for round in 0..2 {
            for bits in 0..27 {
                let mut policy = Policy::auto();
                let mut rest = bits;
                for id in ids {
                    policy = match rest % 3 {
                        0 => policy,
                        1 => policy.enable(id).unwrap(),
                        _ => policy.disable(id).unwrap(),
                    };
                    rest /= 3;
                }
                let _scope = scope(policy.clone());
                let fused = decide(&tally, F32).is_fused();
                assert_eq!(fused, bits / 9 != 2, "{policy} in round {round}");
                calls += 1;
            }
        }
        let counted: u64 = tally.counts().iter().map(|(_, _, calls)| calls).sum();
        assert_eq!(counted, calls);
    }

    /// Creates queries of more kinds than there are slots.
    #[test]
    fn more_kinds_of_call_than_slots_are_still_counted_by_path() {
        let tally = Tally::new();
        let _auto = scope(Policy::auto());
        let kinds = || {
            FloatType::ALL.into_iter().flat_map(|float| {
                [Mode::Training, Mode::Inference]
                    .into_iter()
                    .flat_map(move |mode| {
                        [true, false].map(move |condition| Query {
                            mode,
                            condition,
                            ..query(TensorType::Float(float))
                        })
                    })
            })
        };
        assert!(kinds().count() > SLOTS);
        for round in 1..=3 {
            for kind in kinds() {
                assert_eq!(tally.decide(&SITE, kind).is_fused(), kind.condition);
            }
            let counts = tally.counts();
            assert_eq!(counts.len(), kinds().count());
            assert!(counts.iter().all(|(_, _, calls)| *calls == round));
        }
        tally.reset();
        assert!(tally.counts().is_empty());
    }

    #[test]
    fn threads_count_together() {
        let tally = Tally::new();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let _auto = scope(Policy::auto());
                    for call in 0..1_000 {
                        let tensors = if call % 2 == 0 {
                            F32
                        } else {
                            TensorType::Mixed
                        };
                        assert_eq!(decide(&tally, tensors).is_fused(), call % 2 == 0);
                    }
                });
            }
        });
        let mut counts: Vec<_> = tally.counts().iter().map(|(_, _, calls)| *calls).collect();
        counts.sort_unstable();
        assert_eq!(counts, [2_000, 2_000]);
    }

    #[test]
    #[should_panic(expected = "`none,+npu_fused_rope` asks for npu_fused_rope at tests::rope")]
    fn an_explicit_wish_that_cannot_be_met_panics_with_the_reason() {
        let _scope = scope(Policy::reference().enable("npu_fused_rope").unwrap());
        decide(&Tally::new(), TensorType::Unsupported);
    }

    #[test]
    #[should_panic(expected = "cpu     the implementation does not take this dtype")]
    fn the_message_lists_what_was_looked_at() {
        let _scope = scope(Policy::auto().strict());
        decide(&Tally::new(), TensorType::Unsupported);
    }
}
