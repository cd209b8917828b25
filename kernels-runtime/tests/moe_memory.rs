//! Tests the memory of forward and backward through experts. It is one test, because the allocator counts the whole
//! process.

#![cfg(feature = "cpu")]

use burn::tensor::{DType, Device, Distribution, Int, Tensor, TensorData};
use kernels_runtime::ops::moe::experts::{Projection, Weights, fused, reference};
use kernels_runtime::semantics::MoeExpertsKey;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with counters of the bytes in use and of their maximum.
struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller fulfils the contract of `dealloc`; `place` came from `System`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

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

/// Returns the largest number of bytes in use during `run` beyond those before.
fn peak<T>(run: impl FnOnce() -> T) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    drop(run());
    PEAK.load(Relaxed) - before
}

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
