//! A fused kernel for burn-kernels, defined in a crate of its own. Each module holds one kernel.
//!
//! The compiler links only crates that a program names. The path in an attribute is enough. A program that runs a kernel
//! by a mapping alone, or one that replaces a kernel of another crate, needs `use acme_kernels as _;`.

pub mod soft_cap;
