//! A fused kernel for burn-kernels, defined in a crate of its own. Each module holds one kernel.

pub mod soft_cap;
