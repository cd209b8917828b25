//! Tests the memory that loading takes. It is one test, because the allocator counts the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn::tensor::{Device, FloatDType};
use kernels_models::{ExpertStorage, ModelConfig, Qwen3MoeSize, Qwen3Size, load, save_with};

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

/// The number of bytes that a piece of a tensor and the rest of a load may take beside the model.
const BESIDE: usize = 6 << 20;

/// The experts of one layer are nearly all of this model, 36 MiB in f32. No layout of the checkpoint may need a second
/// copy of them, in the same dtype or in another.
#[test]
fn experts_are_never_held_twice() {
    let config = ModelConfig::qwen3_moe(Qwen3MoeSize {
        dense: Qwen3Size {
            vocab_size: 64,
            hidden_size: 256,
            intermediate_size: 64,
            num_hidden_layers: 1,
            num_attention_heads: 2,
            num_key_value_heads: 2,
            head_dim: 32,
            max_position_embeddings: 64,
            tie_word_embeddings: true,
        },
        num_experts: 48,
        num_experts_per_tok: 2,
        moe_intermediate_size: 256,
        router_aux_loss_coef: 0.0,
    })
    .unwrap();
    let device = Device::default();
    let parent = tempfile::tempdir().unwrap();
    for experts in [ExpertStorage::PerExpert, ExpertStorage::Stacked] {
        let target = parent.path().join(format!("{experts:?}"));
        let model = config.init(&device);
        save_with(&model, &config, &target, None, experts).unwrap();
        drop(model);
        for (dtype, bytes) in [(FloatDType::F32, 36 << 20), (FloatDType::BF16, 18 << 20)] {
            let before = LIVE.load(Relaxed);
            PEAK.store(before, Relaxed);
            let model = load(&target, &device, dtype).unwrap();
            let (after, peak) = (LIVE.load(Relaxed) - before, PEAK.load(Relaxed) - before);
            assert!(after > bytes, "{experts:?}, {dtype:?}: {after}");
            assert!(
                peak < after + BESIDE,
                "{experts:?}, {dtype:?}: {peak} bytes for a model of {after}"
            );
            drop(model);
        }
    }
}
