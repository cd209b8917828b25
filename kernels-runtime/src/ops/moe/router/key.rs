use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the choice and the weights of a mixture-of-experts router (Shazeer et al.,
/// arXiv:1701.06538), given the logits `[tokens, experts]`.
///
/// The numbers (experts, choices per token, groups, scale) are run-time values of
/// [`Routing`](crate::ops::moe::router::Routing), not part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RouterKey {
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
}

impl RouterKey {
    /// Softmax and top-k: Qwen2-MoE, and Qwen3-MoE without `norm_topk_prob`.
    pub const QWEN2_MOE: Self = Self {
        scoring: Scoring::Softmax,
        correction: Correction::None,
        grouping: Grouping::None,
        renormalise: Renormalise::None,
        weights: RouterWeights::Logits,
    };

    /// Softmax, top-k and renormalisation: Qwen3-MoE (`norm_topk_prob`).
    pub const QWEN3_MOE: Self = Self {
        renormalise: Renormalise::Sum,
        ..Self::QWEN2_MOE
    };

    /// Like Qwen3-MoE's key, but the weights stay in f32.
    pub const MIXTRAL: Self = Self {
        weights: RouterWeights::Wide,
        ..Self::QWEN3_MOE
    };

    /// Softmax and top-k with a scale (`topk_method = "greedy"`).
    pub const DEEPSEEK_V2: Self = Self {
        weights: RouterWeights::Wide,
        ..Self::QWEN2_MOE
    };

    /// Like [`Self::DEEPSEEK_V2`], from the groups with the best experts (`topk_method = "group_limited_greedy"`).
    pub const DEEPSEEK_V2_GROUPS: Self = Self {
        grouping: Grouping::Max,
        ..Self::DEEPSEEK_V2
    };

    /// Sigmoid scores, a choice corrected by a bias within the best groups, renormalisation and a
    /// scale: DeepSeek-V3, and GLM-4-MoE with one group.
    pub const DEEPSEEK_V3: Self = Self {
        scoring: Scoring::Sigmoid,
        correction: Correction::Bias,
        grouping: Grouping::TopTwo,
        renormalise: Renormalise::Sum,
        weights: RouterWeights::Wide,
    };

    /// The sigmoid of the largest logits. Llama 4 scales the experts' input by it.
    pub const LLAMA4: Self = Self {
        scoring: Scoring::Sigmoid,
        ..Self::QWEN2_MOE
    };

    /// The softmax of the largest logits, which already contain the router's bias.
    pub const GPT_OSS: Self = Self {
        scoring: Scoring::SoftmaxOfChosen,
        ..Self::QWEN2_MOE
    };
}

pub use kernels_simd::keys::{Grouping, Renormalise, RouterWeights, Scoring};

/// The correction of a router's choice by a bias, one value for each expert. Weights come from the
/// scores without the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// No correction.
    None,
    /// The experts with the largest score + bias are chosen (Wang et al., arXiv:2408.15664).
    Bias,
}

impl fmt::Display for RouterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scoring {
            Scoring::Softmax => "router(scoring=softmax",
            Scoring::Sigmoid => "router(scoring=sigmoid",
            Scoring::SoftmaxOfChosen => "router(scoring=softmax_of_chosen",
        })?;
        if self.correction == Correction::Bias {
            f.write_str(", correction=bias")?;
        }
        match self.grouping {
            Grouping::None => {}
            Grouping::Max => f.write_str(", grouping=max")?,
            Grouping::TopTwo => f.write_str(", grouping=top_two")?,
        }
        if self.renormalise == Renormalise::Sum {
            f.write_str(", renormalise=sum")?;
        }
        if self.weights == RouterWeights::Wide {
            f.write_str(", weights=wide")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_print_the_parameters_that_are_not_usual() {
        assert_eq!(RouterKey::QWEN2_MOE.to_string(), "router(scoring=softmax)");
        assert_eq!(
            RouterKey::DEEPSEEK_V3.to_string(),
            "router(scoring=sigmoid, correction=bias, grouping=top_two, renormalise=sum, \
             weights=wide)"
        );
    }
}
