//! Tests a program that depends on a crate of kernels and names it nowhere: the compiler does not link the crate. A test of
//! `examples/third-party`, whose own package it depends on.

use burn_kernels::policy::Policy;
use burn_kernels::registry;

#[test]
fn a_crate_that_is_named_nowhere_is_not_linked() {
    burn_kernels::init().unwrap();
    assert!(registry::kernel("npu_fused_rope").is_some());
    assert!(registry::kernel("acme_soft_cap").is_none());
    let error = "all,+acme_soft_cap".parse::<Policy>().unwrap_err();
    assert!(error.to_string().contains("acme_soft_cap"), "{error}");
}
