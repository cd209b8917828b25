//! Layers and functions with the attribute, as a user writes them. A body is the reference of its site.

use super::setting::Setting;
use burn::module::{Module, Param};
use burn::tensor::activation::{log_softmax, silu, softmax};
use burn::tensor::{Bool, DType, FloatDType, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

/// Returns a projection without bias.
pub fn linear(of: &Setting, [inputs, outputs]: [usize; 2]) -> Linear {
    Linear {
        weight: of.parameter([inputs, outputs]),
        bias: None,
    }
}

/// The ε of all norms.
pub const EPS: f64 = 1e-6;

/// RMSNorm, as Llama and Qwen3 have it.
#[fused_kernel("npu_fused_rmsnorm", eps = EPS)]
#[derive(Module, Debug)]
pub struct Norm {
    /// `[width]`.
    pub weight: Param<Tensor<1>>,
}

impl Norm {
    pub fn new(of: &Setting, width: usize) -> Self {
        Self {
            weight: of.parameter([width]),
        }
    }
}

#[fused_kernel("npu_fused_add_rmsnorm", method = forward_sum, weight = weight, eps = EPS)]
impl Norm {
    /// Adds `x` to the residual stream and normalises the sum. Returns the normalised sum and the sum.
    pub fn forward_sum<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>) {
        let sum = x + residual;
        (self.forward(sum.clone()), sum)
    }
}

/// The unit between the projections of a gated MLP.
#[fused_kernel("npu_fused_swiglu")]
pub fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    silu(gate) * up
}

/// A gated MLP.
#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
pub struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl Mlp {
    pub fn new(of: &Setting, hidden: usize, inner: usize) -> Self {
        Self {
            gate_proj: linear(of, [hidden, inner]),
            up_proj: linear(of, [hidden, inner]),
            down_proj: linear(of, [inner, hidden]),
        }
    }
}

/// The experts of a layer.
#[fused_kernel("npu_fused_moe")]
#[derive(Module, Debug)]
pub struct Experts {
    /// `[experts, 2 · width, hidden]`.
    gate_up_proj: Param<Tensor<3>>,
    /// `[experts, hidden, width]`.
    down_proj: Param<Tensor<3>>,
}

impl Experts {
    pub fn new(of: &Setting, experts: usize, hidden: usize, width: usize) -> Self {
        Self {
            gate_up_proj: of.parameter([experts, 2 * width, hidden]),
            down_proj: of.parameter([experts, hidden, width]),
        }
    }
}

/// A mixture of experts whose weights for a token sum to one.
#[fused_kernel("npu_fused_moe", part = block, renormalise = sum)]
#[derive(Module, Debug)]
pub struct SparseMlp {
    /// Of Burn's type: the kernel of a block reads its weight.
    gate: burn::nn::Linear,
    experts: Experts,
    top_k: usize,
}

impl SparseMlp {
    pub fn new(of: &Setting, experts: Experts, hidden: usize, top_k: usize) -> Self {
        let [count, _, _] = experts.down_proj.dims();
        Self {
            gate: burn::nn::Linear {
                weight: of.parameter([hidden, count]),
                bias: None,
            },
            experts,
            top_k,
        }
    }
}

/// Rotates queries and keys, `[b, heads, s, d]`, by the tables `[b, s, d]`.
#[fused_kernel("npu_fused_rope")]
pub fn rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let (cos, sin) = (cos.unsqueeze_dim::<4>(1), sin.unsqueeze_dim::<4>(1));
    let turn = |x: Tensor<4>| {
        let halves = x.clone().chunk(2, 3);
        let turned = Tensor::cat(vec![-halves[1].clone(), halves[0].clone()], 3);
        x * cos.clone() + turned * sin.clone()
    };
    (turn(q), turn(k))
}

/// Normalises and rotates each head of queries and keys, `[b, s, heads, d]`.
#[fused_kernel("npu_fused_qk_norm_rope", eps = EPS, layout = bsnd)]
pub fn norm_and_rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    q_weight: &Param<Tensor<1>>,
    k_weight: &Param<Tensor<1>>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let norm = |x: Tensor<4>, weight: &Param<Tensor<1>>| {
        let weight = weight.clone();
        Norm { weight }.forward(x).swap_dims(1, 2)
    };
    let (q, k) = rotate(norm(q, q_weight), norm(k, k_weight), cos, sin);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}

/// Returns the causal attention of queries `[b, s, heads, d]` to keys and values, which may have fewer heads.
#[fused_kernel("npu_fused_attention", layout = bsnd)]
pub fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let [batch, seq, heads, width] = q.dims();
    let [_, _, kv_heads, _] = k.dims();
    let [q, k, v] = [q, k, v].map(|x| x.swap_dims(1, 2));
    // The query heads of a group are adjacent, so they are rows of one taller matrix.
    let group = heads / kv_heads;
    let q = q.reshape([batch, kv_heads, group * seq, width]) * (width as f64).powf(-0.5);
    let scores = q.matmul(k.swap_dims(2, 3));
    let later = Tensor::<2, Bool>::tril_mask([seq, seq], 0, &scores.device());
    let later = later.repeat(&[group, 1]).unsqueeze();
    let dtype = scores.dtype();
    let weights = softmax(wide(scores).mask_fill(later, f32::NEG_INFINITY), 3).cast(dtype);
    let mixed = weights.matmul(v).reshape([batch, heads, seq, width]);
    mixed.swap_dims(1, 2)
}

/// Returns the mean cross-entropy of logits `[tokens, classes]`.
#[fused_kernel("npu_fused_cross_entropy")]
pub fn cross_entropy(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let classes = targets.unsqueeze_dim(1);
    log_softmax(wide(logits), 1).gather(1, classes).mean().neg()
}

/// Returns the mean cross-entropy of the logits of hidden states `[tokens, width]`. The weight is `[classes, width]`.
#[fused_kernel("npu_fused_linear_cross_entropy")]
pub fn linear_cross_entropy(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
) -> Tensor<1> {
    let logits = hidden.matmul(weight.transpose());
    let classes = targets.unsqueeze_dim(1);
    log_softmax(wide(logits), 1).gather(1, classes).mean().neg()
}

/// Converts half types to f32.
fn wide<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match x.dtype() {
        DType::F16 | DType::BF16 => x.cast(FloatDType::F32),
        _ => x,
    }
}
