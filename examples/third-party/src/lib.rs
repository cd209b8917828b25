//! A fused kernel for burn-kernels, defined outside of it: one module a kernel.

pub mod soft_cap;
