#[path = "../acme.rs"]
mod acme;

use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel(acme::soft_cat)]
fn cap(x: Tensor<2>, cap: f64) -> Tensor<2> {
    (x / cap).tanh() * cap
}

fn main() {}
