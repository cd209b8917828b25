//! The operations, one folder each, with one file per device.
//!
//! `reference` is the definition, composed of plain tensor operations that run on every Burn backend.
//! `fused` runs a kernel and returns an error where none can run. Annotated models use neither
//! directly: their sites decide (see [`crate::dispatch`]).

// Without a backend, nothing calls the code that kernels and backends use.
#![cfg_attr(not(feature = "cpu"), allow(dead_code))]

pub mod adam_w;
pub mod add_rms_norm;
pub mod attention;
pub mod causal_conv1d;
pub mod cross_entropy;
pub mod gated_delta_rule;
pub mod glu;
pub mod layer_norm;
pub mod linear;
pub mod linear_cross_entropy;
pub mod linear_divergence;
pub mod moe;
pub mod qk_norm_rope;
pub mod quantized_embedding;
pub mod quantized_linear;
pub mod quantized_linear_cross_entropy;
pub mod quantized_linear_int8;
pub mod rms_norm;
pub mod rope;
pub mod softcap;

mod call;
mod define;
// Third-party kernels are made from this module, too.
pub(crate) mod derived;
pub mod fused;
mod joined;
mod list;
mod mean;
pub(crate) mod operands;
pub(crate) mod recording;
mod sequences;
mod zero;

pub use derived::with_gradients;
pub use operands::{Described, Mismatch};

pub(crate) use crate::semantics::compute_dtype;
pub(crate) use call::{implementation, reshape, same_dtype_as};
pub(crate) use list::operations;
pub(crate) use mean::mean;
