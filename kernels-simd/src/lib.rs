//! The arithmetic of burn-kernels on CPUs. It knows slices, strides and types as values, not tensors.
//!
//! An operation is a module. Its functions take a [`View`] of each tensor, check that all go together, and return
//! [`Values`]. They panic if something does not fit: callers have checked what comes from outside.
//!
//! Every kernel works on rows of the last axis. It is written on `Lanes`, or as plain scalar code where the compiler
//! vectorises that. `run` compiles it for the widest SIMD that the machine has and spreads the rows over threads. Results
//! don't depend on the number of threads.

pub mod adam_w;
pub mod attention;
pub mod causal_conv;
pub mod cross_entropy;
pub mod gated_delta;
pub mod glu;
pub mod gradient_sum;
pub mod keys;
pub mod layer_norm;
pub mod linear;
pub mod linear_cross_entropy;
pub mod linear_divergence;
pub mod main_thread;
pub mod moe;
pub mod packed;
pub mod qk_norm_rope;
pub mod quantized;
pub mod rms_norm;
pub mod rope;
pub mod softcap;
pub mod threads;

mod activation;
mod awake;
mod element;
#[cfg(test)]
mod fixture;
mod lanes;
mod number;
mod output;
mod product;
mod real;
mod rows;
mod run;
mod scaled;
mod share;
mod sums;
mod total;
mod values;
mod view;

pub use element::Element;
pub use values::{SliceMut, Values};
pub use view::{DType, View};

pub(crate) use activation::Function;
pub(crate) use element::{is_half, with_type};
pub(crate) use lanes::{
    Blocks, Context, LANES, Lanes, Read, Terms, Whole, block, load_blocks, sum_of_terms,
};
pub(crate) use number::Number;
pub(crate) use output::{Columns, Output, Pairs, Row, Scratch, Unwritten};
pub(crate) use real::Real;
pub(crate) use rows::{RowIter, Rows, prefetch};
pub(crate) use run::{CHUNK, Kernel, PARALLEL, run, run_plain};
pub(crate) use scaled::{RowsOut, write_scaled};
pub(crate) use sums::{sum, sum_of, sum_of_squares, sums, sums_of};
pub(crate) use total::total;
