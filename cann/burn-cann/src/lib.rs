//! A safe runtime for CANN, the software of Ascend NPUs.
//!
//! It offers devices, streams, events, memory and CANN's operators over the functions that [`cann_sys`] finds at run
//! time. Nothing is linked: on a machine without a toolkit, [`Cann::load`] returns an [`Error`] that says what is
//! missing.
//!
//! ```no_run
//! use burn_cann::{Cann, Device, Tensor, ops};
//!
//! # fn main() -> burn_cann::Result<()> {
//! let cann = Cann::load()?;
//! let device = Device::open(&cann, 0)?;
//! let stream = device.stream()?;
//! let x = Tensor::from_slice(&stream, &[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
//! let gamma = Tensor::from_slice(&stream, &[1.0f32, 0.5], [2])?;
//! let normalised = ops::rms_norm::rms_norm(&stream, &x, &gamma, 1e-6)?;
//! println!("{:?}", normalised.y.to_vec::<f32>(&stream)?);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees for safe code
//!
//! * **Threads.** CANN has a current device per thread. Every call of this crate sets its own device first, so any
//!   thread may use anything.
//! * **Order.** Calls return before the device has done the work. Memory that the work needs lives until the work is
//!   done. Work on the same memory runs in the order in which the host asked for it, on whatever streams: see
//!   [`Memory`].
//! * **Lifetimes.** Every handle keeps its owner alive, in the order tensor → memory → stream → device → CANN, and is
//!   freed when it is dropped. CANN itself ends only when [`Cann::finalise`] is called.
//!
//!   ```compile_fail,E0382
//!   # fn gone(stream: burn_cann::Stream) -> burn_cann::Result<()> {
//!   drop(stream);
//!   stream.synchronise()?;
//!   # Ok(())
//!   # }
//!   ```
//! * **Calls in two phases.** Phase two takes the call by value: see [`Prepared`].
//! * **Buffers of copies.** An asynchronous copy owns its buffer until it is done:
//!
//!   ```compile_fail,E0382
//!   # use burn_cann::{Pinned, Stream, Tensor};
//!   # fn early(tensor: Tensor, stream: Stream, mut buffer: Pinned<f32>) -> burn_cann::Result<()> {
//!   let _upload = tensor.upload(&stream, buffer)?;
//!   buffer[0] = 1.0;
//!   # Ok(())
//!   # }
//!   ```
//!
//! # Operators
//!
//! [`ops`] has them. Operands that CANN would refuse are refused before the call, with a reason
//! ([`Refusal`](ops::Refusal)) that a dispatcher can act on.
//!
//! # A backend for Burn
//!
//! With the feature `backend`, the module `backend` implements Burn's backend traits over this runtime.
//!
//! # Tracing
//!
//! Each call of CANN is a span of [`tracing`] at level `TRACE` with the target `burn_cann`. The span is called `cann`
//! and records the function's name.
//!
//! # Where this has run
//!
//! This crate has run on this project's emulator of CANN, which was written from the same public documentation. It has
//! not run on an Ascend device, and nothing is claimed about its speed.
//!
//! Kept executors rest on assumptions that no device has confirmed yet: executors may move between threads, operands
//! are numbered in the order of the signature with inputs before outputs, and addresses may change as soon as phase
//! two has returned. [`Device::keep_executors`]`(0)` turns them off.

#[cfg(feature = "backend")]
pub mod backend;
mod call;
mod cann;
mod code;
mod collective;
pub mod descriptor;
mod device;
pub mod diagnosis;
mod dtype;
mod error;
mod error_text;
mod event;
mod foreign;
mod layout;
mod memory;
pub mod ops;
mod soc;
mod stream;
mod tensor;
mod transfer;
mod version;

pub use call::{ExecutorStatistics, Prepared, Scalar};
pub use cann::Cann;
pub use code::Code;
pub use collective::{Group, Membership};
pub use device::Device;
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use event::Event;
pub use foreign::Handles;
pub use layout::{Layout, LayoutError};
pub use memory::{Memory, Pinned, PinnedStatistics, Statistics};
pub use soc::{Family, Platform, Soc};
pub use stream::Stream;
pub use tensor::{Spec, Tensor};
pub use transfer::{Download, Upload};
pub use version::Version;
