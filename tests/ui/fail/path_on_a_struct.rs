#[path = "../acme.rs"]
mod acme;

use burn_kernels::fused_kernel;

#[fused_kernel(acme::soft_cap, cap = limit)]
struct Head {
    limit: f64,
}

fn main() {}
