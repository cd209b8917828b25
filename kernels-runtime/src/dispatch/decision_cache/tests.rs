use super::*;
use crate::dispatch::tests::{F32, ROPE_SITE as SITE, query};
use crate::dispatch::{Mode, TensorType};
use crate::policy::{Policy, scope};
use crate::reason::Reason;
use crate::registry::FloatType;

fn decide(cache: &DecisionCache, tensors: TensorType) -> Decision {
    cache.decide(&SITE, query(tensors))
}

#[test]
fn calls_are_counted_by_path() {
    let cache = DecisionCache::new();
    let _auto = scope(Policy::auto());
    for _ in 0..3 {
        assert!(decide(&cache, F32).is_fused());
    }
    let mixed = decide(&cache, TensorType::Mixed);
    assert!(matches!(mixed, Decision::Reference(Reason::MixedDtypes)));
    {
        let _off = scope(Policy::reference());
        let off = decide(&cache, F32);
        assert!(matches!(off, Decision::Reference(Reason::Policy)));
    }
    assert!(decide(&cache, F32).is_fused());

    let counts = cache.counts();
    let fused = |(q, outcome, calls): &(Query, Outcome, u64)| {
        *q == query(F32) && matches!(outcome, Outcome::Fused(..)) && *calls == 4
    };
    assert!(counts.iter().any(fused), "{counts:?}");
    assert!(counts.contains(&(query(F32), Outcome::Reference(Reason::Policy), 1)));
    assert_eq!(counts.iter().map(|(_, _, calls)| calls).sum::<u64>(), 6);

    assert!(cache.peek(&SITE, query(F32)).is_fused());
    assert_eq!(cache.counts(), counts);

    cache.reset();
    assert!(cache.counts().is_empty());
    assert!(decide(&cache, F32).is_fused());
}

#[test]
fn what_was_only_peeked_at_is_not_counted() {
    let cache = DecisionCache::new();
    let _auto = scope(Policy::auto());
    assert!(cache.peek(&SITE, query(F32)).is_fused());
    assert!(cache.peek(&SITE, query(F32)).is_fused());
    assert_eq!(cache.counts(), []);
    assert!(decide(&cache, F32).is_fused());
    assert_eq!(cache.counts().len(), 1);
}

#[test]
fn more_policies_than_slots_still_count_every_call() {
    let cache = DecisionCache::new();
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
            let fused = decide(&cache, F32).is_fused();
            assert_eq!(fused, bits / 9 != 2, "{policy} in round {round}");
            calls += 1;
        }
    }
    let counted: u64 = cache.counts().iter().map(|(_, _, calls)| calls).sum();
    assert_eq!(counted, calls);
}

/// Creates queries of more kinds than there are slots.
#[test]
fn more_kinds_of_call_than_slots_are_still_counted_by_path() {
    let cache = DecisionCache::new();
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
            assert_eq!(cache.decide(&SITE, kind).is_fused(), kind.condition);
        }
        let counts = cache.counts();
        assert_eq!(counts.len(), kinds().count());
        assert!(counts.iter().all(|(_, _, calls)| *calls == round));
    }
    cache.reset();
    assert!(cache.counts().is_empty());
}

#[test]
fn threads_count_together() {
    let cache = DecisionCache::new();
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
                    assert_eq!(decide(&cache, tensors).is_fused(), call % 2 == 0);
                }
            });
        }
    });
    let mut counts: Vec<_> = cache.counts().iter().map(|(_, _, calls)| *calls).collect();
    counts.sort_unstable();
    assert_eq!(counts, [2_000, 2_000]);
}

#[test]
#[should_panic(expected = "`none,+npu_fused_rope` asks for npu_fused_rope at tests::rope")]
fn an_explicit_wish_that_cannot_be_met_panics_with_the_reason() {
    let _scope = scope(Policy::reference().enable("npu_fused_rope").unwrap());
    decide(&DecisionCache::new(), TensorType::Unsupported);
}

#[test]
#[should_panic(expected = "cpu     the implementation does not take this dtype")]
fn the_message_lists_what_was_looked_at() {
    let _scope = scope(Policy::auto().strict());
    decide(&DecisionCache::new(), TensorType::Unsupported);
}
