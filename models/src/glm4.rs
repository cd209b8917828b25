//! GLM-4's own layers. Its norm is Llama's, and its MLP is Phi-3's.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::blocks::RmsNorm;
use crate::family::{Defaults, Family, Layers, Positions, Projections};
use crate::layer::{DecoderLayer, FeedForward, NewLayer, Parts, SelfAttention};
use crate::llama;
use crate::phi3;

pub(crate) static FAMILY: Family = Family {
    class_name: "Glm4ForCausalLM",
    model_type: "glm4",
    layers: Layers {
        mlp: phi3::FAMILY.layers.mlp,
        layer: |new| DecoderLayer::Glm4(Glm4Layer::new(new)),
        rotate: apply_rotary_pos_emb,
        ..llama::FAMILY.layers
    },
    projections: Projections {
        packed: false,
        output_bias: false,
    },
    positions: Positions {
        rotated_part: Some(0.5),
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(2),
        head_dim: Some(128),
        rms_norm_eps: 0.000_000_156_25,
        attention_bias: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    honours: &["partial_rotary_factor"],
    ..llama::FAMILY
};

/// A layer with norms before and after attention and MLP.
#[derive(Module, Debug)]
pub struct Glm4Layer {
    input_layernorm: RmsNorm,
    self_attn: SelfAttention,
    post_self_attn_layernorm: RmsNorm,
    post_attention_layernorm: RmsNorm,
    mlp: FeedForward,
    post_mlp_layernorm: RmsNorm,
}

impl Glm4Layer {
    pub(crate) fn new(new: &NewLayer<'_>) -> Self {
        Self {
            input_layernorm: new.norm(),
            self_attn: new.attention(),
            post_self_attn_layernorm: new.norm(),
            post_attention_layernorm: new.norm(),
            mlp: new.feed_forward(),
            post_mlp_layernorm: new.norm(),
        }
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            before_attention: Some(&self.input_layernorm),
            attention: &self.self_attn,
            after_attention: Some(&self.post_self_attn_layernorm),
            before_mlp: Some(&self.post_attention_layernorm),
            mlp: &self.mlp,
            after_mlp: Some(&self.post_mlp_layernorm),
        }
    }
}

/// Rotates the first elements of the heads of queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by position, as many as
/// the tables are wide. Element `2i` of a head pairs with element `2i + 1`. `cos` and `sin` are `[b or 1, s, w]`, with
/// the angle of each pair in both halves.
#[fused_kernel("npu_fused_rope", style = interleaved, width = partial)]
pub fn apply_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let (cos, sin) = (of_neighbours(cos), of_neighbours(sin));
    let rotate = |x: Tensor<4>| {
        phi3::rotate_part(x, &cos, &sin, |part| {
            let shape @ [batch, heads, seq, width] = part.dims();
            let pairs: Tensor<5> = part.reshape([batch, heads, seq, width / 2, 2]);
            let [first, second] = [0, 1].map(|at| pairs.clone().narrow(4, at, 1));
            Tensor::cat(vec![second.neg(), first], 4).reshape(shape)
        })
    };
    (rotate(q), rotate(k))
}

/// Turns a table with the angles `[a, b, .., a, b, ..]` into one with `[a, a, b, b, ..]`, and adds an axis for the heads.
fn of_neighbours(table: Tensor<3>) -> Tensor<4> {
    let [batch, seq, width] = table.dims();
    let pairs: Tensor<4> = table.narrow(2, 0, width / 2).unsqueeze_dim(3);
    let both: Tensor<3> = pairs.repeat_dim(3, 2).reshape([batch, seq, width]);
    both.unsqueeze_dim(1)
}
