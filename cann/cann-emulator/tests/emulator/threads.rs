//! Tests that results do not depend on the number of threads.

use crate::common::*;
use std::num::NonZero;

use cann_emulator::abi::activation::*;
use cann_emulator::abi::matmul::*;

/// Returns the results of a product and of SwiGLU, both long enough to be shared.
fn results(threads: usize) -> [Vec<f32>; 2] {
    let _session = Session::with(Config {
        threads: NonZero::new(threads).expect("not zero"),
        ..Config::default()
    });
    let x = Tensor::floats(F32, &[700, 300], &noise(210_000, 1));
    let w = Tensor::floats(F32, &[300, 200], &noise(60_000, 2));
    let product = Tensor::empty(F32, &[700, 200]);
    let (left, right, out) = (x.handle, w.handle, product.handle);
    call!(aclnnMatmul: left, right, out, 0).expect("documented");
    let gated = Tensor::empty(F32, &[700, 150]);
    let out = gated.handle;
    call!(aclnnSwiGlu: left, -1, out).expect("documented");
    [product.read(), gated.read()]
}

#[test]
fn one_thread_and_several_compute_the_same_bits() {
    let bits = |threads| {
        results(threads).map(|values| values.into_iter().map(f32::to_bits).collect::<Vec<_>>())
    };
    let alone = bits(1);
    for threads in [2, 3, 7] {
        assert!(bits(threads) == alone, "{threads} threads");
    }
}
