//! Tests of adapters of experts: grouped kernels against the reference, in results and every gradient.

use crate::comparison::difference;
use burn::tensor::{DType, Device, Distribution, Gradients, Int, Tensor};
use kernels_runtime::ops::moe::Stack;
use kernels_runtime::ops::moe::experts::{Adapter, Projection, Weights, fused, reference};
use kernels_runtime::semantics::{Clamp, ExpertBias, ExpertLayout, MoeExpertsKey, Projections};
use std::panic::{AssertUnwindSafe, catch_unwind};

const TOKENS: usize = 9;
const HIDDEN: usize = 6;
const WIDTH: usize = 5;
const EXPERTS: usize = 4;
const RANK: usize = 2;

fn random<const D: usize>(shape: [usize; D], dtype: DType) -> Tensor<D> {
    let device = Device::flex().autodiff();
    let range = Distribution::Normal(0.0, 0.5);
    Tensor::random(shape, range, (&device, dtype)).require_grad()
}

/// The leaves of a projection.
struct Parts {
    weight: Tensor<3>,
    a: Tensor<3>,
    b: Tensor<3>,
    bias: Option<Tensor<2>>,
}

impl Parts {
    fn new([inputs, outputs]: [usize; 2], key: MoeExpertsKey) -> Self {
        let sizes = match key.layout {
            ExpertLayout::Linear => [EXPERTS, outputs, inputs],
            ExpertLayout::Matmul => [EXPERTS, inputs, outputs],
        };
        let has_bias = key.bias == ExpertBias::All;
        Self {
            weight: random(sizes, DType::F64),
            a: random([EXPERTS, inputs, RANK], DType::F64),
            b: random([EXPERTS, RANK, outputs], DType::F64),
            bias: has_bias.then(|| random([EXPERTS, outputs], DType::F64)),
        }
    }

    fn adapter(&self) -> Adapter {
        Adapter {
            a: self.a.clone(),
            b: self.b.clone(),
            scale: 1.5,
        }
    }

    fn projection(&self, listed: bool) -> Projection {
        let weight = in_a_list::<3, 2>(self.weight.clone(), listed);
        let projection = Projection::new(weight).with_adapter(self.adapter());
        match &self.bias {
            Some(bias) => projection.with_bias(in_a_list::<2, 1>(bias.clone(), listed)),
            None => projection,
        }
    }

    fn gradients(&self, gradients: &Gradients) -> Vec<Vec<f64>> {
        let stacks = [&self.weight, &self.a, &self.b].map(|leaf| gradient(leaf, gradients));
        let bias = self.bias.iter().map(|leaf| gradient(leaf, gradients));
        stacks.into_iter().chain(bias).collect()
    }
}

fn gradient<const D: usize>(leaf: &Tensor<D>, gradients: &Gradients) -> Vec<f64> {
    let gradient = leaf.grad(gradients).expect("a gradient");
    gradient.into_data().iter::<f64>().collect()
}

/// Makes weights of the leaves of down, gate and up, or of down and both in one.
fn weights(parts: &[Parts], listed: bool) -> Weights {
    match parts {
        [down, gate, up] => {
            let [gate, up, down] = [gate, up, down].map(|one| one.projection(listed));
            Weights::separate(gate, up, down)
        }
        [down, both] => Weights::packed(both.projection(listed), down.projection(listed)),
        _ => unreachable!("two or three projections"),
    }
}

fn in_a_list<const STACKED: usize, const SINGLE: usize>(
    all: Tensor<STACKED>,
    listed: bool,
) -> Stack<STACKED, SINGLE> {
    if !listed {
        return all.into();
    }
    let one = |expert| all.clone().narrow(0, expert, 1).squeeze_dim(0);
    (0..EXPERTS).map(one).collect::<Vec<_>>().into()
}

/// Two choices for each token. The last expert has no token, and some choices are experts elsewhere.
fn indices() -> Tensor<2, Int> {
    let chosen: Vec<i64> = (0..2 * TOKENS as i64)
        .map(|slot| {
            if slot % 7 == 3 {
                EXPERTS as i64
            } else {
                slot * 5 % 3
            }
        })
        .collect();
    Tensor::<1, Int>::from_data(chosen.as_slice(), &Device::flex()).reshape([TOKENS, 2])
}

fn near(one: &[f64], other: &[f64], what: &str) {
    let apart = difference(one, other);
    assert!(apart < 1e-10, "{what}: {apart:e}");
}

fn keys() -> impl Iterator<Item = MoeExpertsKey> {
    let all = [MoeExpertsKey::QWEN3, MoeExpertsKey::GPT_OSS].into_iter();
    let layouts = [ExpertLayout::Linear, ExpertLayout::Matmul];
    let all = all.flat_map(move |key| layouts.map(|layout| MoeExpertsKey { layout, ..key }));
    let biases = [ExpertBias::None, ExpertBias::All];
    let all = all.flat_map(move |key| biases.map(|bias| MoeExpertsKey { bias, ..key }));
    let projections = [
        Projections::Chunked,
        Projections::Interleaved,
        Projections::Separate,
    ];
    all.flat_map(move |key| projections.map(|projections| MoeExpertsKey { projections, ..key }))
}

#[test]
fn grouped_kernels_compute_the_reference_and_its_gradients() {
    for (key, listed) in keys().flat_map(|key| [(key, false), (key, true)]) {
        let (x, routing) = tokens();
        let sizes: &[[usize; 2]] = match key.projections {
            Projections::Separate => &[[WIDTH, HIDDEN], [HIDDEN, WIDTH], [HIDDEN, WIDTH]],
            _ => &[[WIDTH, HIDDEN], [HIDDEN, 2 * WIDTH]],
        };
        let parts: Vec<Parts> = sizes.iter().map(|sizes| Parts::new(*sizes, key)).collect();
        let limit = (key.clamp == Clamp::Limit).then_some(0.7);
        let up = random([TOKENS, HIDDEN], DType::F64).detach();
        let run = |is_fused: bool| {
            let (x, routing, weights) = (x.clone(), routing.clone(), weights(&parts, listed));
            let y = match is_fused {
                true => fused(x, indices(), routing, weights, limit, key).expect("a kernel"),
                false => reference(x, indices(), routing, weights, limit, key),
            };
            let gradients = (y.clone() * up.clone()).sum().backward();
            let y: Vec<f64> = y.into_data().iter::<f64>().collect();
            (y, gradients)
        };
        let ((y, ours), (expected, theirs)) = (run(true), run(false));
        near(&y, &expected, &format!("{key}"));
        let of = |gradients: &Gradients| -> Vec<Vec<f64>> {
            let flowing = [&x, &routing].map(|leaf| gradient(leaf, gradients));
            let parts = parts.iter().flat_map(|parts| parts.gradients(gradients));
            flowing.into_iter().chain(parts).collect()
        };
        for (one, other) in of(&ours).iter().zip(&of(&theirs)) {
            near(one, other, &format!("a gradient of {key}"));
        }
    }
}

fn tokens() -> (Tensor<2>, Tensor<2>) {
    (
        random([TOKENS, HIDDEN], DType::F64),
        random([TOKENS, 2], DType::F64),
    )
}

/// The result is that of the sum of the weights and the products of the factors.
#[test]
fn adapters_are_a_sum_with_the_weights() {
    let key = MoeExpertsKey::QWEN3;
    let (x, routing) = tokens();
    let parts = [
        Parts::new([WIDTH, HIDDEN], key),
        Parts::new([HIDDEN, 2 * WIDTH], key),
    ];
    let [down, gate_up] = parts.each_ref().map(|parts| {
        let adapter = parts.adapter();
        let product = adapter.a.matmul(adapter.b).swap_dims(1, 2) * adapter.scale;
        Projection::new(parts.weight.clone() + product)
    });
    let run = |weights| {
        let y = fused(x.clone(), indices(), routing.clone(), weights, None, key);
        let y = y.expect("a kernel").into_data();
        y.iter::<f64>().collect::<Vec<f64>>()
    };
    let sums = Weights::packed(gate_up, down);
    near(&run(weights(&parts, false)), &run(sums), "a sum");
}

#[test]
fn factors_of_other_sizes_are_told() {
    let key = MoeExpertsKey::QWEN3;
    let mut down = Parts::new([WIDTH, HIDDEN], key);
    down.b = random([EXPERTS, RANK + 1, HIDDEN], DType::F64);
    let parts = [down, Parts::new([HIDDEN, 2 * WIDTH], key)];
    let call = || {
        let (x, routing) = tokens();
        fused(x, indices(), routing, weights(&parts, false), None, key)
    };
    let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("refused");
    let message = panic.downcast::<String>().expect("a message");
    assert!(
        message.contains("the factors of the adapters are"),
        "{message}"
    );
}
