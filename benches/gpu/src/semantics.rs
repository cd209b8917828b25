//! The names under which kernels and keys find each other in `kernels-runtime`.

pub use crate::ops::cross_entropy::key::*;
pub use crate::ops::glu::key::*;
pub use crate::ops::moe::router::key::*;
pub use crate::ops::rms_norm::key::*;

/// The rules for dtypes, which no kernel needs.
pub trait Dtypes {}
