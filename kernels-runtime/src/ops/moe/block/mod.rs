//! Sparse blocks: a router, the experts that it chooses, and an expert that processes every token. The kernel of a
//! block is the kernel of its router.

pub(crate) mod key;
pub(crate) mod site;

pub use super::router::Launch;
pub(crate) use super::router::cases;
#[cfg(feature = "remote")]
pub(crate) use super::router::remote;
