//! The kernels and parts that operations share.

#[path = "../../../kernels-runtime/src/gpu/elements.rs"]
pub mod elements;
#[path = "../../../kernels-runtime/src/gpu/parts.rs"]
pub mod parts;
#[path = "../../../kernels-runtime/src/gpu/sum.rs"]
pub mod sum;
