//! Routing: one pass over each row of logits, which keeps the best experts found so far.

mod backward;
mod choose;
mod forward;
mod largest;
mod scores;

use crate::keys::{Grouping, Renormalise, RouterWeights, Scoring};
use crate::{Element, Values, View, with_type};

/// The variant to compute, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The function that turns logits into scores.
    pub scoring: Scoring,
    /// The score of a group of experts.
    pub grouping: Grouping,
    /// The renormalisation of the weights of a token.
    pub renormalise: Renormalise,
    /// The type of the weights.
    pub weights: RouterWeights,
    /// The number of experts.
    pub experts: usize,
    /// The number of experts that a token chooses.
    pub top_k: usize,
    /// The number of groups and the number of those that a token chooses from, if these are fewer.
    pub group_limit: Option<(usize, usize)>,
    /// The factor of the weights.
    pub scale: f64,
}

impl Settings {
    /// Returns the number of tokens.
    ///
    /// # Panics
    /// Panics if the numbers don't go together, or if the logits are not those of the experts.
    fn check(&self, logits: &View<'_>) -> usize {
        let (experts, k) = (self.experts, self.top_k);
        let available = match self.group_limit {
            None => experts,
            Some((groups, chosen)) => {
                assert!(
                    chosen > 0 && chosen <= groups && experts.is_multiple_of(groups),
                    "router: a token can't choose from {chosen} of {groups} groups of {experts} experts"
                );
                experts / groups * chosen
            }
        };
        assert!(
            k > 0 && k <= available,
            "router: a token can't choose {k} of {available} experts"
        );
        match *logits.sizes() {
            [tokens, width] if width == experts => tokens,
            _ => panic!(
                "router: logits of sizes {:?} are not those of {experts} experts",
                logits.sizes()
            ),
        }
    }
}

/// The experts of each token and their weights.
#[derive(Clone, Debug)]
pub struct Routed {
    /// The weights, `[tokens, top_k]`.
    pub weights: Values,
    /// The experts, `[tokens, top_k]`, best first.
    pub indices: Vec<i64>,
}

/// Runs `$body` with `$T` bound to the type of the logits and `$W` to that of the weights.
macro_rules! with_types {
    ($logits:expr, $settings:expr, ($T:ident, $W:ident) => $body:expr) => {
        with_type!($logits.dtype(), $T => match $settings.weights {
            RouterWeights::Logits => {
                type $W = $T;
                $body
            }
            RouterWeights::Wide => {
                type $W = <$T as Element>::Acc;
                $body
            }
        })
    };
}

/// Routes the tokens of logits, `[tokens, experts]`, with contiguous rows. `bias`, `[experts]`, contiguous and in the type that
/// scores are computed in, corrects the choice.
///
/// # Panics
/// Panics if numbers, sizes or types don't go together, or if a tensor can't be read in place.
pub fn forward(logits: &View<'_>, bias: Option<&View<'_>>, settings: &Settings) -> Routed {
    with_types!(logits, settings, (T, W) => forward::forward::<T, W>(logits, bias, settings))
}

/// Returns the gradient of the logits, from that of the weights, `dw`, `[tokens, top_k]`, with contiguous rows, and from the
/// experts that were chosen.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()), or if an index does not belong to an expert.
pub fn backward(dw: &View<'_>, logits: &View<'_>, indices: &[i64], settings: &Settings) -> Values {
    with_types!(logits, settings, (T, W) => {
        backward::backward::<T, W>(dw, logits, indices, settings)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    const SETTINGS: Settings = Settings {
        scoring: Scoring::Sigmoid,
        grouping: Grouping::None,
        renormalise: Renormalise::None,
        weights: RouterWeights::Logits,
        experts: 4,
        top_k: 2,
        group_limit: None,
        scale: 1.0,
    };

    const LOGITS: [f32; 8] = [0.0, 3.0, 1.0, 2.0, -1.0, 0.0, 5.0, 0.0];

    #[test]
    fn the_best_experts_are_chosen() {
        let logits = View::whole(&LOGITS, &[2, 4]);
        let found = forward(&logits, None, &SETTINGS);
        assert_eq!(found.indices, [1, 3, 2, 1]);
        let limited = Settings {
            grouping: Grouping::Max,
            group_limit: Some((2, 1)),
            ..SETTINGS
        };
        let found = forward(&logits, None, &limited);
        assert_eq!(found.indices, [1, 0, 2, 3]);
        let bias = View::whole(&[9.0_f32, 0.0, 0.0, 8.0], &[4]);
        let found = forward(&logits, Some(&bias), &SETTINGS);
        assert_eq!(found.indices, [0, 3, 0, 3]);
        let Values::F32(weights) = found.weights else {
            panic!("{:?}", found.weights)
        };
        assert_eq!(weights[0], 0.5, "the bias is not in the weight");
    }

    #[test]
    fn numbers_that_do_not_go_together_are_refused() {
        let logits = View::whole(&LOGITS, &[2, 4]);
        let of = |top_k, group_limit| Settings {
            top_k,
            group_limit,
            ..SETTINGS
        };
        for settings in [
            of(0, None),
            of(5, None),
            of(2, Some((3, 1))),
            of(2, Some((0, 0))),
            of(2, Some((2, 3))),
            of(2, Some((4, 1))),
            Settings {
                experts: 8,
                ..SETTINGS
            },
        ] {
            let found = catch_unwind(|| forward(&logits, None, &settings));
            assert!(found.is_err(), "{settings:?}");
        }
        let bias = View::whole(&LOGITS[..3], &[3]);
        assert!(catch_unwind(|| forward(&logits, Some(&bias), &SETTINGS)).is_err());
        let dw = View::whole(&LOGITS[..4], &[2, 2]);
        assert_eq!(backward(&dw, &logits, &[0, 1, 2, 3], &SETTINGS).len(), 8);
        for indices in [&[0, 1, 2][..], &[0, 1, 2, 4], &[0, 1, 2, -1]] {
            let found = catch_unwind(|| backward(&dw, &logits, indices, &SETTINGS));
            assert!(found.is_err(), "{indices:?}");
        }
        let dw = View::whole(&LOGITS[..4], &[4, 1]);
        assert!(catch_unwind(|| backward(&dw, &logits, &[0, 1, 2, 3], &SETTINGS)).is_err());
    }
}
