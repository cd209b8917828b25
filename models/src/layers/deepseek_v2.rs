//! DeepSeek-V2's own layers. Its norm and dense MLP are Llama's, and its attention is latent.

use burn::module::{Module, Param};
use burn::tensor::{FloatDType, Tensor};
use burn_kernels::fused_kernel;

use crate::layers::glm4_moe::TopkRouter;
use crate::layers::llama::LlamaMlp;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu, layer = "DeepseekV2Experts")]
#[derive(Module, Debug)]
pub struct DeepseekV2Experts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts with a shared expert, which every token goes to. The weights of the routed experts are the
/// router's probabilities times a factor, in `f32`.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    scoring = softmax,
    weights = wide,
    shared = plain,
    layer = "DeepseekV2SparseMoeBlock"
)]
#[derive(Module, Debug)]
pub struct DeepseekV2SparseMoeBlock {
    pub(crate) gate: TopkRouter,
    pub(crate) experts: DeepseekV2Experts,
    pub(crate) shared_experts: LlamaMlp,
    pub(crate) top_k: usize,
    pub(crate) routed_scaling_factor: f64,
}

/// The same block with a choice that is limited to the groups of the best experts.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    scoring = softmax,
    grouping = max,
    weights = wide,
    shared = plain,
    layer = "DeepseekV2GroupsSparseMoeBlock"
)]
#[derive(Module, Debug)]
pub struct DeepseekV2GroupsSparseMoeBlock {
    pub(crate) gate: TopkRouter,
    pub(crate) experts: DeepseekV2Experts,
    pub(crate) shared_experts: LlamaMlp,
    pub(crate) top_k: usize,
    pub(crate) n_group: usize,
    pub(crate) topk_group: usize,
    pub(crate) routed_scaling_factor: f64,
}

/// Rotates with tables that have each angle twice, like the tables of other families.
pub(crate) fn rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let once = |table: Tensor<3>| {
        let [_, _, width] = table.dims();
        table.narrow(2, 0, width / 2)
    };
    apply_rotary_emb(q, k, once(cos), once(sin))
}

/// Rotates queries `[b, hq, s, w]` and keys `[b, hk, s, w]` by position. Element `2i` of each head pairs with element
/// `2i + 1`. `cos` and `sin` are `[b or 1, s, w / 2]`, in the dtype that the rotation is computed in: at least `f32`.
#[fused_kernel("npu_fused_rope", style = interleaved, table = pairs, layer = "apply_rotary_emb")]
pub fn apply_rotary_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let wide = FloatDType::from(cos.dtype());
    let each_pair = |table: Tensor<3>| -> Tensor<5> {
        let table: Tensor<4> = table.unsqueeze_dim(1);
        table.unsqueeze_dim(4)
    };
    let (cos, sin) = (each_pair(cos), each_pair(sin));
    let rotate = |x: Tensor<4>| {
        let (dtype, shape @ [batch, heads, seq, width]) = (x.dtype(), x.dims());
        let pairs: Tensor<5> = x.cast(wide).reshape([batch, heads, seq, width / 2, 2]);
        let [a, b] = [0, 1].map(|at| pairs.clone().narrow(4, at, 1));
        let first = a.clone() * cos.clone() - b.clone() * sin.clone();
        let second = b * cos.clone() + a * sin.clone();
        let rotated = Tensor::cat(vec![first, second], 4).reshape(shape);
        rotated.cast(dtype)
    };
    (rotate(q), rotate(k))
}
