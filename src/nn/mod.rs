//! Burn's own layers with fused kernels.
//!
//! A layer of another crate cannot be annotated. These layers replace Burn's with one changed line: the type of the
//! field, or `.into()` where the layer is made ([`LayerNorm`] is made of a configuration). Parameters keep Burn's names,
//! so a record of one layer loads into the other.
//!
//! `burn::nn::MultiHeadAttention` has no counterpart: there is no fused attention yet.

mod cross_entropy;
mod layer_norm;
mod rms_norm;
mod rotary;
mod swiglu;

pub use cross_entropy::CrossEntropyLoss;
pub use layer_norm::LayerNorm;
pub use rms_norm::RmsNorm;
pub use rotary::RotaryEncoding;
pub use swiglu::SwiGlu;
