use crate::kernel::softmax;
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{Correction, Grouping, Renormalise, RouterKey, Scoring};
use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

/// A router's key with numbers that fit together.
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// use burn_kernels::ops::moe::Routing;
/// use burn_kernels::semantics::RouterKey;
///
/// let deepseek_v3 = Routing::new(RouterKey::DEEPSEEK_V3, 256, 8)?
///     .limited_to_groups(8, 4)?
///     .scaled(2.5)?;
/// assert_eq!(deepseek_v3.top_k(), 8);
/// assert!(Routing::new(RouterKey::QWEN3_MOE, 8, 9).is_err());
/// # Ok::<(), burn_kernels::ops::moe::router::RoutingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Numbers", into = "Numbers")]
pub struct Routing {
    key: RouterKey,
    num_experts: usize,
    top_k: usize,
    groups: usize,
    chosen_groups: usize,
    scale: f64,
}

/// The numbers of a routing as they are written. They are checked when they are read.
#[derive(Serialize, Deserialize)]
struct Numbers {
    key: RouterKey,
    num_experts: usize,
    top_k: usize,
    groups: [usize; 2],
    scale: f64,
}

impl From<Routing> for Numbers {
    fn from(routing: Routing) -> Self {
        Self {
            key: routing.key,
            num_experts: routing.num_experts,
            top_k: routing.top_k,
            groups: [routing.groups, routing.chosen_groups],
            scale: routing.scale,
        }
    }
}

impl TryFrom<Numbers> for Routing {
    type Error = RoutingError;

    fn try_from(numbers: Numbers) -> Result<Self, RoutingError> {
        let routing = Self::new(numbers.key, numbers.num_experts, numbers.top_k)?;
        let routing = match numbers.groups {
            [1, 1] => routing,
            [groups, chosen] => routing.limited_to_groups(groups, chosen)?,
        };
        routing.scaled(numbers.scale)
    }
}

/// The error of router numbers that don't fit together.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum RoutingError {
    /// No expert, no choice, or more choices than experts.
    #[error("a token can't choose {top_k} of {num_experts} experts")]
    TopK {
        /// The number of experts that a token chooses.
        top_k: usize,
        /// The number of all experts.
        num_experts: usize,
    },
    /// The key needs scores before the choice, but its scoring has none.
    #[error("{0}: a softmax of the chosen experts has no scores to correct, sum or renormalise")]
    NoScores(RouterKey),
    /// Groups are given, but the key has none.
    #[error("{0} does not group experts")]
    NoGrouping(RouterKey),
    /// The experts can't be divided into this number of equal groups.
    #[error("{num_experts} experts don't divide into {groups} groups")]
    Groups {
        /// The number of all experts.
        num_experts: usize,
        /// The number of groups.
        groups: usize,
    },
    /// No group is chosen, or more groups than there are.
    #[error("a token can't choose {chosen} of {groups} groups")]
    ChosenGroups {
        /// The number of groups that a token chooses from.
        chosen: usize,
        /// The number of groups.
        groups: usize,
    },
    /// The groups have one expert, so there is no sum of two.
    #[error("a group scores as the sum of its two best experts, but has only {0}")]
    GroupOfOne(usize),
    /// The chosen groups have too few experts.
    #[error("a token can't choose {top_k} experts of groups that have {available} together")]
    TooFewInGroups {
        /// The number of experts that a token chooses.
        top_k: usize,
        /// The number of experts in the chosen groups.
        available: usize,
    },
    /// The scale is infinite or NaN.
    #[error("the weights' scale is {0}, which is not a number to multiply with")]
    Scale(f64),
}

impl Routing {
    /// Makes a routing of every token to `top_k` of `num_experts` experts, in one group, with a scale of 1.
    ///
    /// # Errors
    /// Returns an error if `top_k` is 0 or larger than `num_experts`, or if the key contradicts itself.
    pub fn new(key: RouterKey, num_experts: usize, top_k: usize) -> Result<Self, RoutingError> {
        if top_k == 0 || top_k > num_experts {
            return Err(RoutingError::TopK { top_k, num_experts });
        }
        let wants_scores = key.correction == Correction::Bias
            || key.grouping == Grouping::TopTwo
            || key.renormalise == Renormalise::Sum;
        if key.scoring == Scoring::SoftmaxOfChosen && wants_scores {
            return Err(RoutingError::NoScores(key));
        }
        Ok(Self {
            key,
            num_experts,
            top_k,
            groups: 1,
            chosen_groups: 1,
            scale: 1.0,
        })
    }

    /// Divides the experts into `groups` groups. A token chooses from the best `chosen` groups
    /// (`n_group` and `topk_group` of configurations).
    ///
    /// # Errors
    /// Returns an error if the key does not group, if `num_experts` is not a multiple of `groups`, if `chosen` is 0 or
    /// larger than `groups`, if the key sums two experts of groups with only one, or if the chosen groups have fewer
    /// than `top_k` experts.
    pub fn limited_to_groups(self, groups: usize, chosen: usize) -> Result<Self, RoutingError> {
        let Self {
            key,
            num_experts,
            top_k,
            ..
        } = self;
        if groups == 0 || !num_experts.is_multiple_of(groups) {
            return Err(RoutingError::Groups {
                num_experts,
                groups,
            });
        }
        if chosen == 0 || chosen > groups {
            return Err(RoutingError::ChosenGroups { chosen, groups });
        }
        if groups > 1 && key.grouping == Grouping::None {
            return Err(RoutingError::NoGrouping(key));
        }
        let size = num_experts / groups;
        if groups > 1 && size < 2 && key.grouping == Grouping::TopTwo {
            return Err(RoutingError::GroupOfOne(size));
        }
        let available = size * chosen;
        if top_k > available {
            return Err(RoutingError::TooFewInGroups { top_k, available });
        }
        Ok(Self {
            groups,
            chosen_groups: chosen,
            ..self
        })
    }

    /// Multiplies the weights by `scale` (`routed_scaling_factor`).
    ///
    /// # Errors
    /// Returns an error if `scale` is infinite or NaN.
    pub fn scaled(self, scale: f64) -> Result<Self, RoutingError> {
        if !scale.is_finite() {
            return Err(RoutingError::Scale(scale));
        }
        Ok(Self { scale, ..self })
    }

    /// Returns the key.
    pub const fn key(&self) -> RouterKey {
        self.key
    }

    /// Returns the number of all experts.
    pub const fn num_experts(&self) -> usize {
        self.num_experts
    }

    /// Returns the number of experts that a token chooses.
    pub const fn top_k(&self) -> usize {
        self.top_k
    }

    /// Returns the factor of the weights.
    pub const fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns the number of groups and the number that a token chooses from, if that limits the choice.
    pub(super) fn group_limit(&self) -> Option<(usize, usize)> {
        (self.chosen_groups < self.groups).then_some((self.groups, self.chosen_groups))
    }

    /// Returns whether experts are compared by their logits. Logits have the same order as scores, but distinguish
    /// more values.
    pub(crate) fn chooses_by_logits(&self) -> bool {
        self.key.correction == Correction::None && self.key.grouping != Grouping::TopTwo
    }

    /// Returns the scores of all experts, `[tokens, num_experts]` like the logits, in f32 (f64 for f64 logits)
    /// and with a gradient, for a custom auxiliary loss. If the key takes the softmax of the
    /// chosen experts, returns the softmax of all experts.
    pub fn scores(&self, logits: Tensor<2>) -> Tensor<2> {
        let compute = compute_dtype(logits.dtype());
        let logits = same_dtype_as(logits, compute);
        match self.key.scoring {
            Scoring::Softmax | Scoring::SoftmaxOfChosen => softmax(logits),
            Scoring::Sigmoid => activation::sigmoid(logits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_numbers_are_errors() {
        let of = |key, experts, k| Routing::new(key, experts, k);
        for (experts, k) in [(8, 9), (8, 0), (0, 0)] {
            assert!(of(RouterKey::QWEN3_MOE, experts, k).is_err());
        }
        let v3 = of(RouterKey::DEEPSEEK_V3, 16, 4).unwrap();
        for (groups, chosen) in [(3, 1), (0, 0), (4, 0), (4, 5), (16, 4), (8, 1)] {
            assert!(v3.limited_to_groups(groups, chosen).is_err(), "{groups}");
        }
        assert!(v3.limited_to_groups(8, 2).is_ok());
        let plain = of(RouterKey::MIXTRAL, 16, 4).unwrap();
        assert_eq!(
            plain.limited_to_groups(4, 2).unwrap_err().to_string(),
            "router(scoring=softmax, renormalise=sum, weights=wide) does not group experts"
        );
        assert!(plain.scaled(f64::NAN).is_err());
        assert!(plain.scaled(f64::INFINITY).is_err());
    }

    #[test]
    fn a_softmax_of_the_chosen_has_no_scores() {
        for key in [
            RouterKey {
                correction: Correction::Bias,
                ..RouterKey::GPT_OSS
            },
            RouterKey {
                grouping: Grouping::TopTwo,
                ..RouterKey::GPT_OSS
            },
            RouterKey {
                renormalise: Renormalise::Sum,
                ..RouterKey::GPT_OSS
            },
        ] {
            assert_eq!(Routing::new(key, 8, 2), Err(RoutingError::NoScores(key)));
        }
    }
}
