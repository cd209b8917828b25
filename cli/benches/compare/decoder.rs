//! A decoder layer of Qwen3-0.6B and one with a mixture of experts, composed as a user does.
//!
//! Heads are 128 wide, as the configuration of Qwen3-0.6B has them.

use super::groups::Run;
use super::layers::{Experts, Mlp, Norm, SparseMlp, attend, linear, norm_and_rotate};
use super::operations::{EXPERT_INNER, EXPERTS, HEADS, HIDDEN, INNER, KV_HEADS, TOP_K};
use super::setting::{Setting, backward};
use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::nn::Linear;

/// The width of a head.
const HEAD: usize = 128;

/// Causal self-attention with grouped queries and norms of the heads.
#[derive(Module, Debug)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    q_norm: Norm,
    k_norm: Norm,
}

impl Attention {
    fn new(of: &Setting) -> Self {
        Self {
            q_proj: linear(of, [HIDDEN, HEADS * HEAD]),
            k_proj: linear(of, [HIDDEN, KV_HEADS * HEAD]),
            v_proj: linear(of, [HIDDEN, KV_HEADS * HEAD]),
            o_proj: linear(of, [HEADS * HEAD, HIDDEN]),
            q_norm: Norm::new(of, HEAD),
            k_norm: Norm::new(of, HEAD),
        }
    }

    fn forward(&self, x: Tensor<3>, cos: Tensor<3>, sin: Tensor<3>) -> Tensor<3> {
        let [batch, seq, _] = x.dims();
        let split = |x: Tensor<3>, heads| x.reshape([batch, seq, heads, HEAD]);
        let q = split(self.q_proj.forward(x.clone()), HEADS);
        let k = split(self.k_proj.forward(x.clone()), KV_HEADS);
        let v = split(self.v_proj.forward(x), KV_HEADS);
        let (q_weight, k_weight) = (&self.q_norm.weight, &self.k_norm.weight);
        let (q, k) = norm_and_rotate(q, k, q_weight, k_weight, cos, sin);
        let mixed = attend(q, k, v).reshape([batch, seq, HEADS * HEAD]);
        self.o_proj.forward(mixed)
    }
}

/// The part of a layer before its MLP.
#[derive(Module, Debug)]
struct Layer {
    input_layernorm: Norm,
    self_attn: Attention,
    post_attention_layernorm: Norm,
}

impl Layer {
    fn new(of: &Setting) -> Self {
        Self {
            input_layernorm: Norm::new(of, HIDDEN),
            self_attn: Attention::new(of),
            post_attention_layernorm: Norm::new(of, HIDDEN),
        }
    }

    /// Returns the layer's result for `x`, with `mlp` as its last part.
    fn forward(
        &self,
        x: Tensor<3>,
        [cos, sin]: [Tensor<3>; 2],
        mlp: impl Fn(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let normalised = self.input_layernorm.forward(x.clone());
        let attended = self.self_attn.forward(normalised, cos, sin);
        let (normalised, sum) = self.post_attention_layernorm.forward_sum(attended, x);
        sum + mlp(normalised)
    }
}

/// Prepares the layer with a dense MLP.
pub fn dense(of: &Setting) -> Run {
    let mlp = Mlp::new(of, HIDDEN, INNER);
    prepare(of, move |x| mlp.forward(x))
}

/// Prepares the layer with a mixture of experts.
pub fn sparse(of: &Setting) -> Run {
    let experts = Experts::new(of, EXPERTS, HIDDEN, EXPERT_INNER);
    let mlp = SparseMlp::new(of, experts, HIDDEN, TOP_K);
    prepare(of, move |x| mlp.forward(x).0)
}

fn prepare(of: &Setting, mlp: impl Fn(Tensor<3>) -> Tensor<3> + 'static) -> Run {
    let shape = [1, of.size, HIDDEN];
    let (layer, x, dy) = (Layer::new(of), of.input(shape), of.slope(shape));
    let tables = [(); 2].map(|()| of.constant([1, of.size, HEAD]));
    Box::new(move || backward([dy.seed(layer.forward(x.clone(), tables.clone(), &mlp))]))
}

/// Prepares the products of the dense layer by themselves, so that the rest of the layer's time is known.
pub fn products(of: &Setting) -> Run {
    let shapes = [
        [HIDDEN, HEADS * HEAD],
        [HIDDEN, KV_HEADS * HEAD],
        [HIDDEN, KV_HEADS * HEAD],
        [HEADS * HEAD, HIDDEN],
        [HIDDEN, INNER],
        [HIDDEN, INNER],
        [INNER, HIDDEN],
    ];
    let products = shapes.map(|shape @ [inputs, outputs]| {
        let x: Tensor<2> = of.input([of.size, inputs]);
        (linear(of, shape), x, of.slope([of.size, outputs]))
    });
    Box::new(move || {
        let results = products.each_ref();
        backward(results.map(|(layer, x, dy)| dy.seed(layer.forward(x.clone()))));
    })
}
