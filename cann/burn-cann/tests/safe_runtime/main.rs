//! Tests of the safe runtime, its operators, and, with the feature `backend`, of Burn's backend over it.
//!
//! Whatever needs CANN is a [`common::Scenario`], a process of its own. Decisions and limits need none.

#[cfg(feature = "backend")]
mod backend_collective;
#[cfg(feature = "backend")]
mod backend_conformance;
#[cfg(feature = "backend")]
mod backend_rounding;
#[cfg(feature = "backend")]
mod backend_runtime;
mod base_attention;
mod base_attention_infer;
mod base_copy;
mod base_elementwise;
mod base_index;
mod base_matmul;
mod base_reduce;
mod base_training;
mod collective;
mod common;
#[cfg(feature = "backend")]
mod conformance;
mod descriptors;
mod diagnosis;
mod faults;
mod limits;
mod memory;
mod moe;
mod norm;
mod rotary;
mod runtime;
