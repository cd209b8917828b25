//! Burn's own layers with fused kernels.
//!
//! A layer of another crate cannot be annotated. These layers replace Burn's with one changed line: the type of the
//! field, or `.into()` where the layer is made. Parameters keep Burn's names, so a record of one layer loads into the
//! other.
//!
//! `burn::nn::MultiHeadAttention` has no counterpart: there is no fused attention yet.

mod rms_norm;
mod rotary;
mod swiglu;

pub use rms_norm::RmsNorm;
pub use rotary::RotaryEncoding;
pub use swiglu::SwiGlu;
