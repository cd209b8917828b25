//! Tests of kernels on NPUs, with the emulator of CANN: operations, served devices, and the program.
//!
//! Whatever needs CANN is in a process of its own, a [`npu::common::Scenario`] or a run of the program.

#[path = "../../../../tests/comparison/mod.rs"]
mod comparison;
mod comparisons;
#[path = "../../../../models/benches/messages/mod.rs"]
mod messages;
#[path = "../../../../models/tests/common/mod.rs"]
mod models;
mod npu;
mod operations;
#[cfg(feature = "packages")]
mod packages;
#[path = "../../../../cli/tests/page/mod.rs"]
mod page;
mod passes;
mod program;
#[path = "../../../../kernels-serving/tests/strangers/mod.rs"]
mod strangers;
#[path = "../../../../kernels-runtime/tests/support/mod.rs"]
mod support;
