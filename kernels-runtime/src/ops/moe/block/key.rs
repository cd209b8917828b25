use crate::semantics::{
    Correction, Dtypes, Grouping, Renormalise, RouterKey, RouterWeights, Scoring,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What changes the result of a sparse block (Shazeer et al., arXiv:1701.06538): a router chooses
/// experts for every token, `y = experts(x) + shared(x)`.
///
/// The numbers (experts, choices a token, groups, scale) are run-time values, and the experts have
/// a key of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "part", rename = "block")]
pub struct MoeBlockKey {
    /// How logits become scores.
    pub scoring: Scoring,
    /// Whether the choice is corrected by a bias.
    pub correction: Correction,
    /// Whether a token may choose from some groups of experts only.
    pub grouping: Grouping,
    /// Whether the chosen experts' weights are made to sum to one.
    pub renormalise: Renormalise,
    /// The dtype of the weights.
    pub weights: RouterWeights,
    /// Whether there is an expert that every token goes to.
    pub shared: SharedExpert,
}

impl MoeBlockKey {
    /// Softmax and top-k, and a shared expert with a gate.
    pub const QWEN2_MOE: Self = Self::new(RouterKey::QWEN2_MOE, SharedExpert::Gated);

    /// Softmax, top-k and renormalisation.
    pub const QWEN3_MOE: Self = Self::new(RouterKey::QWEN3_MOE, SharedExpert::None);

    /// Like Qwen3-MoE's, but routing weights stay in f32.
    pub const MIXTRAL: Self = Self::new(RouterKey::MIXTRAL, SharedExpert::None);

    /// Sigmoid scores with a correction of the choice within groups, and a shared expert.
    pub const DEEPSEEK_V3: Self = Self::new(RouterKey::DEEPSEEK_V3, SharedExpert::Plain);

    /// A block with this router.
    pub const fn new(router: RouterKey, shared: SharedExpert) -> Self {
        Self {
            scoring: router.scoring,
            correction: router.correction,
            grouping: router.grouping,
            renormalise: router.renormalise,
            weights: router.weights,
            shared,
        }
    }

    /// Its router.
    pub const fn router(&self) -> RouterKey {
        RouterKey {
            scoring: self.scoring,
            correction: self.correction,
            grouping: self.grouping,
            renormalise: self.renormalise,
            weights: self.weights,
        }
    }
}

/// Whether a sparse block has an expert that every token goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedExpert {
    /// No.
    None,
    /// Its result is added (DeepSeek, GLM-4-MoE).
    Plain,
    /// Its result is multiplied with the logistic function of one number a token, which a gate of
    /// its own gives, and added (Qwen2-MoE).
    Gated,
}

impl Dtypes for MoeBlockKey {}

impl fmt::Display for MoeBlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let router = self.router().to_string();
        let settings = router.trim_start_matches("router(").trim_end_matches(')');
        write!(f, "moe(part=block, {settings}")?;
        f.write_str(match self.shared {
            SharedExpert::None => "",
            SharedExpert::Plain => ", shared=plain",
            SharedExpert::Gated => ", shared=gated",
        })?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_print_the_parameters_that_are_not_usual() {
        assert_eq!(
            MoeBlockKey::QWEN2_MOE.to_string(),
            "moe(part=block, scoring=softmax, shared=gated)"
        );
        assert_eq!(
            MoeBlockKey::MIXTRAL.to_string(),
            "moe(part=block, scoring=softmax, renormalise=sum, weights=wide)"
        );
    }
}
