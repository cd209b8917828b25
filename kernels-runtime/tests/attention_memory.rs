//! Tests the memory of attention. It is one test, because the allocator counts the whole process.

#![cfg(feature = "cpu")]

use burn::tensor::{DType, Device, Distribution, Tensor};
use kernels_runtime::ops::attention::{Inputs, Lengths, Settings, fused};
use kernels_runtime::semantics::AttentionKey;
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

const HEADS: usize = 8;
const TOKENS: usize = 2048;
const WIDTH: usize = 64;
/// The memory that a thread may take beside tensors.
const THREAD: usize = 4 << 20;

/// Returns the largest number of bytes in use during `run` beyond those before.
fn peak<T>(run: impl FnOnce() -> T) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    drop(run());
    PEAK.load(Relaxed) - before
}

/// The scores of all pairs would take 128 MiB in f32. A pass takes its outputs and 4 MiB a thread at most.
#[test]
fn scores_of_all_pairs_are_never_held() {
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
