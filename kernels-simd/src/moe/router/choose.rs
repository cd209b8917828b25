//! The choice of one token's experts.

use super::Settings;
use super::largest::{Largest, nan_as_largest};
use crate::Real;
use crate::keys::Grouping;

/// The choice of experts, made for one token after another.
pub(super) struct Chooser<'a, A> {
    settings: &'a Settings,
    /// The values that experts are compared by, without NaN.
    compared: Vec<A>,
    groups: Largest<A>,
    pub(super) chosen: Largest<A>,
}

impl<'a, A: Real> Chooser<'a, A> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        let groups = settings.group_limit.map_or(1, |(_, chosen)| chosen);
        Self {
            settings,
            compared: vec![A::ZERO; settings.experts],
            groups: Largest::new(groups),
            chosen: Largest::new(settings.top_k),
        }
    }

    /// Chooses the experts of one token and leaves them in `self.chosen`.
    #[inline(always)]
    pub(super) fn choose(&mut self, values: impl Iterator<Item = A>) {
        for (compared, value) in self.compared.iter_mut().zip(values) {
            *compared = nan_as_largest(value);
        }
        self.chosen.clear();
        let Some((groups, _)) = self.settings.group_limit else {
            for (expert, value) in self.compared.iter().enumerate() {
                self.chosen.offer(*value, expert);
            }
            return self.chosen.settle();
        };
        let size = self.compared.len() / groups;
        self.groups.clear();
        for (group, members) in self.compared.chunks_exact(size).enumerate() {
            let score = group_score(members, self.settings.grouping);
            self.groups.offer(nan_as_largest(score), group);
        }
        self.groups.settle();
        // Sorted in ascending order, so that among equal experts the lower index is offered first.
        self.groups.sort_by_index();
        for group in self.groups.indices() {
            for expert in group * size..(group + 1) * size {
                self.chosen.offer(self.compared[expert], expert);
            }
        }
        self.chosen.settle();
    }
}

#[inline(always)]
fn group_score<A: Real>(members: &[A], grouping: Grouping) -> A {
    let mut first = A::of(f64::NEG_INFINITY);
    let mut second = first;
    for value in members {
        if *value > first {
            (first, second) = (*value, first);
        } else if *value > second {
            second = *value;
        }
    }
    match grouping {
        Grouping::TopTwo => first + second,
        Grouping::Max | Grouping::None => first,
    }
}
