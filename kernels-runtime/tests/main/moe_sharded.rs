//! Tests of experts that are divided among shards, beside all experts in one call.

use crate::support::{relative_error_of_any, values};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use kernels_runtime::ops::moe::experts::{self, Part, Projection, Weights};
use kernels_runtime::semantics::*;

const HIDDEN: usize = 6;
const WIDTH: usize = 5;
const CHOICES: usize = 2;
const EXPERTS: usize = 7;

/// The tokens of each part, and the experts of each shard.
const DIVISIONS: [(&[usize], &[usize]); 4] = [
    (&[9], &[7]),
    (&[9], &[3, 1, 3]),
    (&[2, 0, 7], &[1, 4, 2]),
    (&[0, 4, 5], &[2, 2, 2, 1]),
];

/// The experts that tokens choose.
#[derive(Clone, Copy, Debug)]
enum Route {
    Spread,
    /// Only the experts 3 and 4, so that most shards have no rows.
    Few,
    /// As `Spread`, with no expert in every third slot.
    Elsewhere,
    /// No expert at all.
    AllElsewhere,
}

impl Route {
    fn indices(self, tokens: usize) -> Vec<i64> {
        let slots = 0..tokens * CHOICES;
        let index = |slot: usize| match self {
            Self::Few => 3 + (slot + slot / 3) % 2,
            Self::Elsewhere if slot % 3 == 1 => EXPERTS,
            Self::AllElsewhere => EXPERTS,
            Self::Spread | Self::Elsewhere => (slot * 5 + slot / 3) % EXPERTS,
        };
        slots.map(|slot| index(slot) as i64).collect()
    }
}

/// Returns reproducible numbers between -1 and 1 that bf16 can hold.
fn numbers<const D: usize>(shape: [usize; D], seed: u64) -> TensorData {
    let mut state = seed * 2_654_435_761 + 88_172_645_463_325_252;
    let numbers = (0..shape.iter().product()).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 57) as f64 / 64.0 - 1.0
    });
    TensorData::new(numbers.collect::<Vec<f64>>(), shape)
}

/// Returns a leaf with some rows of numbers.
fn leaf<const D: usize>(
    shape: [usize; D],
    seed: u64,
    rows: std::ops::Range<usize>,
    dtype: DType,
) -> Tensor<D> {
    let device = Device::flex().autodiff();
    let all = Tensor::<D>::from_data(numbers(shape, seed), (&device, DType::F64));
    let rows = all.slice_dim(0, rows).cast(FloatDType::from(dtype));
    rows.detach().require_grad()
}

/// The weights of some experts: gate and up, down, and their biases if there are any.
struct Leaves {
    weights: [Tensor<3>; 2],
    biases: Option<[Tensor<2>; 2]>,
}

impl Leaves {
    fn new(experts: std::ops::Range<usize>, key: MoeExpertsKey, dtype: DType) -> Self {
        let shape = |[inputs, outputs]: [usize; 2]| match key.layout {
            ExpertLayout::Linear => [EXPERTS, outputs, inputs],
            ExpertLayout::Matmul => [EXPERTS, inputs, outputs],
        };
        let weights = [([HIDDEN, 2 * WIDTH], 4), ([WIDTH, HIDDEN], 5)];
        let biases = [([EXPERTS, 2 * WIDTH], 6), ([EXPERTS, HIDDEN], 7)];
        Self {
            weights: weights.map(|(sizes, seed)| leaf(shape(sizes), seed, experts.clone(), dtype)),
            biases: (key.bias == ExpertBias::All)
                .then(|| biases.map(|(sizes, seed)| leaf(sizes, seed, experts.clone(), dtype))),
        }
    }

    fn weights(&self) -> Weights {
        let [gate_up, down] = self.weights.clone().map(Projection::new);
        match self.biases.clone() {
            None => Weights::packed(gate_up, down),
            Some([of_gate_up, of_down]) => {
                Weights::packed(gate_up.with_bias(of_gate_up), down.with_bias(of_down))
            }
        }
    }
}

/// The result, and the gradients of the tokens, the routing weights and every weight and bias.
fn run(
    (parts, shards): (&[usize], &[usize]),
    route: Route,
    key: MoeExpertsKey,
    dtype: DType,
    is_sharded: bool,
) -> Vec<Vec<f64>> {
    let device = Device::flex();
    let tokens: usize = parts.iter().sum();
    let mut first = 0;
    let leaves = shards.iter().map(|count| {
        let experts = first..first + count;
        first = experts.end;
        Leaves::new(experts, key, dtype)
    });
    let leaves: Vec<_> = leaves.collect();
    let limit = (key.clamp == Clamp::Limit).then_some(30.0);
    let indices: Tensor<2, Int> = Tensor::from_data(
        TensorData::new(route.indices(tokens), [tokens, CHOICES]),
        &device,
    );
    let mut first = 0;
    let given = parts.iter().map(|count| {
        let rows = first..first + count;
        first = rows.end;
        let dy = leaf([tokens, HIDDEN], 3, rows.clone(), dtype).detach();
        let part = Part {
            x: leaf([tokens, HIDDEN], 1, rows.clone(), dtype),
            indices: indices.clone().slice_dim(0, rows.clone()),
            routing: leaf([tokens, CHOICES], 2, rows, dtype),
        };
        (part, dy)
    });
    let (given, dy): (Vec<_>, Vec<_>) = given.unzip();
    let results = match is_sharded {
        true => {
            let shards: Vec<_> = leaves.iter().map(Leaves::weights).collect();
            experts::sharded(given.clone(), &shards, limit, key)
        }
        false => {
            let [part] = &given[..] else { panic!() };
            let Part {
                x,
                indices,
                routing,
            } = part.clone();
            let weights = leaves[0].weights();
            vec![experts::fused(x, indices, routing, weights, limit, key).unwrap()]
        }
    };
    let shapes: Vec<_> = results.iter().map(Tensor::dims).collect();
    let expected: Vec<_> = parts.iter().map(|count| [*count, HIDDEN]).collect();
    assert_eq!(shapes, expected);
    let ys = results.iter().cloned().flat_map(values).collect();
    let losses = results.into_iter().zip(dy).filter(|(y, _)| y.dims()[0] > 0);
    let losses = losses.map(|(y, dy)| (y * dy).sum());
    // Tokens without experts are tracked too.
    let tied = given.iter().filter(|part| part.x.dims()[0] > 0);
    let tied = tied.map(|part| (part.x.clone().sum() + part.routing.clone().sum()) * 0.0);
    let loss = losses.chain(tied).reduce(|all, one| all + one).unwrap();
    let gradients = loss.backward();
    let given = given.iter().filter(|part| part.x.dims()[0] > 0);
    let of_given = |tensor: fn(&Part) -> &Tensor<2>| {
        let each = given.clone().map(tensor);
        each.flat_map(|tensor| values(tensor.grad(&gradients).unwrap()))
            .collect()
    };
    let mut found = vec![ys, of_given(|part| &part.x), of_given(|part| &part.routing)];
    for which in [0, 1] {
        let of_weights = leaves.iter().flat_map(|one| {
            let gradient = one.weights[which].grad(&gradients);
            values(gradient.expect("a gradient of every shard"))
        });
        found.push(of_weights.collect());
        let with_biases = leaves.iter().filter_map(|one| one.biases.as_ref());
        let of_biases = with_biases
            .flat_map(|biases| values(biases[which].grad(&gradients).expect("a gradient")));
        found.push(of_biases.collect());
    }
    found
}

#[test]
fn shards_compute_what_all_experts_do() {
    for key in [MoeExpertsKey::QWEN3, MoeExpertsKey::GPT_OSS] {
        for route in [
            Route::Spread,
            Route::Few,
            Route::Elsewhere,
            Route::AllElsewhere,
        ] {
            let exact = run((&[9], &[EXPERTS]), route, key, DType::F64, false);
            // f64 and f32 only add in another order. Half types round operands of products, results of rows and sums: the
            // bounds are those of experts on one device.
            for (dtype, tolerance) in [
                (DType::F64, 1e-14),
                (DType::F32, 1e-6),
                (DType::F16, 3e-3),
                (DType::BF16, 2.4e-2),
            ] {
                for division in DIVISIONS {
                    let found = run(division, route, key, dtype, true);
                    for (at, (found, exact)) in found.iter().zip(&exact).enumerate() {
                        assert_eq!(found.len(), exact.len());
                        let error = relative_error_of_any(found, exact);
                        assert!(
                            error <= tolerance,
                            "{key} {route:?} {dtype:?} {division:?}: tensor {at} is off by {error:e}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn no_parts_have_no_results() {
    let shard = Leaves::new(0..EXPERTS, MoeExpertsKey::QWEN3, DType::F32).weights();
    assert!(experts::sharded(Vec::new(), &[shard], None, MoeExpertsKey::QWEN3).is_empty());
}

fn part(index: i64) -> Part {
    let chosen = TensorData::new(vec![index; CHOICES], [1, CHOICES]);
    Part {
        x: leaf([1, HIDDEN], 1, 0..1, DType::F32),
        indices: Tensor::from_data(chosen, &Device::flex()),
        routing: leaf([1, CHOICES], 2, 0..1, DType::F32),
    }
}

#[test]
#[should_panic(expected = "experts: there is no shard")]
fn no_shards_are_an_error() {
    experts::sharded(vec![part(0)], &[], None, MoeExpertsKey::QWEN3);
}

#[test]
#[should_panic(expected = "token 0 is routed to expert 8, but there are 7")]
fn an_expert_that_no_shard_has_is_an_error() {
    let key = MoeExpertsKey::QWEN3;
    let shards = [0..3, 3..EXPERTS].map(|experts| Leaves::new(experts, key, DType::F32).weights());
    experts::sharded(vec![part(8)], &shards, None, key);
}

/// Returns the weights of two shards, which don't belong together.
fn unlike(key: MoeExpertsKey, dtype: DType) -> [Weights; 2] {
    let one = Leaves::new(0..3, MoeExpertsKey::QWEN3, DType::F32);
    [one, Leaves::new(3..EXPERTS, key, dtype)].map(|leaves| leaves.weights())
}

#[test]
#[should_panic(expected = "the down weights are 4 of [5, 6]")]
fn a_shard_of_other_sizes_is_an_error() {
    let shards = unlike(MoeExpertsKey::LLAMA4, DType::F32);
    experts::sharded(vec![part(0)], &shards, None, MoeExpertsKey::QWEN3);
}

#[test]
#[should_panic(expected = "F64")]
fn a_shard_of_another_dtype_is_an_error() {
    let shards = unlike(MoeExpertsKey::QWEN3, DType::F64);
    experts::sharded(vec![part(0)], &shards, None, MoeExpertsKey::QWEN3);
}

#[test]
#[should_panic(expected = "the routing weights are F64")]
fn routing_weights_of_another_dtype_are_an_error() {
    let key = MoeExpertsKey::QWEN3;
    let shard = Leaves::new(0..EXPERTS, key, DType::F32).weights();
    let routing = leaf([1, CHOICES], 2, 0..1, DType::F64);
    let part = Part { routing, ..part(0) };
    experts::sharded(vec![part], &[shard], None, key);
}

#[test]
fn frozen_tokens_and_frozen_experts_leave_the_other_gradients() {
    let key = MoeExpertsKey::QWEN3;
    let run = |tokens_learn: bool, experts_learn: bool| {
        let leaves = [0..3, 3..EXPERTS].map(|experts| Leaves::new(experts, key, DType::F32));
        let given = part(4);
        let x = given.x.clone();
        let part = Part {
            x: if tokens_learn {
                x.clone()
            } else {
                x.clone().detach()
            },
            ..given
        };
        let shards = leaves.each_ref().map(|leaves| {
            let [gate_up, down] = leaves.weights.clone().map(|weight| match experts_learn {
                true => weight,
                false => weight.detach(),
            });
            Weights::packed(Projection::new(gate_up), Projection::new(down))
        });
        let [y] = &experts::sharded(vec![part], &shards, None, key)[..] else {
            panic!()
        };
        let gradients = y.clone().sum().backward();
        let of_weights = leaves
            .each_ref()
            .map(|leaves| leaves.weights[0].grad(&gradients));
        (
            x.grad(&gradients).map(values),
            of_weights.map(|found| found.map(values)),
        )
    };
    let (of_x, of_weights) = run(true, true);
    assert!(of_x.iter().flatten().any(|one| *one != 0.0));
    assert!(of_weights[1].iter().flatten().any(|one| *one != 0.0));
    assert_eq!(run(false, true), (None, of_weights));
    assert_eq!(run(true, false), (of_x, [None, None]));
}

/// All slots have a row, so that there is one row more for the shard without tokens.
#[test]
fn with_frozen_routing_a_shard_without_tokens_has_zero_gradients() {
    let key = MoeExpertsKey::QWEN3;
    let leaves = [0..3, 3..EXPERTS].map(|experts| Leaves::new(experts, key, DType::F32));
    let given = part(4);
    let part = Part {
        routing: given.routing.clone().detach(),
        ..given
    };
    let shards = leaves.each_ref().map(Leaves::weights);
    let [y] = &experts::sharded(vec![part], &shards, None, key)[..] else {
        panic!()
    };
    let gradients = y.clone().sum().backward();
    let of_shards = leaves
        .each_ref()
        .map(|leaves| values(leaves.weights[0].grad(&gradients).expect("a gradient")));
    assert!(of_shards[0].iter().all(|one| *one == 0.0));
    assert!(of_shards[1].iter().any(|one| *one != 0.0));
}
