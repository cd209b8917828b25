//! Ascend NPUs as ordinary Burn devices.
//!
//! ```no_run
//! use burn::tensor::Tensor;
//! use kernels_runtime::npu;
//!
//! # fn main() -> Result<(), npu::DeviceError> {
//! let device = npu::device(0)?;
//! let x = Tensor::<2>::ones([2, 3], &device);
//! println!("{x}");
//! # Ok(())
//! # }
//! ```
//!
//! Burn's list of backends is closed, so the NPU's backend ([`burn_cann::backend`]) is hosted by a
//! [server](crate::remote) in this process: on loopback, behind a random token that nobody else is
//! told. It starts with the first device that is asked for and ends with the process, or with
//! [`close`]. Operations cross a socket, in order and without waiting; only what is read is waited
//! for. Everything that [`remote`](crate::remote) says of sessions and errors holds.
//!
//! Which operations run on the NPU and which on the host is told by [`burn_cann::backend::ops`];
//! [`fallbacks`] counts the latter, and `BURN_CANN_FALLBACK=deny` makes them errors.
//!
//! Data of 1 GiB and more crosses the socket in slices only (see [`remote`](crate::remote)); on the device
//! tensors have any size.
//!
//! A child that a program forks after it asked for a device can't use it: neither the server's threads nor
//! CANN come along.
//!
//! # Kernels
//!
//! Each operation has a module `npu` with
//! * `decide`, a pure function of the platform and the checked operands, of which it sees types, shapes and
//!   layouts alone: which operators of CANN compute it, or why none do. It looks at no memory and needs no
//!   device, so dispatch can ask it of [specs](Seen) before it chooses;
//! * `forward` and `backward`, which mirror the operation's kernel trait. They put work on a stream and return:
//!   none of them waits for the device.
//!
//! Tensors are [`burn_cann::Tensor`]s. What CANN takes contiguous only is copied where it is not, and each
//! table of decisions says what else is moved.
//!
//! **Precision.** CANN computes in f32 and rounds each operator's result once. Where a composition rounds
//! between operators, or once where the key's reference rounds twice, results stay within the public
//! precision standard of Ascend operators, `|a − g| ≤ t · (1 + |g|)` with `t` = 2⁻⁶ in bf16 and 2⁻⁹ in f16
//! (2⁻¹⁰ · |g| + 2⁻¹⁶ in f32) beside the exact `g`, for operands around 1; the tests hold every element to it.
//!
//! Nothing here was run on an Ascend device, only on this project's emulator of CANN.

pub(crate) mod backend;
pub(crate) mod base;
mod device;
mod host;
pub(crate) mod limits;
pub(crate) mod refused;
mod seen;
pub(crate) mod views;

pub use burn_cann::backend::{Fallback, fallbacks, reset_fallbacks, set_fallback};
pub use device::{DeviceError, close, connect, device, devices, serve};
pub use refused::{NpuError, Refused};
pub use seen::{Seen, Specified};

/// The result of work that was put on a stream.
pub type Result<T, E = NpuError> = std::result::Result<T, E>;
