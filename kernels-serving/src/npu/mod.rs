//! Ascend NPUs as ordinary Burn devices.
//!
//! ```no_run
//! # extern crate kernels_serving as burn_kernels;
//! use burn::tensor::Tensor;
//! use burn_kernels::npu;
//!
//! # fn main() -> Result<(), npu::DeviceError> {
//! let device = npu::device(0)?;
//! let x = Tensor::<2>::ones([2, 3], &device);
//! println!("{x}");
//! # Ok(())
//! # }
//! ```
//!
//! Burn's list of backends is closed. The NPU's backend ([`burn_cann::backend`]) therefore runs behind a
//! [server](crate::remote) in this process, on loopback, with a random token that stays in the process. The server
//! starts with the first device that is requested and ends with the process, or with [`close`]. Operations are sent
//! over a socket, in order and without waiting. Only reads wait. The documentation of [`remote`](crate::remote) on
//! sessions and errors applies.
//!
//! [`burn_cann::backend::ops`] documents which operations run on the NPU and which on the host. [`fallbacks`] counts
//! the latter, and `BURN_CANN_FALLBACK=deny` makes them errors.
//!
//! Data of 1 GiB and more crosses the socket only in slices (see [`remote`](crate::remote)). Tensors on the device may
//! have any size.
//!
//! A child process that a program forks after it requested a device can't use the device, because a fork copies neither
//! the server's threads nor CANN's state.
//!
//! [`kernels_runtime::npu`] documents how kernels use CANN's operators, and their precision. None of this was run on an
//! Ascend device, only on this project's emulator of CANN.

mod deterministic;
mod device;
mod host;

pub use burn_cann::backend::{Fallback, fallbacks, reset_fallbacks, set_fallback};
pub use device::{DeviceError, close, connect, device, devices, serve};
#[doc(inline)]
pub use kernels_runtime::npu::*;
