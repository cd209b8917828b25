//! Burn's own layers with fused kernels.
//!
//! A layer of another crate cannot be annotated. These layers replace Burn's with one changed line: the type of the
//! field, or `.into()` where the layer is made ([`LayerNorm`] is made of a configuration). Parameters keep Burn's names,
//! so a record of one layer loads into the other.
//!
//! [`KvCache`] keeps the keys and values of attention from one step of decoding to the next.

mod cross_entropy;
mod embedding;
mod kv_cache;
mod layer_norm;
mod linear;
mod low_rank;
mod multi_head_attention;
mod nowhere;
mod quantized;
mod quantized_experts;
mod quantized_losses;
mod rms_norm;
mod rotary;
mod swiglu;

pub use cross_entropy::CrossEntropyLoss;
pub use embedding::Embedding;
pub use kernels_runtime::low_rank::LowRankExperts;
pub use kernels_runtime::quantized_experts::{
    QuantizedExperts, StoredExperts, apply_low_rank_experts,
};
pub use kv_cache::{CacheError, KvCache};
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use low_rank::LowRank;
pub use multi_head_attention::{MhaInput, MultiHeadAttention};
pub use quantized::{Quantize, Quantized, apply_low_rank};
pub use quantized_experts::QuantizeExperts;
pub use rms_norm::RmsNorm;
pub use rotary::RotaryEncoding;
pub use swiglu::SwiGlu;
