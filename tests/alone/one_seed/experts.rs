//! Tests mixtures of experts: stacked, in a list, and the block around them.

use super::train::{TOKENS, WIDTH, one_seed_one_model};
use crate::counting::alone;
use burn::module::{Initializer, Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{sigmoid, silu, softmax};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_kernels::fused_kernel;
use burn_kernels::ops::moe::experts::each;

const EXPERTS: usize = 4;

fn linear(inputs: usize, outputs: usize, device: &Device) -> Linear {
    LinearConfig::new(inputs, outputs)
        .with_bias(false)
        .init(device)
}

fn stack<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    Initializer::Uniform {
        min: -0.5,
        max: 0.5,
    }
    .init(shape, device)
}

/// Returns two of the first three experts for each token. The last expert gets none.
fn routed(device: &Device) -> (Tensor<2, Int>, Tensor<2>) {
    let indices: Vec<i64> = (0..TOKENS as i64)
        .flat_map(|t| [2 - t % 3, (t + 1) % 3])
        .collect();
    let routing: Vec<f32> = (0..2 * TOKENS).map(|i| 0.3 + 0.05 * i as f32).collect();
    (
        Tensor::from_data(TensorData::new(indices, [TOKENS, 2]), device),
        Tensor::from_data(TensorData::new(routing, [TOKENS, 2]), device),
    )
}

macro_rules! through_experts {
    () => {
        |experts, x: Tensor<2>| {
            let (indices, routing) = routed(&x.device());
            experts.forward(x, indices, routing)
        }
    };
}

/// Declares layers with the same fields and different bodies.
macro_rules! stacked {
    ($($(#[$attribute:meta])* $name:ident)*) => {
        $(
            $(#[$attribute])*
            #[derive(Module, Debug)]
            struct $name {
                down_proj: Param<Tensor<3>>,
                down_proj_bias: Param<Tensor<2>>,
                gate_up_proj_bias: Param<Tensor<2>>,
                gate_up_proj: Param<Tensor<3>>,
            }

            impl $name {
                fn init(device: &Device) -> Self {
                    Self {
                        down_proj: stack([EXPERTS, 5, WIDTH], device),
                        down_proj_bias: stack([EXPERTS, WIDTH], device),
                        gate_up_proj_bias: stack([EXPERTS, 10], device),
                        gate_up_proj: stack([EXPERTS, WIDTH, 10], device),
                    }
                }
            }
        )*
    };
}

stacked! {
    #[fused_kernel("npu_fused_moe", layout = matmul, bias = all)]
    StackedStruct
    StackedDownFirst
    StackedInALoop
    StackedHelped
}

fn unit(both: Tensor<2>) -> Tensor<2> {
    silu(both.clone().narrow(1, 0, 5)) * both.narrow(1, 5, 5)
}

fn row(biases: Tensor<2>, expert: usize) -> Tensor<2> {
    biases.narrow(0, expert, 1)
}

fn matrix(weights: Tensor<3>, expert: usize) -> Tensor<2> {
    weights.narrow(0, expert, 1).squeeze_dim(0)
}

#[fused_kernel("npu_fused_moe", layout = matmul, bias = all)]
impl StackedDownFirst {
    fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        let (down, down_bias) = (self.down_proj.val(), self.down_proj_bias.val());
        let gate_up_bias = self.gate_up_proj_bias.val();
        let gate_up = self.gate_up_proj.val();
        each(x, indices, routing, EXPERTS, |e, x| {
            let both = x.matmul(matrix(gate_up.clone(), e)) + row(gate_up_bias.clone(), e);
            unit(both).matmul(matrix(down.clone(), e)) + row(down_bias.clone(), e)
        })
    }
}

#[fused_kernel("npu_fused_moe", layout = matmul, bias = all)]
impl StackedInALoop {
    fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        let mut y = x.zeros_like();
        for e in 0..EXPERTS {
            let bias = row(self.down_proj_bias.val(), e);
            let gate_up_bias = row(self.gate_up_proj_bias.val(), e);
            let both = x.clone().matmul(matrix(self.gate_up_proj.val(), e)) + gate_up_bias;
            let out = unit(both).matmul(matrix(self.down_proj.val(), e)) + bias;
            let is_routed = indices.clone().equal_elem(e as i64).float();
            y = y + out * (routing.clone() * is_routed).sum_dim(1);
        }
        y
    }
}

#[fused_kernel("npu_fused_moe", layout = matmul, bias = all, gate_up = gate_up_proj,
    gate_up_bias = gate_up_proj_bias, down = down_proj, down_bias = down_proj_bias)]
impl StackedHelped {
    fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        each(x, indices, routing, EXPERTS, |e, x| self.expert(e, x))
    }

    fn expert(&self, e: usize, x: Tensor<2>) -> Tensor<2> {
        let down = matrix(self.down_proj.val(), e);
        let both = x.matmul(matrix(self.gate_up_proj.val(), e));
        let both = both + row(self.gate_up_proj_bias.val(), e);
        unit(both).matmul(down) + row(self.down_proj_bias.val(), e)
    }
}

/// Uses `down` first.
#[fused_kernel("npu_fused_moe", layout = matmul)]
fn apply(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    gate_up: &Param<Tensor<3>>,
    down: &Param<Tensor<3>>,
    num_experts: usize,
) -> Tensor<2> {
    let down = down.val();
    let gate_up = gate_up.val();
    each(x, indices, routing, num_experts, |e, x| {
        unit(x.matmul(matrix(gate_up.clone(), e))).matmul(matrix(down.clone(), e))
    })
}

#[derive(Module, Debug)]
struct OfAFunction {
    gate_up: Param<Tensor<3>>,
    down: Param<Tensor<3>>,
}

#[test]
fn stacked_weights_are_used_in_the_bodys_order() {
    one_seed_one_model("StackedStruct", StackedStruct::init, through_experts!());
    one_seed_one_model(
        "StackedDownFirst",
        StackedDownFirst::init,
        through_experts!(),
    );
    one_seed_one_model("StackedInALoop", StackedInALoop::init, through_experts!());
    one_seed_one_model("StackedHelped", StackedHelped::init, through_experts!());
    let init = |device: &Device| OfAFunction {
        gate_up: stack([EXPERTS, WIDTH, 10], device),
        down: stack([EXPERTS, 5, WIDTH], device),
    };
    one_seed_one_model("experts::apply", init, |experts, x| {
        let (indices, routing) = routed(&x.device());
        apply(
            x,
            indices,
            routing,
            &experts.gate_up,
            &experts.down,
            EXPERTS,
        )
    });
}

/// An expert that calls `up` first.
#[derive(Module, Debug)]
struct Expert {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl Expert {
    fn init(device: &Device) -> Self {
        Self {
            gate_proj: linear(WIDTH, 5, device),
            up_proj: linear(WIDTH, 5, device),
            down_proj: linear(5, WIDTH, device),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let up = self.up_proj.forward(x.clone());
        self.down_proj.forward(silu(self.gate_proj.forward(x)) * up)
    }
}

/// Declares layers with the same fields and different bodies.
macro_rules! lists {
    ($($(#[$attribute:meta])* $name:ident)*) => {
        $(
            $(#[$attribute])*
            #[derive(Module, Debug)]
            struct $name {
                experts: Vec<Expert>,
            }

            impl $name {
                fn init(device: &Device) -> Self {
                    Self {
                        experts: (0..EXPERTS).map(|_| Expert::init(device)).collect(),
                    }
                }
            }
        )*
    };
}

lists! {
    #[fused_kernel("npu_fused_moe", experts = list, projections = separate)]
    ListStruct
    List
    ListOfATrait
}

#[fused_kernel("npu_fused_moe", experts = list, list = experts, projections = separate)]
impl List {
    fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        each(x, indices, routing, EXPERTS, |e, x| {
            self.experts[e].forward(x)
        })
    }
}

trait Experts {
    fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2>;
}

#[fused_kernel("npu_fused_moe", experts = list, list = experts, projections = separate)]
impl Experts for ListOfATrait {
    fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        each(x, indices, routing, self.experts.len(), |e, x| {
            self.experts[e].forward(x)
        })
    }
}

/// Moves the value of its condition into the body, so that the body can't run twice.
#[fused_kernel("npu_fused_moe", experts = list, projections = separate, when = name == "list")]
fn apply_list(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    experts: &[Expert],
    name: String,
) -> Tensor<2> {
    drop(name);
    each(x, indices, routing, experts.len(), |e, x| {
        experts[e].forward(x)
    })
}

#[test]
fn experts_of_a_list_are_used_in_the_bodys_order() {
    one_seed_one_model("ListStruct", ListStruct::init, through_experts!());
    one_seed_one_model("experts::List::", List::init, through_experts!());
}

#[test]
fn experts_of_a_trait_are_no_exception() {
    one_seed_one_model("ListOfATrait", ListOfATrait::init, through_experts!());
}

/// A model of two layers of experts. An expert that the first initialises too early changes the numbers of the second.
#[derive(Module, Debug)]
struct TwoLists {
    first: List,
    second: List,
}

#[test]
fn experts_without_tokens_stay_as_they_are() {
    let init = |device: &Device| TwoLists {
        first: List::init(device),
        second: List::init(device),
    };
    one_seed_one_model("experts::List::", init, |lists, x| {
        let (indices, routing) = routed(&x.device());
        let x = lists.first.forward(x, indices.clone(), routing.clone());
        lists.second.forward(x, indices, routing)
    });
}

/// The order in which the body uses its experts is unknown here. Its experts must still not be mixed up.
#[test]
fn a_body_that_runs_once_computes_the_same() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let list = List::init(&device);
    let x = Tensor::<2>::random(
        [TOKENS, WIDTH],
        burn::tensor::Distribution::Default,
        &device,
    );
    let (indices, routing) = routed(&device);
    let experts = &list.experts;
    let y = apply_list(
        x.clone(),
        indices.clone(),
        routing.clone(),
        experts,
        "list".to_owned(),
    );
    let expected = list.forward_reference(x, indices, routing);
    let distance = (y - expected).abs().max().into_scalar::<f32>();
    assert!(distance < 1e-5, "{distance}");
}

/// Declares layers with the same fields and different bodies.
macro_rules! blocks {
    ($($(#[$attribute:meta])* $name:ident)*) => {
        $(
            $(#[$attribute])*
            #[derive(Module, Debug)]
            struct $name {
                shared_expert_gate: Linear,
                experts: List,
                shared_expert: Expert,
                e_score_correction_bias: Param<Tensor<1>>,
                gate: Linear,
                top_k: usize,
            }

            impl $name {
                fn init(device: &Device) -> Self {
                    Self {
                        shared_expert_gate: linear(WIDTH, 1, device),
                        experts: List::init(device),
                        shared_expert: Expert::init(device),
                        e_score_correction_bias: stack([EXPERTS], device),
                        gate: linear(WIDTH, EXPERTS, device),
                        top_k: 2,
                    }
                }

                fn y(&self, x: Tensor<2>) -> Tensor<2> {
                    self.forward(x).0
                }
            }
        )*
    };
}

blocks! {
    #[fused_kernel("npu_fused_moe", part = block, correction = bias, shared = gated)]
    BlockStruct
    Block
    BlockHelped
}

/// Returns the experts with the highest corrected scores, and their scores.
fn choose(logits: Tensor<2>, bias: Tensor<1>, k: usize) -> (Tensor<2, Int>, Tensor<2>) {
    let scores = softmax(logits, 1);
    let (_, indices) = (scores.clone() + bias.unsqueeze()).topk_with_indices(k, 1);
    let weights = scores.gather(1, indices.clone());
    (indices, weights)
}

#[fused_kernel("npu_fused_moe", part = block, correction = bias, shared = gated)]
impl Block {
    fn forward(&self, x: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let shared = sigmoid(self.shared_expert_gate.forward(x.clone()))
            * self.shared_expert.forward(x.clone());
        let bias = self.e_score_correction_bias.val();
        let logits = self.gate.forward(x.clone());
        let (indices, routing) = choose(logits.clone(), bias, self.top_k);
        (self.experts.forward(x, indices, routing) + shared, logits)
    }
}

#[fused_kernel("npu_fused_moe", part = block, correction = bias, shared = gated,
    shared_expert = shared_expert, shared_expert_gate = shared_expert_gate)]
impl BlockHelped {
    fn forward(&self, x: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let shared = self.shared(x.clone());
        let logits = self.gate.forward(x.clone());
        let bias = self.e_score_correction_bias.val();
        let (indices, routing) = choose(logits.clone(), bias, self.top_k);
        (self.experts.forward(x, indices, routing) + shared, logits)
    }

    fn shared(&self, x: Tensor<2>) -> Tensor<2> {
        let all = self.shared_expert.forward(x.clone());
        sigmoid(self.shared_expert_gate.forward(x)) * all
    }
}

#[test]
fn the_parts_of_a_block_are_used_in_the_bodys_order() {
    one_seed_one_model("BlockStruct", BlockStruct::init, BlockStruct::y);
    one_seed_one_model("experts::Block::", Block::init, Block::y);
    one_seed_one_model("BlockHelped", BlockHelped::init, BlockHelped::y);
}
