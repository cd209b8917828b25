#[path = "../acme.rs"]
mod acme;

use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel(acme::soft_cap, x = logit)]
fn cap(logits: Tensor<2>, cap: f64) -> Tensor<2> {
    (logits / cap).tanh() * cap
}

fn main() {}
