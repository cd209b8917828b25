//! A sparse block: a router, the experts that it chooses, and an expert that every token goes to. The block's
//! kernel is its router's.

pub(crate) mod key;
pub(crate) mod site;

pub use super::router::Launch;
pub(crate) use super::router::cases;
#[cfg(feature = "remote")]
pub(crate) use super::router::{RouterKernel, remote};
