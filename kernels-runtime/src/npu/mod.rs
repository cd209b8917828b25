//! The operations on Ascend NPUs, as calls of CANN's operators. The crate `kernels-serving` has the devices, and
//! `burn_kernels::npu` both.
//!
//! Each operation has a module `npu` with
//! * `decide`, a pure function of the platform and the types, shapes and layouts of the checked operands. It returns
//!   the operators of CANN that compute the call, or the reason why none do. It reads no memory and needs no
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
mod fused;
pub(crate) mod limits;
pub(crate) mod mistakes;
pub(crate) mod refused;
mod seen;
pub(crate) mod views;

pub use fused::OnNpu;
pub use refused::{NpuError, Refused};
pub use seen::{Seen, Specified};

/// The result of work that was put on a stream.
pub type Result<T, E = NpuError> = std::result::Result<T, E>;
