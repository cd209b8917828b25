//! Ascend NPUs as ordinary Burn devices.
//!
//! ```no_run
//! # extern crate kernels_runtime as burn_kernels;
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
//! # Kernels
//!
//! Each operation has a module `npu` with
//! * `decide`, a pure function of the platform and the types, shapes and layouts of the checked operands. It returns
//!   the operators of CANN that compute the call, or the reason why there are none. It reads no memory and needs no
//!   device, so dispatch can call it with [specs](Seen) before it chooses;
//! * `forward` and `backward`, which mirror the operation's kernel trait. They put work on a stream and return without
//!   waiting for the device. Attention also has `infer`, for calls without a gradient. What computes these depends on the
//!   tensors' strides and memory, and on the functions of CANN's library, so that `decide_inference` needs a device.
//!
//! Tensors are [`burn_cann::Tensor`]s. If CANN takes only contiguous tensors, others are copied. The table of decisions
//! of each operation states which other data is moved.
//!
//! **Precision.** CANN computes in f32 and rounds each operator's result once. A composition may round between
//! operators, or once where the key's reference rounds twice. Its results stay within the public precision standard of
//! Ascend operators, `|a − g| ≤ t · (1 + |g|)` with `t` = 2⁻⁶ in bf16 and 2⁻⁹ in f16 (2⁻¹⁰ · |g| + 2⁻¹⁶ in f32) for the
//! exact `g`, for operands around 1. The tests check every element.
//!
//! None of this was run on an Ascend device, only on this project's emulator of CANN.

pub(crate) mod backend;
pub(crate) mod base;
mod deterministic;
mod device;
mod host;
pub(crate) mod limits;
pub(crate) mod mistakes;
pub(crate) mod refused;
mod seen;
pub(crate) mod views;

pub use burn_cann::backend::{Fallback, fallbacks, reset_fallbacks, set_fallback};
pub use device::{DeviceError, close, connect, device, devices, serve};
pub use refused::{NpuError, Refused};
pub use seen::{Seen, Specified};

/// The result of work that was put on a stream.
pub type Result<T, E = NpuError> = std::result::Result<T, E>;
