use crate::common::{assert_paths, assert_same, assert_site, device, linear};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{Distribution, Int, Tensor};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_moe")]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
}

#[derive(Module, Debug)]
struct Block {
    gate: Linear,
    experts: Experts,
    shared_expert: Linear,
    shared_expert_gate: Linear,
    top_k: usize,
    num_experts: usize,
    norm_topk_prob: bool,
}

// The rank is fixed, and the condition says for which instances the kernel is right.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    shared = gated,
    renormalise = sum,
    when = self.norm_topk_prob,
    layer = "SparseMoeBlock"
)]
impl Block {
    pub fn forward(&self, hidden: Tensor<3>) -> (Tensor<3>, Tensor<2>) {
        let [batch, sequence, width] = hidden.dims();
        let x = hidden.reshape([batch * sequence, width]);
        let logits = self.gate.forward(x.clone());
        assert_eq!(logits.dims()[1], self.num_experts);
        let (scores, indices) = softmax(logits.clone(), 1).topk_with_indices(self.top_k, 1);
        let weights = match self.norm_topk_prob {
            true => scores.clone() / scores.sum_dim(1),
            false => scores,
        };
        let routed = self.experts.forward(x.clone(), indices, weights);
        let gate = sigmoid(self.shared_expert_gate.forward(x.clone()));
        let y = routed + gate * self.shared_expert.forward(x);
        (y.reshape([batch, sequence, width]), logits)
    }
}

/// Experts of any kind, and DeepSeek's scale.
struct Scaled {
    router: Linear,
    experts: Twice,
    top_k: usize,
    routed_scaling_factor: f32,
}

/// An expert `e` that multiplies with `e + 1`.
struct Twice;

impl Twice {
    fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        x * ((indices.float() + 1.0) * routing).sum_dim(1)
    }
}

impl Scaled {
    #[fused_kernel("npu_fused_moe", part = block, scoring = sigmoid)]
    fn route(&self, x: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let logits = self.router.forward(x.clone());
        let (best, indices) = sigmoid(logits.clone()).topk_with_indices(self.top_k, 1);
        let weights = best * self.routed_scaling_factor;
        (self.experts.forward(x, indices, weights), logits)
    }
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
}

pub fn main() {
    let mut block = Block {
        gate: linear(6, 8),
        experts: Experts {
            gate_up_proj: Param::from_tensor(random([8, 10, 6])),
            down_proj: Param::from_tensor(random([8, 6, 5])),
        },
        shared_expert: linear(6, 6),
        shared_expert_gate: linear(6, 1),
        top_k: 3,
        num_experts: 8,
        norm_topk_prob: true,
    };
    let x = random([2, 5, 6]);
    let (y, logits) = block.forward(x.clone());
    let (expected, expected_logits) = block.forward_reference(x.clone());
    assert_same(y, expected);
    assert_same(logits, expected_logits);
    block.norm_topk_prob = false;
    let (y, _) = block.forward(x.clone());
    assert_same(y, block.forward_reference(x).0);
    let name = "impl_sparse_block::Block::forward";
    assert_site(
        name,
        "moe(part=block, scoring=softmax, renormalise=sum, shared=gated)",
    );
    assert_paths(
        name,
        &["fused cpu-router", "reference: the site's condition"],
    );

    let scaled = Scaled {
        router: linear(6, 8),
        experts: Twice,
        top_k: 2,
        routed_scaling_factor: 2.5,
    };
    let x = random([7, 6]);
    let (y, _) = scaled.route(x.clone());
    assert_same(y, scaled.route_reference(x).0);
    assert_paths("impl_sparse_block::Scaled::route", &["fused cpu-router"]);
}
