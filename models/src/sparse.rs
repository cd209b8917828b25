//! The mixture of experts of each architecture, behind one type.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::blocks::{new_linear, new_mlp, new_weight};
use crate::config::{Architecture, ModelConfig, MoeConfig};
use crate::mixtral::{MixtralExperts, MixtralSparseMoeBlock};
use crate::qwen2_moe::{
    Qwen2MoeExperts, Qwen2MoeRenormalisedSparseMoeBlock, Qwen2MoeSparseMoeBlock,
};
use crate::qwen3_moe::{Qwen3MoeExperts, Qwen3MoeRawSparseMoeBlock, Qwen3MoeSparseMoeBlock};

/// The mixture of experts of a model's architecture and `norm_topk_prob`.
#[derive(Module, Debug)]
pub enum SparseMoeBlock {
    /// Qwen2-MoE's.
    Qwen2Moe(Qwen2MoeSparseMoeBlock),
    /// Qwen2-MoE's with `norm_topk_prob`.
    Qwen2MoeRenormalised(Qwen2MoeRenormalisedSparseMoeBlock),
    /// Qwen3-MoE's.
    Qwen3Moe(Qwen3MoeSparseMoeBlock),
    /// Qwen3-MoE's without `norm_topk_prob`.
    Qwen3MoeRaw(Qwen3MoeRawSparseMoeBlock),
    /// Mixtral's.
    Mixtral(MixtralSparseMoeBlock),
}

impl SparseMoeBlock {
    /// # Panics
    ///
    /// If the architecture has no experts, which its configuration would not say.
    pub(crate) fn new(config: &ModelConfig, moe: &MoeConfig, device: &Device) -> Self {
        let (hidden, width, count) = (
            config.hidden_size,
            moe.moe_intermediate_size,
            moe.num_experts,
        );
        let gate = new_linear(config, [hidden, count], false, device);
        let gate_up_proj = new_weight(config, [count, 2 * width, hidden], device);
        let down_proj = new_weight(config, [count, hidden, width], device);
        let top_k = moe.num_experts_per_tok;
        let shared = moe.shared_expert_intermediate_size;
        match (config.architecture, shared) {
            (Architecture::Qwen2Moe, Some(shared)) => {
                let experts = Qwen2MoeExperts {
                    gate_up_proj,
                    down_proj,
                };
                let shared_expert = new_mlp(config, shared, device);
                let shared_expert_gate = new_linear(config, [hidden, 1], false, device);
                if moe.norm_topk_prob {
                    Self::Qwen2MoeRenormalised(Qwen2MoeRenormalisedSparseMoeBlock {
                        gate,
                        experts,
                        shared_expert,
                        shared_expert_gate,
                        top_k,
                    })
                } else {
                    Self::Qwen2Moe(Qwen2MoeSparseMoeBlock {
                        gate,
                        experts,
                        shared_expert,
                        shared_expert_gate,
                        top_k,
                    })
                }
            }
            (Architecture::Qwen3Moe, None) => {
                let experts = Qwen3MoeExperts {
                    gate_up_proj,
                    down_proj,
                };
                if moe.norm_topk_prob {
                    Self::Qwen3Moe(Qwen3MoeSparseMoeBlock {
                        gate,
                        experts,
                        top_k,
                    })
                } else {
                    Self::Qwen3MoeRaw(Qwen3MoeRawSparseMoeBlock {
                        gate,
                        experts,
                        top_k,
                    })
                }
            }
            (Architecture::Mixtral, None) => Self::Mixtral(MixtralSparseMoeBlock {
                gate,
                experts: MixtralExperts {
                    gate_up_proj,
                    down_proj,
                },
                top_k,
            }),
            (architecture, shared) => {
                unreachable!("no configuration of {architecture} has {shared:?} as shared expert")
            }
        }
    }

    /// From `[b, s, hidden]` to the same shape, and the router's logits `[b · s, num_experts]`.
    pub fn forward(&self, x: Tensor<3>) -> (Tensor<3>, Tensor<2>) {
        match self {
            Self::Qwen2Moe(block) => block.forward(x),
            Self::Qwen2MoeRenormalised(block) => block.forward(x),
            Self::Qwen3Moe(block) => block.forward(x),
            Self::Qwen3MoeRaw(block) => block.forward(x),
            Self::Mixtral(block) => block.forward(x),
        }
    }
}
