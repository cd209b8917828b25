//! Tests the memory of forward and backward through experts.

use crate::counting::{alone, peak};
use burn::tensor::{DType, Device, Distribution, Int, Tensor, TensorData};
use kernels_runtime::ops::moe::experts::{Projection, Weights, fused, reference};
use kernels_runtime::semantics::MoeExpertsKey;

const HIDDEN: usize = 256;
const WIDTH: usize = 128;
const EXPERTS: usize = 8;

/// The number of tokens, the number of experts for each, and whether all experts are used equally.
const CASES: [(usize, usize, bool); 15] = [
    (64, 1, false),
    (64, 2, false),
    (128, 1, false),
    (128, 2, false),
    (256, 1, false),
    (256, 2, false),
    (256, 2, true),
    (512, 1, false),
    (512, 2, true),
    (512, 2, false),
    (512, 4, false),
    (1024, 1, false),
    (1024, 2, false),
    (2048, 2, true),
    (2048, 2, false),
];

fn random<const D: usize>(shape: [usize; D], dtype: DType) -> Tensor<D> {
    Tensor::random(
        shape,
        Distribution::Uniform(-0.5, 0.5),
        (&Device::flex(), dtype),
    )
}

/// Returns the experts of every token: all equally often, or the same for all tokens.
fn indices(tokens: usize, choices: usize, alike: bool) -> Tensor<2, Int> {
    let of = |slot: usize| {
        if alike {
            slot % EXPERTS
        } else {
            slot % choices
        }
    };
    let values: Vec<i64> = (0..tokens * choices).map(|slot| of(slot) as i64).collect();
    Tensor::from_data(TensorData::new(values, [tokens, choices]), &Device::flex())
}

/// Forward and backward take no more memory than plain operations, for any choice of experts. They take half as much
/// with many tokens or experts, and nearly as much if a few hundred tokens all go to one expert.
#[test]
fn experts_take_no_more_memory_than_their_reference() {
    let _alone = alone();
    let mut compared = 0;
    for (tokens, choices, alike) in CASES {
        for dtype in [DType::F32, DType::BF16] {
            // A model keeps its weights, so they exist before and after.
            let x = random([tokens, HIDDEN], dtype).autodiff().require_grad();
            let routing = random([tokens, choices], dtype).autodiff().require_grad();
            let weight = |shape| random::<3>(shape, dtype).autodiff().require_grad();
            let gate_up = weight([EXPERTS, 2 * WIDTH, HIDDEN]);
            let down = weight([EXPERTS, HIDDEN, WIDTH]);
            let weights = Weights::packed(Projection::new(gate_up), Projection::new(down));
            let indices = indices(tokens, choices, alike);
            let operands = || (x.clone(), indices.clone(), routing.clone(), weights.clone());
            let by_kernel = || {
                let (x, indices, routing, weights) = operands();
                let y = fused(x, indices, routing, weights, None, MoeExpertsKey::QWEN3);
                y.expect("the kernel runs").sum().backward()
            };
            let by_hand = || {
                let (x, indices, routing, weights) = operands();
                reference(x, indices, routing, weights, None, MoeExpertsKey::QWEN3)
                    .sum()
                    .backward()
            };
            // The first call creates threads and their buffers.
            drop(by_kernel());
            let [kernel, plain] = [peak(by_kernel), peak(by_hand)];
            println!(
                "{dtype:?} {tokens} tokens, {choices} of {EXPERTS}: {kernel} and {plain} bytes"
            );
            assert!(
                kernel <= plain,
                "{dtype:?}, {tokens} tokens, {choices} of {EXPERTS} experts: {kernel} bytes by the \
                 kernel, {plain} by plain operations"
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 2 * CASES.len());
}
