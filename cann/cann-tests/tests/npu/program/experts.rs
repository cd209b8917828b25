//! A test of experts that are divided among NPUs, with the emulator.

use super::alone;
use burn::tensor::{Device, Tensor, TensorData};
use burn_kernels::npu;
use burn_kernels::ops::moe::experts::{self, Part, Projection, Weights};
use burn_kernels::semantics::MoeExpertsKey;
use std::ops::Range;

const TOKENS: usize = 8;
const HIDDEN: usize = 5;
const WIDTH: usize = 4;
const EXPERTS: usize = 3;

/// The tokens or experts on a device.
type Share<'a> = (Range<usize>, &'a Device);

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// Returns a leaf with some rows of a tensor of numbers.
fn leaf<const D: usize>(shape: [usize; D], factor: usize, (rows, device): Share<'_>) -> Tensor<D> {
    let numbers = (0..shape.iter().product()).map(|at| (at * factor % 23) as f32 / 16.0 - 0.7);
    let numbers = TensorData::new(numbers.collect::<Vec<_>>(), shape);
    let rows = Tensor::<D>::from_data(numbers, &Device::flex()).slice_dim(0, rows);
    Tensor::from_data(rows.into_data(), device).require_grad()
}

fn part((tokens, device): Share<'_>) -> Part {
    // The first expert has no row.
    let chosen: Vec<i32> = tokens.clone().map(|token| 1 + token as i32 % 2).collect();
    let chosen = TensorData::new(chosen, [tokens.len(), 1]);
    Part {
        x: leaf([TOKENS, HIDDEN], 13, (tokens.clone(), device)),
        indices: Tensor::from_data(chosen, &device.clone().inner()),
        routing: leaf([TOKENS, 1], 5, (tokens, device)),
    }
}

/// Returns the results, and the gradients of tokens, routing weights and experts' weights.
fn run(parts: &[Share<'_>], shards: &[Share<'_>]) -> [Vec<f32>; 4] {
    let weights = shards.iter().map(|shard| {
        let gate_up = leaf([EXPERTS, 2 * WIDTH, HIDDEN], 7, shard.clone());
        [gate_up, leaf([EXPERTS, HIDDEN, WIDTH], 11, shard.clone())]
    });
    let weights: Vec<[Tensor<3>; 2]> = weights.collect();
    let of_shard = |[gate_up, down]: &[Tensor<3>; 2]| {
        let [gate_up, down] = [gate_up, down].map(|weight| Projection::new(weight.clone()));
        Weights::packed(gate_up, down)
    };
    let of_shards: Vec<_> = weights.iter().map(of_shard).collect();
    let given: Vec<_> = parts.iter().cloned().map(part).collect();
    let results = experts::sharded(given.clone(), &of_shards, None, MoeExpertsKey::QWEN3);
    let first = parts[0].1;
    let losses = results.iter().map(|y| y.clone().square().sum());
    let losses = losses.map(|loss| loss.to_device(first));
    let gradients = losses.reduce(|all, one| all + one).unwrap().backward();
    let of = |leaves: Vec<&Tensor<2>>| {
        let found = leaves.into_iter().map(|leaf| leaf.grad(&gradients));
        found.flat_map(|found| read(found.unwrap())).collect()
    };
    let of_weights = weights.iter().flatten().map(|leaf| leaf.grad(&gradients));
    [
        results
            .into_iter()
            .flat_map(|y| read(y.without_autodiff()))
            .collect(),
        of(given.iter().map(|part| &part.x).collect()),
        of(given.iter().map(|part| &part.routing).collect()),
        of_weights.flat_map(|found| read(found.unwrap())).collect(),
    ]
}

/// Experts on both NPUs, with tokens on both, have the results and gradients of experts on the host.
#[test]
fn experts_on_two_npus_follow_the_host() {
    alone(&[], || {
        let host = Device::flex().autodiff();
        let devices = npu::devices().unwrap().into_iter();
        let npus: Vec<_> = devices.map(Device::autodiff).collect();
        let [first, second] = &npus[..] else { panic!() };
        // Gradients of weights are in the order of the shards.
        let expected = run(&[(0..TOKENS, &host)], &[(0..1, &host), (1..EXPERTS, &host)]);
        let found = run(
            &[(0..3, first), (3..TOKENS, second)],
            &[(0..1, first), (1..EXPERTS, second)],
        );
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.len(), expected.len());
            assert!(expected.iter().any(|one| *one != 0.0));
            for (found, expected) in found.iter().zip(expected) {
                // Sums of up to 8 terms of up to 16 in another order.
                assert!(
                    (found - expected).abs() <= 2e-5,
                    "{found} beside {expected}"
                );
            }
        }
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}
