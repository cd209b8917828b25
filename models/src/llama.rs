//! Llama's own layers.

use burn::module::{Module, Param};
use burn::tensor::{DType, FloatDType, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

use crate::attention;
use crate::blocks::{Mlp, RmsNorm};
use crate::family::{Activation, Defaults, Family, Layers, Positions, Projections, Window};
use crate::layer::{DecoderLayer, LlamaLayer};
use crate::rope::rotate_half;

pub(crate) static FAMILY: Family = Family {
    class_name: "LlamaForCausalLM",
    model_type: "llama",
    nested: None,
    layers: Layers {
        norm: |weight, variance_epsilon| {
            RmsNorm::Llama(LlamaRmsNorm {
                weight,
                variance_epsilon,
            })
        },
        norm_weight: 1.0,
        mlp: |new| Mlp::Llama(LlamaMlp::new(new.separate())),
        layer: |new| DecoderLayer::Llama(LlamaLayer::new(new)),
        rotate: apply_rotary_pos_emb,
        rotate_axes: None,
        rotated_norm: None,
        attend: attention::attend,
    },
    head_norms: None,
    chosen_norms: false,
    sinks: false,
    projections: Projections {
        packed: false,
        output_bias: true,
    },
    latent: false,
    altup: false,
    mixed_layers: false,
    quantised: None,
    experts: None,
    activation: Activation {
        field: "hidden_act",
        name: "silu",
    },
    scaled_embeddings: false,
    scores: None,
    positions: Positions {
        rotated_part: None,
        local_theta: None,
        scalings: &["default", "linear", "llama3", "yarn"],
        sections: None,
        mscale: false,
        wide_tables: false,
    },
    defaults: Defaults {
        num_key_value_heads: None,
        head_dim: None,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        tie_word_embeddings: false,
        attention_bias: false,
        qkv_bias: false,
        use_qk_norm: false,
        norm_topk_prob: false,
    },
    chosen_biases: &["mlp_bias", "attention_bias"],
    window: Window::NONE,
    honours: &[],
    refuses: &[],
    dropout: &[],
};

/// Root-mean-square normalisation, `y = weight · round(x / sqrt(mean(x²) + eps))`. The mean is over the last axis and
/// in at least `f32`; `round` rounds to the dtype of `x`.
#[derive(Module, Debug)]
pub struct LlamaRmsNorm {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) variance_epsilon: f64,
}

#[fused_kernel("npu_fused_rmsnorm", method = forward, weight = weight, eps = variance_epsilon, offset = 0, rounding = llama)]
#[fused_kernel("npu_fused_add_rmsnorm", method = forward_sum, weight = weight, eps = variance_epsilon, offset = 0, rounding = llama)]
impl LlamaRmsNorm {
    /// Normalises the last axis of `x`, which has shape `[.., hidden]` with any number of leading axes.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let dtype = x.dtype();
        let wide = match dtype {
            DType::F16 | DType::BF16 => x.cast(FloatDType::F32),
            _ => x,
        };
        let mean_square = wide.clone().square().mean_dim(D - 1);
        let normalised = wide * (mean_square + self.variance_epsilon).sqrt().recip();
        normalised.cast(dtype) * self.weight.val().unsqueeze()
    }

    /// Adds `x` to the residual stream of the same shape and normalises the sum. Returns the normalised sum and the
    /// sum.
    pub fn forward_sum<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>) {
        let sum = x + residual;
        (self.forward(sum.clone()), sum)
    }
}

/// Gated MLP: `down(silu(gate(x)) · up(x))`, from `[.., hidden]` to `[.., hidden]`. The projections have biases if the
/// configuration sets `mlp_bias`.
#[fused_kernel("npu_fused_swiglu", activation = silu)]
#[derive(Module, Debug)]
pub struct LlamaMlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
}

impl LlamaMlp {
    pub(crate) fn new([gate_proj, up_proj, down_proj]: [Linear; 3]) -> Self {
        Self {
            gate_proj,
            up_proj,
            down_proj,
        }
    }
}

/// Rotates queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by position. Element `i` of the first half of each head
/// pairs with element `i` of the second half. `cos` and `sin` are `[b or 1, s, d]`.
#[fused_kernel("npu_fused_rope", style = half)]
pub fn apply_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let cos = cos.unsqueeze_dim::<4>(1);
    let sin = sin.unsqueeze_dim::<4>(1);
    let rotate = |x: Tensor<4>| x.clone() * cos.clone() + rotate_half(x) * sin.clone();
    (rotate(q), rotate(k))
}
