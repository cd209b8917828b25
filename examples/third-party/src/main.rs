//! Annotates a function with the kernel's path, runs it, switches the kernel off, and prints the report.

use burn::tensor::{Device, Tensor};
use burn_kernels::policy::Policy;
use burn_kernels::{fused_kernel, policy, report::report};
// Links the crate. The attribute's path below does this too; a kernel that only replaces another has no such path.
use acme_kernels as _;

// This body runs where the kernel does not. The first call compares the two.
#[fused_kernel(acme_kernels::soft_cap)]
fn cap_logits(x: Tensor<2>, cap: f64) -> Tensor<2> {
    (x / cap).tanh() * cap
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    burn_kernels::init()?;
    let device = Device::flex().autodiff();
    let logits = Tensor::<2>::from_floats([[-80.0, 0.5], [7.0, 40.0]], &device).require_grad();

    let capped = cap_logits(logits.clone(), 30.0);
    let gradient = logits.grad(&capped.clone().sum().backward());
    println!("{capped}\n{}", gradient.ok_or("no gradient")?);
    let _off = policy::scope(Policy::auto().disable(acme_kernels::soft_cap::ID)?);
    cap_logits(logits, 30.0);
    println!("{}", report());
    Ok(())
}
