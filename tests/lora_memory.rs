//! Tests the memory that a linear layer with an adapter takes. It is one test, because the allocator counts the whole
//! process.

use burn::module::{Lora, Module};
use burn::nn::LinearConfig;
use burn::tensor::{Device, Tensor};
use burn_kernels::nn::Linear;
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

/// Returns the largest number of bytes in use during `run` beyond those before.
fn peak(run: impl FnOnce()) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    run();
    PEAK.load(Relaxed) - before
}

const INPUTS: usize = 2048;
const OUTPUTS: usize = 1536;
const WEIGHT: usize = INPUTS * OUTPUTS * size_of::<f32>();

/// Neither pass makes a tensor of the size of the weight, which Burn's own layer does.
#[test]
fn an_adapter_has_no_weight_of_its_own() {
    let device = Device::flex().autodiff();
    let theirs = LinearConfig::new(INPUTS, OUTPUTS).init(&device);
    let theirs = theirs.apply_lora(Lora::new(8, 16.0));
    let ours = Linear::from(theirs.clone());
    let x = Tensor::<2>::ones([16, INPUTS], &device).require_grad();
    let train = |forward: &dyn Fn(Tensor<2>) -> Tensor<2>| {
        drop(forward(x.clone()).sum().backward());
    };
    let with_kernel = || train(&|x| ours.forward(x));
    // A first call is compared with its reference, which takes memory of its own.
    with_kernel();
    let taken = peak(with_kernel);
    assert!(taken < WEIGHT / 4, "{taken} of {WEIGHT} bytes");
    let taken = peak(|| train(&|x| theirs.forward(x)));
    assert!(taken > WEIGHT, "{taken} of {WEIGHT} bytes");
}
