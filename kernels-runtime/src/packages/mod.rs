//! Functions of packages of Hugging Face's `kernels` as implementations of kernels (feature `packages`).
//!
//! [`register`] takes the functions that a loaded package binds to operations. Each becomes an implementation of the
//! kernel of its operation, on CPUs or, of a variant for CANN, on the NPUs of this process. Sites choose it as any other
//! one, [live verification](crate::live) compares it, forward and gradients, and plans and reports name it.
//!
//! ```no_run
//! # extern crate kernels_runtime as burn_kernels;
//! use burn_kernels::{packages, policy};
//! use kernels_packages::{Backend, Package, Trust, Variant};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let package = Package::open("rmsnorm".as_ref(), &Variant::here(Backend::Cpu))?;
//!     // SAFETY: I built this package, and its bindings say what its functions take.
//!     let loaded = unsafe { package.load(Trust::Folder) }?;
//!     // Before anything else: a decision can't know what comes later.
//!     for registered in packages::register(&loaded)? {
//!         println!("{} computes {}", registered.implementation, registered.key);
//!     }
//!     policy::install("all,prefer:rmsnorm@1".parse()?);
//!     Ok(())
//! }
//! ```
//!
//! * **Name**: `org/name@2` is version 2 of the repository `org/name`. For a package of a folder, `name@2` has the
//!   name of its `metadata.json`. Two versions are two implementations.
//! * **Choice**: the implementation comes after those that are linked in. It runs where the policy prefers it
//!   (`prefer:org/name@2`), measures it to be faster (`tune`), or maps a layer to the kernel of the package
//!   (`map:RMSNorm@cpu=org/name@2`; `org/name` is the newest version), and where no linked one can run. A package with
//!   functions for several operations has a kernel for each, such as `org/name:rms_norm@2`.
//! * **Semantics**: it computes the key of its binding and no other one, in the dtypes of the binding.
//! * **Gradient**: the one of its backward function, otherwise that of the reference.
//! * **Tensors**: a function reads contiguous tensors, so that views are copied first, and writes to memory that is
//!   filled with NaN, so that an element that it leaves out is seen. It is not called for results without elements.
//! * **Order**: nobody knows whether a function is deterministic, so that the policy `deterministic` leaves it out.
//!
//! # Operations
//!
//! | operation | tensors | numbers | result | saved |
//! |---|---|---|---|---|
//! | `rms_norm` | `x`, `weight`, `gate`, `bias` | `eps`, `group_size` | `y` | `rstd` |
//! | `layer_norm` | `x`, `weight`, `bias` | `eps` | `y` | `mean`, `rstd` |
//! | `glu` | `first` (the gate, or gate and up), `up` | `limit`, `sparsity` | `y` | |
//! | `softcap` | `x` | `cap` | `y` | |
//!
//! Saved statistics are f32, and f64 for tensors in f64, with a last axis of 1, or of as many as there are groups.
//! `group_size` is an integer, the other numbers are floats.
//!
//! # On NPUs
//!
//! With the feature `npu`, functions of a variant `tvm-ffi<abi>-cann<version>-…` run on the NPUs of this process, and
//! not on those of servers in other processes, which don't have the function. A function runs on the host. It puts its
//! work on the stream through CANN and returns without waiting. Tensors have addresses on the device (DLPack's device
//! 12). The arguments `stream` and `workspace` are an `aclrtStream` and an address on the device. A function without an
//! argument for the stream takes that of TVM-FFI's environment. Calls come in the device's context. Functions for NPUs
//! compute `rms_norm`, `layer_norm` and `glu`, and a backward function does not read the result: let the forward
//! function save the tensors that it needs.
//!
//! No function has run on an Ascend device, only on this project's emulator of CANN.

mod call;
mod memory;
#[cfg(feature = "npu")]
mod npu;
mod operations;
mod register;
mod run;

pub use register::{Error, Registered, register};

/// The devices that functions run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Cpu,
    /// The NPUs of this process.
    #[cfg(feature = "npu")]
    Npus,
}
