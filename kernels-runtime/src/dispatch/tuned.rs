//! Decisions under a policy that tunes.

use super::decision_cache::{Key, LIMITED, active_id, chosen, is_within_limits};
use super::log::say;
use super::{Decision, DecisionCache, Outcome, Query, Route, Site, choose};
use crate::context;
use crate::reason::Reason;
use crate::registry::SiteSpec;
use crate::tune::{Call, Choice};
use burn::backend::DispatchTensor;

impl DecisionCache {
    /// Decides and counts a call as another policy would, but takes the reference where that was measured to be faster. Of
    /// a known class, it allocates nothing.
    #[inline(never)]
    pub(super) fn decide_tuned(
        &self,
        site: &'static Site,
        query: Query,
        key: Key,
        tensors: &[&DispatchTensor],
    ) -> Route {
        let spec = site.spec();
        let known = self.find(key).map(|(_, outcome)| *outcome);
        let known = known.unwrap_or_else(|| self.remember_anew(spec, query, key, 0));
        let beyond = (!is_within_limits(spec, &known, Some(tensors)))
            .then(|| chosen(spec, key, query, Some(tensors)));
        let outcome = beyond.as_ref().map_or(known, |choice| choice.outcome);
        let class = match outcome {
            Outcome::Fused(kernel, implementation) => Call {
                site,
                active: active_id(key),
                query,
                kernel,
                implementation,
                tensors,
            }
            .class(),
            Outcome::Reference(_) => None,
        };
        let choice = class.and_then(|class| class.choice());
        if choice == Some(Choice::Reference) {
            return self.yield_to_reference(spec, query, key).into();
        }
        match beyond {
            None => _ = self.remember(key, outcome, 1),
            Some(choice) => {
                if self.remember(key | LIMITED, outcome, 1) {
                    say(spec, query, &choice);
                }
            }
        }
        match (outcome, class) {
            (Outcome::Fused(_, implementation), Some(class)) if choice.is_none() => {
                Route::measured(implementation, class)
            }
            _ => outcome.decision().into(),
        }
    }

    /// Counts a call whose reference was measured to be faster, and logs the first of its kind.
    fn yield_to_reference(&self, site: &SiteSpec, query: Query, key: Key) -> Decision {
        let outcome = Outcome::Reference(Reason::Tuned);
        if self.remember(key | LIMITED, outcome, 1) {
            let active = context::by_id(active_id(key));
            let choice = choose(site, &active, query, None);
            say(site, query, &choice.yielding(&active.policy, site));
        }
        outcome.decision()
    }
}
