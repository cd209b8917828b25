//! The keys that a query does not see, in blocks of scores and of their gradients.

use super::lanes::Lanes;
use super::scores::Place;
use crate::Real;
use crate::lanes::vectorize;

/// Hides the scores of keys that a lane does not see.
pub(super) fn hide<A: Real>(lanes: &Lanes, place: &Place, scores: &mut [A]) {
    if lanes.see_all(place.lanes.clone(), &place.keys) {
        return;
    }
    let [starts, ends] = seen(lanes, place);
    vectorize(Hide {
        place,
        scores,
        starts: &starts,
        ends: &ends,
        hidden: A::of(f64::NEG_INFINITY),
    });
}

/// Sets probabilities and gradients of scores to zero where a lane does not see the key, and in lanes of the padding. They are
/// zero already, unless a number of the query or of the key is infinite or NaN, which must not reach the gradients of others.
pub(super) fn clear_hidden<A: Real>(lanes: &Lanes, place: &Place, values: [&mut [A]; 2]) {
    if place.lanes.end <= lanes.count && lanes.see_all(place.lanes.clone(), &place.keys) {
        return;
    }
    let [starts, mut ends] = seen(lanes, place);
    let queries = lanes.count.saturating_sub(place.lanes.start);
    ends.iter_mut().skip(queries).for_each(|end| *end = A::ZERO);
    for scores in values {
        vectorize(Hide {
            place,
            scores,
            starts: &starts,
            ends: &ends,
            hidden: A::ZERO,
        });
    }
}

/// Returns the first key that each of the lanes sees and the one after the last, counted from the block's first.
fn seen<A: Real>(lanes: &Lanes, place: &Place) -> [Vec<A>; 2] {
    let ranges = place
        .lanes
        .clone()
        .map(|lane| lanes.seen(lane, &place.keys));
    // Numbers up to that of the keys are exact in every type.
    let number = |key: usize| A::of(key as f64);
    let (starts, ends) = ranges
        .map(|seen| (number(seen.start), number(seen.end)))
        .unzip();
    [starts, ends]
}

struct Hide<'a, A> {
    place: &'a Place,
    scores: &'a mut [A],
    starts: &'a [A],
    ends: &'a [A],
    /// The number of keys that a lane does not see.
    hidden: A,
}

impl<A: Real> pulp::WithSimd for Hide<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (key, line) in self.place.lines(self.scores).enumerate() {
            let key = A::of(key as f64);
            let seen = self.starts.iter().zip(self.ends);
            for (score, (start, end)) in line.iter_mut().zip(seen) {
                let is_seen = (key >= *start) & (key < *end);
                *score = if is_seen { *score } else { self.hidden };
            }
        }
    }
}
