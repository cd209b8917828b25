//! Tests the memory of attention.

use crate::counting::{alone, peak};
use burn::tensor::{DType, Device, Distribution, Tensor};
use kernels_runtime::ops::attention::{Inputs, Lengths, Settings, fused};
use kernels_runtime::semantics::AttentionKey;

const HEADS: usize = 8;
const TOKENS: usize = 2048;
const WIDTH: usize = 64;
/// The memory that a thread may take beside tensors.
const THREAD: usize = 4 << 20;

/// The scores of all pairs would take 128 MiB in f32. A pass takes its outputs and 4 MiB a thread at most.
#[test]
fn scores_of_all_pairs_are_never_held() {
    let _alone = alone();
    let threads = rayon::current_num_threads();
    for dtype in [DType::F32, DType::BF16] {
        let device = Device::flex();
        let tensors = [(); 4].map(|()| -> Tensor<4> {
            let numbers = Distribution::Uniform(-0.5, 0.5);
            Tensor::random([1, HEADS, TOKENS, WIDTH], numbers, (&device, dtype))
        });
        let attend = |[q, k, v]: [Tensor<4>; 3]| {
            let inputs = Inputs {
                q,
                k,
                v,
                bias: None,
                sinks: None,
                lengths: Lengths::default(),
            };
            fused(inputs, Settings::default(), AttentionKey::CAUSAL).expect("a kernel")
        };
        let [q, k, v, dy] = tensors;
        let inference = || attend([q.clone(), k.clone(), v.clone()]);
        let training = || {
            let leaves = [&q, &k, &v].map(|tensor| tensor.clone().autodiff().require_grad());
            let y = attend(leaves);
            (y * dy.clone().autodiff()).sum().backward()
        };
        // The first calls create threads and their buffers.
        drop(inference());
        drop(training());
        let tensor = HEADS * TOKENS * WIDTH * dtype.size();
        let statistics = HEADS * TOKENS * 4;
        let beside = threads * THREAD + statistics;
        // The result, its product with `dy`, that product's gradient, and the gradients of three tensors.
        for (pass, tensors, peak) in [
            ("inference", 1, peak(inference)),
            ("training", 6, peak(training)),
        ] {
            println!(
                "{dtype:?}, {pass}: {peak} bytes, {} beside tensors",
                peak - tensor
            );
            assert!(
                peak <= tensors * tensor + beside,
                "{dtype:?}, {pass}: {peak}"
            );
        }
    }
}
