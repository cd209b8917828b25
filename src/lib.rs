//! # burn-kernels
//!
//! One attribute on a [Burn](https://burn.dev) model replaces its forward pass, at compile time,
//! with a device-dispatched one: a fused kernel where there is one for the device, the plain Burn
//! composition everywhere else, with gradients either way.
//!
//! ```
//! use burn::module::Module;
//! use burn::nn::{Linear, LinearConfig};
//! use burn::tensor::{Device, Tensor};
//! use burn_kernels::fused_kernel;
//!
//! // The attribute writes `forward` and `forward_reference`; it adds nothing to the struct.
//! #[fused_kernel("npu_fused_swiglu")]
//! #[derive(Module, Debug)]
//! pub struct Mlp {
//!     gate_proj: Linear,
//!     up_proj: Linear,
//!     down_proj: Linear,
//! }
//!
//! let device = Device::flex();
//! let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(&device);
//! let mlp = Mlp {
//!     gate_proj: linear(8, 32),
//!     up_proj: linear(8, 32),
//!     down_proj: linear(32, 8),
//! };
//! let y = mlp.forward(Tensor::<2>::ones([4, 8], &device));
//! assert_eq!(y.dims(), [4, 8]);
//!
//! // Nothing is silent: the report says which path ran, and why.
//! println!("{}", burn_kernels::report::report());
//! ```
//!
//! * [`fused_kernel`]: the attribute, on a struct, an impl block or method, or a function.
//! * [`policy`]: which kernels run; `BURN_KERNELS=none cargo run` switches all of them off.
//! * [`mapping`]: which kernel a named layer runs, by device, capability and mode; [`kernelize`].
//! * [`apply_kernel`], [`apply_default_kernels`]: kernels by name, for the whole process.
//! * [`declare_kernel!`]: a kernel of your own crate.
//! * [`report`](mod@report) and [`dispatch::plan`](fn@dispatch::plan): which path ran, which path
//!   would run, and why.
//! * [`registry`]: what is linked in, also readable from the built file.
//! * [`ops`]: the operations themselves, for use without the attribute.
//! * [`verify`]: every kernel beside its reference; [`live`]: the same while a program runs, with its
//!   own bodies, at the first use of every site and in every build (`BURN_KERNELS_VERIFY=off` says no).
//! * [`kernel`]: kernels of your own crate, named by path: `#[fused_kernel(my_crate::my_op)]`.
//!
//! Feature `cpu` (default): fused SIMD kernels for Burn's Flex backend. Feature `optim`: AdamW as a fused
//! kernel (`optim`). Feature `remote`: devices of
//! other processes and machines, served with their kernels (`remote`). Feature `npu`: Ascend NPUs
//! (`npu`).

pub mod nn;
#[cfg(feature = "optim")]
pub mod optim;

pub use kernels_macros::fused_kernel;
pub use kernels_runtime::apply::{apply_default_kernels, apply_kernel};
pub use kernels_runtime::mapping::kernelize;
pub use kernels_runtime::{
    InitError, apply, declare_kernel, dispatch, init, kernel, live, mapping, ops, policy, registry,
    report, semantics, verify,
};

#[cfg(feature = "npu")]
pub use kernels_runtime::npu;
#[cfg(feature = "remote")]
pub use kernels_runtime::remote;

#[doc(hidden)]
pub use kernels_runtime::__private;

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
