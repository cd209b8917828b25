//! Code that the CPU kernels share: element types, rows of strided tensors, outputs and threads.
//!
//! Every kernel works on rows of the last axis. It is written on [`Lanes`], or as plain scalar code where the compiler
//! vectorises that. [`run`](run()) compiles it for the widest SIMD that the machine has and spreads the rows over
//! threads. Results don't depend on the number of threads.

pub(crate) mod activation;
pub(crate) mod awake;
mod element;
mod gradient_sum;
pub(crate) mod lanes;
pub(crate) mod main_thread;
mod number;
mod output;
pub(crate) mod product;
mod real;
mod rows;
mod run;
mod scaled;
pub(crate) mod share;
mod total;

pub(crate) use activation::{Function, with_function};
pub(crate) use element::{Element, dispatch_dtype, is_half};
pub(crate) use gradient_sum::gradient_sum;
pub(crate) use lanes::{Blocks, Context, LANES, Lanes, Read, Terms, Whole, block, sum_of_terms};
pub(crate) use number::Number;
pub(crate) use output::{Columns, Output, Pairs, Row, Scratch, Unwritten};
pub(crate) use real::{Real, sum, sum_of, sum_of_squares, sums, sums_of};
pub(crate) use rows::{RowIter, Rows, contiguous, prefetch};
pub(crate) use run::{CHUNK, Kernel, PARALLEL, run, run_plain};
pub(crate) use scaled::{RowsOut, write_scaled};
pub(crate) use total::total;

use crate::device::DeviceKinds;
use crate::registry::{CapabilityRange, FloatType, Gradient, Implementation, Launch};

/// The fields that all CPU implementations have in common. Each implementation adds the rest.
pub(crate) const BASE: Implementation = Implementation {
    device: DeviceKinds::CPU,
    name: "cpu-simd",
    dtypes: &FloatType::ALL,
    gradient: Gradient::Kernel,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    accepts: |_| false,
    limits: None,
    launch: Launch::Custom,
};
