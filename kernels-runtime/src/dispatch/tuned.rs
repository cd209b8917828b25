//! Decisions under a policy that tunes.

use super::choose::rivals;
use super::decision_cache::{Key, LIMITED, active_id, chosen, is_within_limits};
use super::log::say;
use super::{Decision, DecisionCache, Outcome, Query, Route, Site, choose};
use crate::context;
use crate::reason::Reason;
use crate::registry::{Implementation, SiteSpec};
use crate::tune::{Call, Choice, Class, is_clearly_less};
use burn::backend::DispatchTensor;

impl DecisionCache {
    /// Decides and counts a call as another policy would, but takes another implementation or the reference where that
    /// was measured to be faster. Of a known class, it allocates nothing.
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
        let fastest = match outcome {
            Outcome::Fused(kernel, implementation) => Call {
                site,
                active: active_id(key),
                query,
                kernel,
                implementation,
                tensors,
            }
            .fastest(),
            Outcome::Reference(_) => None,
        };
        let (taken, class) = match (outcome, fastest) {
            (Outcome::Fused(kernel, _), Some((one, class))) => {
                (Outcome::Fused(kernel, one), Some(class))
            }
            _ => (outcome, None),
        };
        let choice = class.and_then(|class| class.choice());
        if choice == Some(Choice::Reference) {
            return self.yield_to_reference(spec, query, key).into();
        }
        if taken == known {
            self.remember(key, taken, 1);
        } else if self.remember(key | LIMITED, taken, 1) {
            let choice = beyond.unwrap_or_else(|| chosen(spec, key, query, Some(tensors)));
            say(spec, query, &choice.taking(taken));
        }
        match (taken, class) {
            (Outcome::Fused(_, implementation), Some(class)) if choice.is_none() => {
                Route::measured(implementation, class)
            }
            _ => taken.decision().into(),
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

impl Call<'_> {
    /// Returns the implementation that the call runs, with its class: the first one whose calls are still measured, in
    /// the order of the policy, or else the fastest. Returns `None` if the policy keeps the kernel as it is.
    fn fastest(self) -> Option<(&'static Implementation, &'static Class)> {
        let class = self.class()?;
        let mut best = (self.implementation, class);
        let is_here = |one: &&Implementation| one.device.contains(self.query.device);
        let several = self.kernel.implementations.iter().filter(is_here).count() > 1;
        if class.choice().is_none() || class.kernel_time().is_none() || !several {
            return Some(best);
        }
        let active = context::by_id(self.active);
        for implementation in rivals(&self, &active) {
            let rival = Call {
                implementation,
                ..self
            };
            let Some(class) = rival.class() else { continue };
            if class.choice().is_none() {
                return Some((implementation, class));
            }
            let times = class.kernel_time().zip(best.1.kernel_time());
            if times.is_some_and(|(time, shortest)| is_clearly_less(time, shortest)) {
                best = (implementation, class);
            }
        }
        Some(best)
    }
}
