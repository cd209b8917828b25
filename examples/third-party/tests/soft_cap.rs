//! The kernel beside its reference in f64, forward and gradient, and at a site.

use acme_kernels::soft_cap::{KERNEL, Operands};
use burn::tensor::{Device, Distribution, Tensor};
use burn_kernels::kernel;

fn check<const D: usize>(shape: [usize; D], spread: f64) {
    let device = Device::flex().autodiff();
    let x = Tensor::<D>::random(shape, Distribution::Normal(0.0, spread), &device);
    for x in [x.clone(), x.swap_dims(D - 1, D - 2)] {
        let operands = Operands { x, cap: 30.0 };
        let worst = kernel::verify(&KERNEL.implementations[0], &operands);
        assert!(worst.is_ok(), "{shape:?}: {}", worst.unwrap_err());
    }
}

#[test]
fn the_kernel_is_its_reference() {
    // Small and large beside the cap, odd shapes, one element, none at all, strided. Where x is
    // beyond ten caps the reference's gradient, 1 − tanh², keeps no digits even in f64.
    for spread in [0.1, 30.0, 60.0] {
        check([17, 33], spread);
        check([2, 3, 8], spread);
        check([1, 1], spread);
        check([0, 5], spread);
    }
}
