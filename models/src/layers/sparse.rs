//! The mixture of experts of each architecture, behind one type.

use burn::module::{Initializer, Module, Param};
use burn::nn;
use burn::tensor::{Device, Tensor};
use burn_kernels::nn::Linear;

use crate::config::{ModelConfig, MoeConfig};
use crate::layers::blocks::{NewMlp, new_weight};
use crate::layers::deepseek_v2::{DeepseekV2GroupsSparseMoeBlock, DeepseekV2SparseMoeBlock};
use crate::layers::glm4_moe::{Glm4MoeSparseMoeBlock, TopkRouter};
use crate::layers::gpt_oss::GptOssSparseMoeBlock;
use crate::layers::llama4::Llama4MoeBlock;
use crate::layers::mixtral::MixtralSparseMoeBlock;
use crate::layers::qwen2_moe::{Qwen2MoeRenormalisedSparseMoeBlock, Qwen2MoeSparseMoeBlock};
use crate::layers::qwen3_moe::{Qwen3MoeRawSparseMoeBlock, Qwen3MoeSparseMoeBlock};

/// The sparse block of an architecture, chosen by the family and `norm_topk_prob`.
#[derive(Module, Debug)]
pub enum SparseMoeBlock {
    /// Qwen2-MoE's block, without `norm_topk_prob`.
    Qwen2Moe(Qwen2MoeSparseMoeBlock),
    /// Qwen2-MoE's block with `norm_topk_prob`.
    Qwen2MoeRenormalised(Qwen2MoeRenormalisedSparseMoeBlock),
    /// Qwen3-MoE's block with `norm_topk_prob`.
    Qwen3Moe(Qwen3MoeSparseMoeBlock),
    /// Qwen3-MoE's block without `norm_topk_prob`.
    Qwen3MoeRaw(Qwen3MoeRawSparseMoeBlock),
    /// Mixtral's block.
    Mixtral(MixtralSparseMoeBlock),
    /// The block of GLM-4-MoE and DeepSeek-V3.
    Glm4Moe(Glm4MoeSparseMoeBlock),
    /// DeepSeek-V2's block, without groups.
    DeepseekV2(DeepseekV2SparseMoeBlock),
    /// DeepSeek-V2's block with groups.
    DeepseekV2Groups(DeepseekV2GroupsSparseMoeBlock),
    /// Llama 4's block.
    Llama4(Llama4MoeBlock),
    /// The block of gpt-oss.
    GptOss(GptOssSparseMoeBlock),
}

impl SparseMoeBlock {
    /// Returns the block's output for `x`, both `[b, s, hidden]`, and the router's logits `[b · s, num_experts]`.
    pub fn forward(&self, x: Tensor<3>) -> (Tensor<3>, Tensor<2>) {
        match self {
            Self::Qwen2Moe(block) => block.forward(x),
            Self::Qwen2MoeRenormalised(block) => block.forward(x),
            Self::Qwen3Moe(block) => block.forward(x),
            Self::Qwen3MoeRaw(block) => block.forward(x),
            Self::Mixtral(block) => block.forward(x),
            Self::Glm4Moe(block) => block.forward(x),
            Self::DeepseekV2(block) => block.forward(x),
            Self::DeepseekV2Groups(block) => block.forward(x),
            Self::Llama4(block) => block.forward(x),
            Self::GptOss(block) => block.forward(x),
        }
    }
}

/// The configuration and device from which a block is built.
pub(crate) struct NewBlock<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) moe: &'a MoeConfig,
    pub(crate) device: &'a Device,
}

impl NewBlock<'_> {
    pub(crate) fn gate(&self) -> nn::Linear {
        self.gate_of([self.config.hidden_size, self.moe.num_experts])
    }

    pub(crate) fn biased_gate(&self) -> nn::Linear {
        nn::Linear {
            bias: Some(Initializer::Zeros.init([self.moe.num_experts], self.device)),
            ..self.gate()
        }
    }

    pub(crate) fn topk_router(&self) -> TopkRouter {
        TopkRouter {
            weight: self.of_experts([self.moe.num_experts, self.config.hidden_size]),
        }
    }

    pub(crate) fn gate_up_proj(&self) -> Param<Tensor<3>> {
        self.stack([2 * self.moe.moe_intermediate_size, self.config.hidden_size])
    }

    pub(crate) fn down_proj(&self) -> Param<Tensor<3>> {
        self.stack([self.config.hidden_size, self.moe.moe_intermediate_size])
    }

    /// Creates the projections of the shared expert.
    ///
    /// # Panics
    ///
    /// Panics if the configuration has no width for it. Configurations of families with a shared expert always do.
    pub(crate) fn shared_expert(&self) -> [Linear; 3] {
        let width = self.moe.shared_expert_intermediate_size;
        let width = width.expect("the width is read with the other sizes");
        let mlp = NewMlp {
            config: self.config,
            width,
            device: self.device,
        };
        mlp.separate()
    }

    pub(crate) fn shared_expert_gate(&self) -> nn::Linear {
        self.gate_of([self.config.hidden_size, 1])
    }

    /// Creates a gate of Burn's type, whose weight the kernel of a block reads.
    fn gate_of(&self, shape: [usize; 2]) -> nn::Linear {
        nn::Linear {
            weight: new_weight(self.config, shape, self.device),
            bias: None,
        }
    }

    /// Creates a parameter of each expert, or of one of the axes of a matrix of each.
    pub(crate) fn of_experts<const D: usize>(&self, shape: [usize; D]) -> Param<Tensor<D>> {
        new_weight(self.config, shape, self.device)
    }

    fn stack(&self, [rows, columns]: [usize; 2]) -> Param<Tensor<3>> {
        let shape = [self.moe.num_experts, rows, columns];
        new_weight(self.config, shape, self.device)
    }
}
