use crate::common::{assert_paths, assert_same, assert_site, device, linear};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{Distribution, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{self, Policy};

#[fused_kernel("npu_fused_moe")]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
}

#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

// Qwen3-MoE.
#[fused_kernel("npu_fused_moe", part = block, renormalise = sum)]
#[derive(Module, Debug)]
struct Qwen3 {
    gate: Linear,
    experts: Experts,
    top_k: usize,
    num_experts: usize,
}

// Qwen2-MoE.
#[fused_kernel("npu_fused_moe", part = block, shared = gated)]
#[derive(Module, Debug)]
struct Qwen2 {
    gate: Linear,
    experts: Experts,
    num_experts_per_tok: usize,
    shared_expert: Mlp,
    shared_expert_gate: Linear,
}

// DeepSeek-V3.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    scoring = sigmoid,
    correction = bias,
    grouping = top_two,
    renormalise = sum,
    weights = wide,
    shared = plain
)]
#[derive(Module, Debug)]
struct DeepSeek {
    gate: Linear,
    e_score_correction_bias: Param<Tensor<1>>,
    experts: Experts,
    shared_experts: Mlp,
    top_k: usize,
    n_group: usize,
    topk_group: usize,
    routed_scaling_factor: f64,
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
}

fn experts() -> Experts {
    Experts {
        gate_up_proj: Param::from_tensor(random([8, 10, 6])),
        down_proj: Param::from_tensor(random([8, 6, 5])),
    }
}

fn mlp() -> Mlp {
    Mlp {
        gate_proj: linear(6, 4),
        up_proj: linear(6, 4),
        down_proj: linear(4, 6),
    }
}

/// The experts' weights for all experts, zeros for those that are not chosen: by hand.
fn dense(block: &Qwen3, x: Tensor<2>) -> Tensor<2> {
    let scores = softmax(block.gate.forward(x), 1);
    let (best, at) = scores.clone().topk_with_indices(block.top_k, 1);
    let sum = best.clone().sum_dim(1);
    scores
        .zeros_like()
        .scatter(1, at, best / sum, burn::tensor::IndexingUpdateOp::Add)
}

pub fn main() {
    let x = random([2, 3, 6]);
    let block = Qwen3 {
        gate: linear(6, 8),
        experts: experts(),
        top_k: 2,
        num_experts: 8,
    };
    let (y, logits) = block.forward(x.clone());
    let rows = || x.clone().reshape([6, 6]);
    assert_same(logits, block.gate.forward(rows()));
    let (expected, _) = block.forward_reference(x.clone());
    assert_same(y.clone(), expected);
    let all = Tensor::<2, Int>::from_ints([[0, 1, 2, 3, 4, 5, 6, 7]; 6], &device());
    let by_hand = block
        .experts
        .forward_reference(rows(), all, dense(&block, rows()));
    assert_same(y.clone().reshape([6, 6]), by_hand);
    {
        let _off = policy::scope(Policy::reference());
        assert_same(y, block.forward(x.clone()).0);
    }
    let name = "struct_sparse_block::Qwen3::forward";
    assert_site(name, "moe(part=block, scoring=softmax, renormalise=sum)");
    assert_paths(name, &["fused cpu-router", "reference: switched off"]);

    let block = Qwen2 {
        gate: linear(6, 8),
        experts: experts(),
        num_experts_per_tok: 3,
        shared_expert: mlp(),
        shared_expert_gate: linear(6, 1),
    };
    let (y, _) = block.forward(rows());
    assert_same(y.clone(), block.forward_reference(rows()).0);
    let routed = Qwen3 {
        gate: block.gate.clone(),
        experts: block.experts.clone(),
        top_k: 3,
        num_experts: 8,
    };
    // Without renormalisation the weights are the scores themselves.
    let scores = softmax(block.gate.forward(rows()), 1);
    let sums = scores.topk(3, 1).sum_dim(1);
    let shared = block.shared_expert.forward(rows());
    let expected = routed.forward(rows()).0 * sums
        + sigmoid(block.shared_expert_gate.forward(rows())) * shared;
    assert_same(y, expected);

    let mut block = DeepSeek {
        gate: linear(6, 8),
        e_score_correction_bias: Param::from_tensor(random([8])),
        experts: experts(),
        shared_experts: mlp(),
        top_k: 2,
        n_group: 4,
        topk_group: 2,
        routed_scaling_factor: 2.5,
    };
    let (y, _) = block.forward(rows());
    assert_same(y.clone(), block.forward_reference(rows()).0);
    let shared = block.shared_experts.forward(rows());
    block.routed_scaling_factor = 1.0;
    let unscaled = block.forward(rows()).0 - shared.clone();
    assert_same(y, unscaled * 2.5 + shared);
    assert_site(
        "struct_sparse_block::DeepSeek::forward",
        "moe(part=block, scoring=sigmoid, correction=bias, grouping=top_two, renormalise=sum, \
         weights=wide, shared=plain)",
    );
}
