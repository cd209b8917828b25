use crate::semantics::{
    Correction, Dtypes, Grouping, Renormalise, RouterKey, RouterWeights, Scoring,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a sparse block (Shazeer et al., arXiv:1701.06538). A router chooses
/// experts for every token, and `y = experts(x) + shared(x)`.
///
/// The numbers (experts, choices per token, groups, scale) are run-time values, and the experts have
/// a separate key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "part", rename = "block")]
pub struct MoeBlockKey {
    /// The function that turns logits into scores.
    pub scoring: Scoring,
    /// The bias that corrects the choice, if there is one.
    pub correction: Correction,
    /// The groups of experts that a token may choose from.
    pub grouping: Grouping,
    /// The renormalisation of the chosen experts' weights.
    pub renormalise: Renormalise,
    /// The dtype of the weights.
    pub weights: RouterWeights,
    /// The expert that processes every token, if there is one.
    pub shared: SharedExpert,
}

impl MoeBlockKey {
    /// Softmax and top-k, and a shared expert with a gate.
    pub const QWEN2_MOE: Self = Self::new(RouterKey::QWEN2_MOE, SharedExpert::Gated);

    /// Softmax, top-k and renormalisation.
    pub const QWEN3_MOE: Self = Self::new(RouterKey::QWEN3_MOE, SharedExpert::None);

    /// Like Qwen3-MoE's key, but routing weights stay in f32.
    pub const MIXTRAL: Self = Self::new(RouterKey::MIXTRAL, SharedExpert::None);

    /// Sigmoid scores with a correction of the choice within groups, and a shared expert.
    pub const DEEPSEEK_V3: Self = Self::new(RouterKey::DEEPSEEK_V3, SharedExpert::Plain);

    /// Returns the key of a block with this router.
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

    /// Returns the key of the block's router.
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

/// The expert of a sparse block that processes every token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedExpert {
    /// No shared expert.
    None,
    /// The result of the shared expert is added (DeepSeek, GLM-4-MoE).
    Plain,
    /// The result of the shared expert is multiplied by the logistic function of a gate's output, one number for
    /// each token, and added (Qwen2-MoE).
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
