//! A safe runtime for CANN, the software of Ascend NPUs.
//!
//! Devices, streams, events, memory and CANN's fused operators, over the functions that
//! [`cann_sys`] finds at run time: nothing is linked, and a machine without a toolkit gets an
//! [`Error`] that says what is missing.
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
//! # What safe code can't get wrong
//!
//! * **Threads.** CANN's current device is per thread; every call here sets its own first.
//! * **Time.** Calls return before the device has worked. What the work needs lives until it is done, and
//!   work on the same memory keeps the order in which it was asked for, on whatever streams: see
//!   [`Memory`].
//! * **Ends.** Everything is freed by its owner. A stream lives as long as something refers to it, a device
//!   as long as anything of it; CANN itself ends only when [`Cann::finalise`] is called.
//!
//!   ```compile_fail,E0382
//!   # fn gone(stream: burn_cann::Stream) -> burn_cann::Result<()> {
//!   drop(stream);
//!   stream.synchronise()?;
//!   # Ok(())
//!   # }
//!   ```
//! * **Calls in two phases.** See [`Prepared`]: phase two takes the call by value.
//! * **Buffers under copy.** An asynchronous copy owns its buffer until it is done:
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
//! See [`ops`]. What CANN would refuse is refused before the call, with a reason
//! ([`Refusal`](ops::Refusal)) that a dispatcher can act on.
//!
//! # A backend for Burn
//!
//! With the feature `backend`, the module `backend` implements Burn's backend traits.
//!
//! # Calls are traced
//!
//! Each call of CANN is a span of [`tracing`] at level `TRACE`, target `burn_cann`, named `cann` with the
//! function's name.
//!
//! # What this was run on
//!
//! On this project's emulator of CANN, which was written from the same public documentation. Nothing was
//! run on an Ascend device, and nothing here is said about speed. In particular unproven on one is what is
//! assumed of executors that are kept: that they may move between threads, that operands are numbered in
//! the order of the signature, inputs before outputs, and that addresses may change as soon as phase two has
//! returned. [`Device::keep_executors`]`(0)` keeps none.

#[cfg(feature = "backend")]
pub mod backend;
mod call;
mod cann;
mod code;
pub mod descriptor;
mod device;
pub mod diagnosis;
mod dtype;
mod error;
mod error_text;
mod event;
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
pub use device::Device;
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use event::Event;
pub use layout::{Layout, LayoutError};
pub use memory::{Memory, Pinned, PinnedStatistics, Statistics};
pub use soc::{Family, Platform, Soc};
pub use stream::Stream;
pub use tensor::{Spec, Tensor};
pub use transfer::{Download, Upload};
pub use version::Version;
