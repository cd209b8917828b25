//! Products with quantised weights have no tensor of the weight's size in floats. Counts every allocation of the process, so
//! that nothing may run beside it.

use kernels_quant::{BnbInt8, Dtype, Part, QuantizedWeight};
use kernels_simd::cross_entropy::Settings;
use kernels_simd::linear_cross_entropy::of_quantised;
use kernels_simd::quantized::{forward, gradient_of_x, rows_of};
use kernels_simd::{DType, View};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is that of the system's allocator, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller upholds the requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the requirements, and the memory is the system's.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the most memory that a call had beside what was there before.
fn most(call: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    call();
    MOST.load(Relaxed) - before
}

#[test]
fn no_product_holds_the_weight_in_floats() {
    let shape @ [outputs, inputs] = [4096, 2048];
    let codes: Vec<u8> = (0..outputs * inputs).map(|at| at as u8).collect();
    let scales: Vec<u8> = (0..outputs).flat_map(|_| 0.5_f32.to_le_bytes()).collect();
    let parts = [
        ("weight", Part::new(Dtype::I8, &shape, &codes)),
        ("SCB", Part::new(Dtype::F32, &shape[..1], &scales)),
    ];
    let weight = QuantizedWeight::new(BnbInt8, shape, parts).unwrap();
    let in_floats = size_of::<f32>() * outputs * inputs;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2);
    pool.build().unwrap().install(|| {
        for count in [1, 40] {
            let (x, dy) = (
                vec![0.5_f32; count * inputs],
                vec![0.5_f32; count * outputs],
            );
            let forward = most(|| {
                forward(&View::whole(&x, &[count, inputs]), &weight);
            });
            let backward = most(|| {
                gradient_of_x(&View::whole(&dy, &[count, outputs]), &weight);
            });
            // Panels of a megabyte for each thread, and one of four megabytes, packed once more by a product.
            assert!(forward < in_floats / 4, "{count} rows: {forward}");
            assert!(backward < in_floats * 3 / 8, "{count} rows: {backward}");
            let targets: Vec<_> = (0..count).map(Some).collect();
            let settings = Settings {
                label_smoothing: 0.0,
                cap: None,
                z_loss: 0.0,
            };
            let losses = most(|| {
                let hidden = View::whole(&x, &[count, inputs]);
                of_quantised(&hidden, &weight, &targets, settings, true);
            });
            // Two megabytes for each thread, copied once more by a product, and shares of the gradient.
            assert!(losses < in_floats / 2, "{count} rows: {losses}");
            let rows: Vec<usize> = (0..count).collect();
            let of_table = most(|| {
                rows_of(&weight, &rows, DType::F32);
            });
            assert!(of_table < in_floats / 16, "{count} rows: {of_table}");
        }
    });
}
