//! Times the kernel and its reference: `cargo bench --bench soft_cap`.

use acme_kernels::soft_cap::{KERNEL, Operands};
use burn::tensor::{Device, Distribution, Tensor};
use burn_kernels::kernel::Operands as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() {
    let device = Device::flex();
    for shape in [[64, 1024], [64, 32 * 1024]] {
        let x = Tensor::<2>::random(shape, Distribution::Normal(0.0, 30.0), &device);
        let operands = Operands { x, cap: 30.0 };
        // The two take turns, so that a machine that slows down slows both.
        let mut times: Vec<[Duration; 2]> = (0..30)
            .map(|_| {
                let (fused, plain) = (operands.clone(), operands.clone());
                [
                    time(|| fused.launch(&KERNEL.implementations[0])),
                    time(|| plain.reference()),
                ]
            })
            .collect();
        times.sort_by_key(|[fused, _]| *fused);
        let [fused, reference] = times[times.len() / 2];
        println!("{shape:?}: {fused:.1?}, its reference {reference:.1?}");
    }
}

fn time<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}
