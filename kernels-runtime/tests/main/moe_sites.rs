//! Tests of sites of `npu_fused_moe`, called as the attribute's expansions do: paths, gradients, and live verification.

use crate::comparison::{largest, relative};
use crate::declared::sites;
use burn::module::Param;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{gelu, sigmoid, silu, softmax};
use burn::tensor::{Device, Distribution, FloatDType, Int, Tensor, TensorData};
use kernels_runtime::__private::{
    self as private, At, Block, ListedExpert, StackedExperts, once, plain_linear,
};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::Site;
use kernels_runtime::report;
use std::panic::{AssertUnwindSafe, catch_unwind};

sites! {
    EXPERTS: "npu_fused_moe", SemanticsKey::MoeExperts(MoeExpertsKey::LLAMA4);
    EXPERTS_OF_GELU: "npu_fused_moe", SemanticsKey::MoeExperts(MoeExpertsKey::LLAMA4);
    EXPERTS_OF_FIVE: "npu_fused_moe", SemanticsKey::MoeExperts(MoeExpertsKey::LLAMA4);
    EXPERTS_CUT_OFF: "npu_fused_moe", SemanticsKey::MoeExperts(MoeExpertsKey::LLAMA4);
    LIST: "npu_fused_moe", SemanticsKey::MoeExperts(LISTED);
    LIST_WITH_A_BIAS: "npu_fused_moe", SemanticsKey::MoeExperts(LISTED);
    LIST_ASKED_FOR: "npu_fused_moe", SemanticsKey::MoeExperts(LISTED);
    BLOCK: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    BLOCK_GRADIENTS: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::MIXTRAL);
    BLOCK_TIES: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    BLOCK_TIES_HALF: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    BLOCK_NOT_RENORMALISED: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    BLOCK_OTHER_LOGITS: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    BLOCK_CORRECTED: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::DEEPSEEK_V3);
    BLOCK_OF_TOO_FEW: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    BLOCK_OF_OTHERS: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    BLOCK_OF_NOTHING: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    BLOCK_OF_STACKED: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::QWEN3_MOE);
    EXPERTS_OF_A_BLOCK: "npu_fused_moe", SemanticsKey::MoeExperts(MoeExpertsKey::LLAMA4);
}

use kernels_runtime::semantics::{MoeExpertsKey, Projections};

/// The key of layers in a list.
const LISTED: MoeExpertsKey = MoeExpertsKey {
    projections: Projections::Separate,
    ..MoeExpertsKey::LLAMA4
};

const EXPERTS_COUNT: usize = 4;

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let device = Device::flex().autodiff();
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device)
}

fn checked<T>(call: impl FnOnce() -> T) -> T {
    let _first = live::scope(Sampling::first());
    call()
}

fn refusal<T>(call: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| checked(call)))
        .err()
        .expect("the call is refused");
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

fn paths(site: &Site) -> Vec<String> {
    let rows = report::report().rows.into_iter();
    rows.filter(|row| row.site == site.name())
        .filter_map(|row| row.call.map(|call| call.path()))
        .collect()
}

/// Returns how often a site was checked and skipped.
fn checks(site: &Site) -> (u64, u64) {
    let mut rows = live::report().rows.into_iter();
    let row = rows.find(|row| row.site == site.name());
    row.map_or((0, 0), |row| (row.checked, row.skipped))
}

fn near<const D: usize>(a: Tensor<D>, b: Tensor<D>) {
    let [a, b] = [a, b].map(|tensor| tensor.into_data().iter::<f64>().collect::<Vec<_>>());
    let error = relative(&a, &b);
    assert!(largest(&b) > 0.0 && error <= 1e-5, "{error:e}");
}

/// The weights of experts, `[in, out]`, with gate and up in halves.
struct Stacked {
    gate_up: Param<Tensor<3>>,
    down: Param<Tensor<3>>,
}

impl Stacked {
    fn new() -> Self {
        Self {
            gate_up: Param::from_tensor(random([EXPERTS_COUNT, 6, 10])),
            down: Param::from_tensor(random([EXPERTS_COUNT, 5, 6])),
        }
    }

    /// Computes every expert for every token.
    fn body(
        &self,
        activation: fn(Tensor<2>) -> Tensor<2>,
        (x, indices, routing): Flowing,
    ) -> Tensor<2> {
        let one = |weights: Tensor<3>, e: usize| weights.narrow(0, e, 1).squeeze_dim::<2>(0);
        let each = (0..EXPERTS_COUNT).map(|e| {
            let parts = x.clone().matmul(one(self.gate_up.val(), e)).chunk(2, 1);
            let hidden = activation(parts[0].clone()) * parts[1].clone();
            let chosen = indices.clone().equal_elem(e as i64).float();
            hidden.matmul(one(self.down.val(), e)) * (routing.clone() * chosen).sum_dim(1)
        });
        each.reduce(|sum, part| sum + part).expect("experts")
    }

    fn call(
        &self,
        site: &'static Site,
        (x, indices, routing): Flowing,
        body: impl FnOnce(Flowing) -> Tensor<2>,
    ) -> Tensor<2> {
        private::experts(
            At::new(site),
            x,
            indices,
            routing,
            StackedExperts::packed(&self.gate_up, &self.down),
            None,
            &mut once(body),
        )
    }
}

type Flowing = (Tensor<2>, Tensor<2, Int>, Tensor<2>);

/// Returns seven tokens, with two different experts each.
fn tokens() -> Flowing {
    let indices: Vec<i64> = (0..7).flat_map(|t| [t % 4, (t + 1 + t / 4) % 4]).collect();
    let indices = TensorData::new(indices, [7, 2]);
    let device = Device::flex().autodiff();
    (
        random([7, 6]).require_grad(),
        Tensor::from_data(indices, &device),
        random([7, 2]).require_grad(),
    )
}

#[test]
fn experts_pass_their_check_and_have_every_gradient() {
    let (stacked, flowing) = (Stacked::new(), tokens());
    let y = checked(|| {
        stacked.call(&EXPERTS, flowing.clone(), |flowing| {
            stacked.body(silu, flowing)
        })
    });
    let expected = stacked.body(silu, flowing.clone());
    near(y.clone().inner(), expected.clone().inner());
    let dy = random([7, 6]).inner();
    let dy = || Tensor::<2>::from_inner(dy.clone());
    let ours = (y * dy()).sum().backward();
    let theirs = (expected * dy()).sum().backward();
    for leaf in [&flowing.0, &flowing.2] {
        near(leaf.grad(&ours).unwrap(), leaf.grad(&theirs).unwrap());
    }
    for leaf in [stacked.gate_up.val(), stacked.down.val()] {
        near(leaf.grad(&ours).unwrap(), leaf.grad(&theirs).unwrap());
    }
    assert_eq!(paths(&EXPERTS), ["fused cpu-simd"]);
    assert_eq!(checks(&EXPERTS), (1, 0));
}

#[test]
fn a_body_with_another_activation_is_found() {
    let stacked = Stacked::new();
    let message = refusal(|| {
        stacked.call(&EXPERTS_OF_GELU, tokens(), |flowing| {
            stacked.body(gelu, flowing)
        })
    });
    assert!(message.contains("the annotated body is the odd one out"));
    assert!(message.contains("moe(activation=silu"), "{message}");
}

#[test]
fn a_body_that_cuts_off_the_routing_weights_is_found() {
    let stacked = Stacked::new();
    let message = refusal(|| {
        stacked.call(&EXPERTS_CUT_OFF, tokens(), |(x, indices, routing)| {
            stacked.body(silu, (x, indices, routing.detach()))
        })
    });
    assert!(message.contains("d_routing is missing"), "{message}");
}

#[test]
fn another_number_of_experts_than_the_item_says_is_told() {
    let stacked = Stacked::new();
    let weights = StackedExperts::packed(&stacked.gate_up, &stacked.down).num_experts(5);
    let (x, indices, routing) = tokens();
    let message = refusal(|| {
        private::experts(
            At::new(&EXPERTS_OF_FIVE),
            x,
            indices,
            routing,
            weights,
            None,
            &mut |(x, _, _)| x,
        )
    });
    assert!(message.contains("there are 4 experts, but `num_experts` is 5"));
    assert_eq!(private::same_count(4, 4), 4);
}

/// An expert made of layers.
struct Mlp {
    gate: Linear,
    up: Linear,
    down: Linear,
}

fn list(bias: bool) -> Vec<Mlp> {
    let device = Device::flex().autodiff();
    let linear = |inputs, outputs| {
        LinearConfig::new(inputs, outputs)
            .with_bias(bias)
            .init(&device)
    };
    let expert = |_| Mlp {
        gate: linear(6, 5),
        up: linear(6, 5),
        down: linear(5, 6),
    };
    (0..EXPERTS_COUNT).map(expert).collect()
}

/// Calls a site of a list whose layers `expert(e)` returns. Its body returns `x`.
fn call_list<'a>(site: &'static Site, expert: &dyn Fn(usize) -> ListedExpert<'a>) -> Tensor<2> {
    let (x, indices, routing) = tokens();
    private::experts_list(
        At::new(site),
        x,
        indices,
        routing,
        EXPERTS_COUNT,
        expert,
        None,
        &mut |(x, _, _)| x,
    )
}

#[test]
fn one_layer_that_is_not_plain_is_enough_for_the_reference() {
    let list = list(false);
    let _off = live::scope(Sampling::off());
    let all = |e: usize| {
        let Mlp { gate, up, down } = &list[e];
        ListedExpert::separate(plain_linear!(gate), plain_linear!(up), plain_linear!(down))
    };
    call_list(&LIST, &all);
    let last = |e: usize| {
        let down = plain_linear!(&list[e].down).filter(|_| e < EXPERTS_COUNT - 1);
        ListedExpert::separate(
            plain_linear!(&list[e].gate),
            plain_linear!(&list[e].up),
            down,
        )
    };
    call_list(&LIST, &last);
    let _off = policy::scope(Policy::reference());
    call_list(&LIST, &|_| {
        unreachable!("no layer is looked at without a kernel")
    });
    let mut paths = paths(&LIST);
    paths.sort();
    assert_eq!(
        paths,
        [
            "fused cpu-simd",
            "reference: a projection is not a plain `Linear`",
            "reference: switched off by the policy",
        ]
    );
}

#[test]
fn a_kernel_that_is_asked_for_says_which_layers_it_cannot_read() {
    let _strict = policy::scope("+npu_fused_moe".parse().unwrap());
    let none = |_| ListedExpert::separate(None, None, None);
    let message = refusal(|| call_list(&LIST_ASKED_FOR, &none));
    assert!(message.contains("not a plain `Linear`"), "{message}");
}

#[test]
fn a_bias_that_the_attribute_does_not_say_is_not_lost() {
    let list = list(true);
    let all = |e: usize| {
        let Mlp { gate, up, down } = &list[e];
        ListedExpert::separate(plain_linear!(gate), plain_linear!(up), plain_linear!(down))
    };
    let message = refusal(|| call_list(&LIST_WITH_A_BIAS, &all));
    assert!(message.contains("write `bias = all`"), "{message}");
}

/// A block whose expert `e` multiplies by `e + 1`.
struct Router {
    gate: Tensor<2>,
    top_k: usize,
}

impl Router {
    fn new(experts: usize, top_k: usize) -> Self {
        Self {
            gate: random([16, experts]).require_grad(),
            top_k,
        }
    }

    fn logits(&self, x: Tensor<2>) -> Tensor<2> {
        x.clone()
            .matmul(self.gate.clone().cast(FloatDType::from(x.dtype())))
    }

    /// Computes the experts in the dtype of the tokens, from which that of the weights may differ.
    fn experts(x: Tensor<2>, indices: Tensor<2, Int>, weights: Tensor<2>) -> Tensor<2> {
        let dtype = FloatDType::from(x.dtype());
        let weights = weights.cast(FloatDType::F32);
        let factor = ((indices.float() + 1.0) * weights).sum_dim(1);
        (x.cast(FloatDType::F32) * factor).cast(dtype)
    }

    /// Computes the whole block, with scores in f32.
    fn body(&self, x: Tensor<2>, renormalise: bool) -> (Tensor<2>, Tensor<2>) {
        let logits = self.logits(x.clone());
        let scores = softmax(logits.clone().cast(FloatDType::F32), 1);
        let (best, indices) = scores.topk_with_indices(self.top_k, 1);
        let weights = match renormalise {
            true => best.clone() / best.sum_dim(1),
            false => best,
        };
        let weights = weights.cast(FloatDType::from(x.dtype()));
        (Self::experts(x, indices, weights), logits)
    }

    fn call(
        &self,
        site: &'static Site,
        x: Tensor<2>,
        body: impl FnOnce(Tensor<2>) -> (Tensor<2>, Tensor<2>),
    ) -> (Tensor<2>, Tensor<2>) {
        let gate = |x| self.logits(x);
        let block = Block::new(&gate, &Self::experts, self.top_k);
        private::block(At::new(site), x, block, &mut once(body))
    }
}

#[test]
fn blocks_pass_their_check_and_return_their_logits() {
    let router = Router::new(8, 2);
    let x = random([9, 16]);
    let (y, logits) = checked(|| router.call(&BLOCK, x.clone(), |x| router.body(x, true)));
    let (expected, expected_logits) = router.body(x, true);
    near(y.inner(), expected.inner());
    near(logits.inner(), expected_logits.inner());
    assert_eq!(paths(&BLOCK), ["fused cpu-router"]);
    assert_eq!(checks(&BLOCK), (1, 0));
}

#[test]
fn gradients_of_a_block_reach_the_tokens_and_the_router() {
    let router = Router::new(8, 3);
    let x = random([9, 16]).require_grad();
    let (y, logits) = router.call(&BLOCK_GRADIENTS, x.clone(), |x| router.body(x, true));
    let (expected, expected_logits) = router.body(x.clone(), true);
    // The loss uses the logits too, as with a load-balancing loss.
    let loss = |y: Tensor<2>, logits: Tensor<2>| y.square().sum() + logits.square().sum();
    let ours = loss(y, logits).backward();
    let theirs = loss(expected, expected_logits).backward();
    for leaf in [&x, &router.gate] {
        near(leaf.grad(&ours).unwrap(), leaf.grad(&theirs).unwrap());
    }
}

/// A body may choose another one of equal experts, and equal logits are common in bf16. Here every expert of the second
/// half scores like one of the first, so about half of the tokens must choose between two.
#[test]
fn equal_scores_are_no_alarm() {
    for (site, dtype) in [
        (&BLOCK_TIES, FloatDType::F32),
        (&BLOCK_TIES_HALF, FloatDType::BF16),
    ] {
        let mut router = Router::new(16, 5);
        let columns = random([16, 32]).inner();
        router.gate = Tensor::cat(vec![columns.clone(), columns.narrow(1, 0, 16)], 1);
        let x = random([64, 16]).inner().cast(dtype);
        let last_of_equals = |x: Tensor<2>| {
            let logits = router.logits(x.clone());
            let scores = softmax(logits.clone().cast(FloatDType::F32), 1).flip([1]);
            let (best, indices) = scores.topk_with_indices(5, 1);
            let weights = (best.clone() / best.sum_dim(1)).cast(dtype);
            (Router::experts(x, indices * -1 + 47, weights), logits)
        };
        let (y, _) = checked(|| router.call(site, x.clone(), last_of_equals));
        let (other, _) = last_of_equals(x);
        let apart = (y - other).cast(FloatDType::F32).abs().max();
        assert!(apart.into_scalar::<f32>() > 0.1, "the choices differ");
        assert_eq!(checks(site), (1, 0));
    }
}

#[test]
fn a_body_that_does_not_renormalise_is_found() {
    let router = Router::new(8, 2);
    let message = refusal(|| {
        router.call(&BLOCK_NOT_RENORMALISED, random([9, 16]), |x| {
            router.body(x, false)
        })
    });
    assert!(message.contains("the annotated body is the odd one out"));
    assert!(message.contains("renormalise=sum"), "{message}");
}

#[test]
fn a_body_that_returns_other_logits_is_found() {
    let router = Router::new(8, 2);
    let message = refusal(|| {
        router.call(&BLOCK_OTHER_LOGITS, random([9, 16]), |x| {
            let (y, logits) = router.body(x, true);
            (y, softmax(logits, 1))
        })
    });
    assert!(message.contains("y.1"), "{message}");
}

#[test]
fn a_choice_in_groups_corrected_by_a_bias_passes_its_check() {
    let router = Router::new(32, 4);
    let bias = random([32]).inner() * 0.1;
    let x = random([40, 16]);
    let (gate, shared_gate) = (|x| router.logits(x), |x: Tensor<2>| x.narrow(1, 0, 1));
    let shared = |x: Tensor<2>| x * 2.0;
    let block = Block::new(&gate, &Router::experts, 4)
        .correction(&bias)
        .groups(8, 3)
        .scale(2.5)
        .num_experts(32)
        .shared(&shared)
        .shared_gate(&shared_gate);
    let mut composition = |x| private::block_reference(x, block, KEY);
    let (y, _) = checked(|| {
        private::block(
            At::new(&BLOCK_CORRECTED),
            x.clone(),
            block,
            &mut composition,
        )
    });
    // The kernel's part of the shared expert.
    let without = Block::new(&gate, &Router::experts, 4)
        .correction(&bias)
        .groups(8, 3);
    let (unscaled, _) = private::block_reference(x.clone(), without, KEY);
    let shared = sigmoid(x.clone().narrow(1, 0, 1)) * x * 2.0;
    near(y.inner(), (unscaled * 2.5 + shared).inner());
}

const KEY: kernels_runtime::semantics::MoeBlockKey =
    kernels_runtime::semantics::MoeBlockKey::DEEPSEEK_V3;

#[test]
fn numbers_that_do_not_fit_together_are_told() {
    let router = Router::new(3, 4);
    let call = |site, block| {
        let mut body = |x| router.body(x, true);
        refusal(|| private::block(At::new(site), random([2, 16]), block, &mut body))
    };
    let gate = |x| router.logits(x);
    let block = Block::new(&gate, &Router::experts, 4);
    let message = call(&BLOCK_OF_TOO_FEW, block);
    assert!(message.contains("can't choose 4 of 3 experts"), "{message}");
    let message = call(&BLOCK_OF_OTHERS, block.num_experts(8));
    assert!(
        message.contains("3 logits a token, but there are 8"),
        "{message}"
    );
}

#[test]
fn a_block_of_no_tokens_has_no_result() {
    let _off = live::scope(Sampling::off());
    let router = Router::new(8, 2);
    let gate = |x| router.logits(x);
    let block = Block::new(&gate, &|x, _, _| x, 2);
    let x = random([2, 0, 16]).require_grad();
    let mut body = |x| private::block_reference(x, block, KEY_OF_STACKED);
    for (y, logits) in [
        private::block(At::new(&BLOCK_OF_NOTHING), x.clone(), block, &mut body),
        body(x.clone()),
    ] {
        assert_eq!((y.dims(), logits.dims()), ([2, 0, 16], [0, 8]));
        let gradients = (y.sum() + logits.sum()).backward();
        assert_eq!(
            x.grad(&gradients).expect("it is tracked").dims(),
            [2, 0, 16]
        );
    }
}

/// An index one past the last expert stands for an expert elsewhere: the choice of a router of one too many would add nothing.
#[test]
fn a_router_of_other_experts_is_told() {
    let stacked = Stacked::new();
    let x = || random([7, 6]);
    let experts = |x, indices, routing| {
        stacked.call(&EXPERTS_OF_A_BLOCK, (x, indices, routing), |flowing| {
            stacked.body(silu, flowing)
        })
    };
    for logits in [3, 5, 6] {
        let projection = random([6, logits]);
        let gate = |x: Tensor<2>| x.matmul(projection.clone());
        let block = Block::new(&gate, &experts, 2);
        let mut body = |x| private::block_reference(x, block, KEY_OF_STACKED);
        let expected = format!("gives {logits} logits a token, but there are 4 experts");
        for message in [
            refusal(|| private::block(At::new(&BLOCK_OF_STACKED), x(), block, &mut body)),
            refusal(|| private::block_reference(x(), block, KEY_OF_STACKED)),
        ] {
            assert!(message.contains(&expected), "{message}");
        }
        // Experts of one device take other indices than those of the router.
        let local = |x, indices: Tensor<2, Int>, routing| experts(x, indices.clamp(0, 4), routing);
        let block = Block::new(&gate, &local, 2);
        let (y, _) = private::block_reference(x(), block, KEY_OF_STACKED);
        assert_eq!(y.dims(), [7, 6]);
    }
}

const KEY_OF_STACKED: kernels_runtime::semantics::MoeBlockKey =
    kernels_runtime::semantics::MoeBlockKey::QWEN3_MOE;
