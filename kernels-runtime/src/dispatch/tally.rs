//! The memory of a site: what was decided, and how often each path ran.
//!
//! A site sees few distinct calls (device, dtype, mode, policy), so its cache is a short array of
//! words. Looking a decision up and counting the call takes one thread-local read, a few loads and
//! one atomic add; nothing is allocated and nothing is locked.

use super::{Decision, Query, Reason, choose};
use crate::policy;
use crate::registry::{self, Implementation, SiteSpec};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 12;

/// The cache and the counters of one site.
pub(crate) struct Tally {
    slots: [Slot; SLOTS],
    /// Calls for which no slot was left.
    uncounted: AtomicU64,
    /// The kernel's implementations, looked up once; empty if it is not linked in.
    implementations: OnceLock<&'static [Implementation]>,
}

/// One cached decision. `key` is the policy's id (24 bits), the query (24 bits) and the outcome
/// (16 bits); zero is an empty slot. Once written, only a policy id of the same query and outcome
/// may replace it, so the count always belongs to one query and outcome.
struct Slot {
    key: AtomicU64,
    calls: AtomicU64,
}

/// What was decided, small enough for a cache slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The kernel's implementation of this index.
    Fused(u8),
    /// The reference.
    Reference(Reason),
}

impl Outcome {
    const FUSED: u16 = 0x100;

    fn code(self) -> u16 {
        match self {
            Self::Fused(index) => Self::FUSED | u16::from(index),
            Self::Reference(reason) => reason as u16,
        }
    }

    fn from_code(code: u16) -> Option<Self> {
        let [low, _] = code.to_le_bytes();
        if code & Self::FUSED != 0 {
            Some(Self::Fused(low))
        } else {
            Reason::from_code(low).map(Self::Reference)
        }
    }

    fn of(decision: Decision, implementations: &[Implementation]) -> Self {
        match decision {
            Decision::Reference(reason) => Self::Reference(reason),
            Decision::Fused(chosen) => {
                let index = implementations
                    .iter()
                    .position(|known| std::ptr::eq(known, chosen))
                    .expect("a chosen implementation belongs to the site's kernel");
                Self::Fused(u8::try_from(index).expect("a kernel has few implementations"))
            }
        }
    }

    fn decision(self, implementations: &'static [Implementation]) -> Decision {
        match self {
            Self::Reference(reason) => Decision::Reference(reason),
            Self::Fused(index) => Decision::Fused(&implementations[usize::from(index)]),
        }
    }
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    key: AtomicU64::new(0),
                    calls: AtomicU64::new(0),
                }
            }; SLOTS],
            uncounted: AtomicU64::new(0),
            implementations: OnceLock::new(),
        }
    }

    fn implementations(&self, site: &SiteSpec) -> &'static [Implementation] {
        self.implementations.get_or_init(|| {
            registry::kernel(site.kernel).map_or(&[], |kernel| kernel.implementations)
        })
    }

    /// Decides a call and counts it.
    pub(crate) fn decide(&self, site: &SiteSpec, query: Query) -> Decision {
        let wanted = Self::wanted(query);
        if let Some((slot, outcome)) = self.find(wanted) {
            slot.calls.fetch_add(1, Ordering::Relaxed);
            return outcome.decision(self.implementations(site));
        }
        self.decide_anew(site, query, wanted)
    }

    /// Decides without counting.
    pub(crate) fn peek(&self, site: &SiteSpec, query: Query) -> Decision {
        let wanted = Self::wanted(query);
        match self.find(wanted) {
            Some((_, outcome)) => outcome.decision(self.implementations(site)),
            None => Self::choose(site, query, wanted),
        }
    }

    /// The key of the query under the policy in force, without an outcome.
    fn wanted(query: Query) -> u64 {
        (u64::from(policy::active_id()) << 24 | u64::from(query.pack())) << 16
    }

    fn find(&self, wanted: u64) -> Option<(&Slot, Outcome)> {
        for slot in &self.slots {
            let key = slot.key.load(Ordering::Acquire);
            if key & !0xffff == wanted {
                return Some((slot, Outcome::from_code(key as u16)?));
            }
            if key == 0 {
                break;
            }
        }
        None
    }

    fn choose(site: &SiteSpec, query: Query, wanted: u64) -> Decision {
        let policy = policy::by_id((wanted >> 40) as u32);
        choose(site, &policy, query).unwrap_or_else(|unmet| panic!("{unmet}"))
    }

    #[cold]
    fn decide_anew(&self, site: &SiteSpec, query: Query, wanted: u64) -> Decision {
        registry::check().unwrap_or_else(|error| panic!("{error}"));
        let decision = Self::choose(site, query, wanted);
        match decision {
            Decision::Fused(implementation) => tracing::debug!(
                site = site.item,
                module = site.module,
                kernel = site.kernel,
                implementation = implementation.name,
                ?query,
                "fused"
            ),
            Decision::Reference(reason) => tracing::debug!(
                site = site.item,
                module = site.module,
                kernel = site.kernel,
                %reason,
                ?query,
                "reference"
            ),
        }
        let outcome = Outcome::of(decision, self.implementations(site));
        self.remember(wanted | u64::from(outcome.code()));
        decision
    }

    /// Counts a call under `key`: in a free slot, else in one that differs in the policy alone.
    fn remember(&self, key: u64) {
        const QUERY_AND_OUTCOME: u64 = (1 << 40) - 1;
        for slot in &self.slots {
            let free = slot
                .key
                .compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
            if free.is_ok() || free == Err(key) {
                slot.calls.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        for slot in &self.slots {
            let known = slot.key.load(Ordering::Acquire);
            if known & QUERY_AND_OUTCOME == key & QUERY_AND_OUTCOME {
                slot.key.store(key, Ordering::Release);
                slot.calls.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.uncounted.fetch_add(1, Ordering::Relaxed);
    }

    /// Every query and outcome seen, with its number of calls.
    pub(crate) fn counts(&self) -> Vec<(Query, Outcome, u64)> {
        let mut counts: Vec<(Query, Outcome, u64)> = Vec::new();
        for slot in &self.slots {
            let key = slot.key.load(Ordering::Acquire);
            let calls = slot.calls.load(Ordering::Relaxed);
            let query = Query::unpack((key >> 16) as u32 & 0xff_ffff);
            let (Some(query), Some(outcome)) = (query, Outcome::from_code(key as u16)) else {
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

    /// Calls that were decided but could not be counted by path.
    pub(crate) fn uncounted(&self) -> u64 {
        self.uncounted.load(Ordering::Relaxed)
    }

    /// Sets every count to zero; cached decisions stay.
    pub(crate) fn reset(&self) {
        for slot in &self.slots {
            slot.calls.store(0, Ordering::Relaxed);
        }
        self.uncounted.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{DeviceKind, Mode, TensorType};
    use crate::policy::{Policy, scope};
    use crate::registry::{FloatType, Form};
    use crate::semantics::{RopeKey, SemanticsKey};

    const SITE: SiteSpec = SiteSpec {
        kernel: "npu_fused_rope",
        item: "rope",
        module: "tests",
        krate: "tests",
        crate_version: "0",
        file: "tests.rs",
        line: 1,
        form: Form::Function,
        key: SemanticsKey::Rope(RopeKey::LLAMA),
        layer: None,
    };

    fn query(tensors: TensorType) -> Query {
        Query {
            device: DeviceKind::Cpu,
            tensors,
            mode: Mode::Training,
            condition: true,
        }
    }

    const F32: TensorType = TensorType::Float(FloatType::F32);

    #[test]
    fn calls_are_counted_by_path() {
        let tally = Tally::new();
        let _auto = scope(Policy::auto());
        for _ in 0..3 {
            assert!(tally.decide(&SITE, query(F32)).is_fused());
        }
        let mixed = tally.decide(&SITE, query(TensorType::Mixed));
        assert!(matches!(mixed, Decision::Reference(Reason::MixedDtypes)));
        {
            let _off = scope(Policy::reference());
            let off = tally.decide(&SITE, query(F32));
            assert!(matches!(off, Decision::Reference(Reason::Policy)));
        }
        assert!(tally.decide(&SITE, query(F32)).is_fused());

        let counts = tally.counts();
        assert!(
            counts.contains(&(query(F32), Outcome::Fused(0), 4)),
            "{counts:?}"
        );
        assert!(counts.contains(&(query(F32), Outcome::Reference(Reason::Policy), 1)));
        assert_eq!(counts.iter().map(|(_, _, calls)| calls).sum::<u64>(), 6);

        assert!(tally.peek(&SITE, query(F32)).is_fused());
        assert_eq!(tally.counts(), counts);

        tally.reset();
        assert!(tally.counts().is_empty());
        assert!(tally.decide(&SITE, query(F32)).is_fused());
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
                let fused = tally.decide(&SITE, query(F32)).is_fused();
                assert_eq!(fused, bits / 9 != 2, "{policy} in round {round}");
                calls += 1;
            }
        }
        let counted: u64 = tally.counts().iter().map(|(_, _, calls)| calls).sum();
        assert_eq!(counted + tally.uncounted(), calls);
    }

    #[test]
    #[should_panic(expected = "`none,+npu_fused_rope` asks for npu_fused_rope at tests::rope")]
    fn an_explicit_wish_that_cannot_be_met_panics_with_the_reason() {
        let _scope = scope(Policy::reference().enable("npu_fused_rope").unwrap());
        Tally::new().decide(&SITE, query(TensorType::Unsupported));
    }

    #[test]
    fn outcomes_survive_their_code() {
        for outcome in [
            Outcome::Fused(0),
            Outcome::Fused(255),
            Outcome::Reference(Reason::Policy),
            Outcome::Reference(Reason::NoGradient),
        ] {
            assert_eq!(Outcome::from_code(outcome.code()), Some(outcome));
        }
        assert_eq!(Outcome::from_code(0), None);
    }
}
