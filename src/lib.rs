//! # burn-kernels
//!
//! One attribute on a [Burn](https://burn.dev) model replaces its forward pass at compile time. The new forward pass
//! runs a fused kernel if there is one for the device, and the plain Burn composition otherwise. Both have gradients.
//!
//! # The attribute
//!
//! Place [`fused_kernel`] on a struct, an impl block, a method or a function. On a struct, it generates `forward` and
//! `forward_reference`, and adds no field to the struct. An annotated item is a *site*.
//!
//! ```
//! use burn::module::Module;
//! use burn::nn::{Linear, LinearConfig};
//! use burn::tensor::{Device, Tensor};
//! use burn_kernels::fused_kernel;
//!
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
//! ```
//!
//! [`nn`] has counterparts of Burn's own layers. [`ops`] has the operations themselves, for use without the attribute.
//! [`kernel`] and [`declare_kernel!`] are for kernels of your own crate.
//!
//! # Policies
//!
//! A [`policy`] selects the kernels that run. Code sets it for the process or for a thread. The environment variable
//! `BURN_KERNELS` sets it for a run.
//!
//! ```
//! use burn_kernels::policy::{self, Policy};
//!
//! burn_kernels::init()?; // reports a bad value of `BURN_KERNELS` here, not in the first layer
//! policy::install(Policy::auto().disable("npu_fused_rope")?);
//! let plain = policy::scope(Policy::none()); // plain Burn on this thread, until it is dropped
//! # drop(plain);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`mapping`] and [`kernelize`] map named layers to kernels by device, capability and mode. [`apply_kernel`] and
//! [`apply_default_kernels`] select kernels by name for the whole process and return the plan of every site, and
//! [`attention::set_implementation`] selects the implementation of attention.
//!
//! # Plans and reports
//!
//! [`dispatch::plan`](fn@dispatch::plan) returns the paths that sites will take, and [`report`](mod@report) the paths
//! that calls took. Both give the reason if the reference runs. [`registry`] lists the linked kernels and sites. The
//! command `kernels inspect` reads them from a built program.
//!
//! ```
//! use burn::tensor::Device;
//!
//! println!("{}", burn_kernels::dispatch::plan(&Device::flex().autodiff())?);
//! println!("{}", burn_kernels::report::report());
//! # Ok::<(), burn_kernels::dispatch::PlanError>(())
//! ```
//!
//! # Verification
//!
//! The first call of each class of a site's calls compares the kernel and your own body with the operation's reference in
//! f64 ([`live`]). [`verify`] compares every kernel with its reference on its own test cases.
//!
//! ```
//! use burn_kernels::live::{self, Sampling};
//!
//! live::set("every:100,whole".parse::<Sampling>()?); // as BURN_KERNELS_VERIFY=every:100,whole
//! println!("{}", live::report());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Measurements
//!
//! [`measure`](fn@measure) times your own work with the kernels of the policy in force, with none, and without the
//! kernel of each site.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//!
//! let x = Tensor::<2>::ones([8, 8], &Device::flex());
//! let measured = burn_kernels::measure(|| drop(x.clone().exp()))?;
//! println!("{measured}");
//! # Ok::<(), burn_kernels::policy::PolicyError>(())
//! ```
//!
//! With `tune` in the policy, a site measures its kernel and your own body in its first calls, and keeps the faster. The
//! report of [`tune`](mod@tune) has both times.
//!
//! # Devices
//!
//! | device | feature | kernels |
//! |---|---|---|
//! | CPU, Burn's Flex backend | `cpu` (default) | fused SIMD kernels |
//! | GPU, through wgpu | `gpu` | those of the CPU but linear layers, some in f32 only; run on a software GPU only |
//! | GPU, through CUDA or ROCm | `cuda`, `rocm` | the same; never run |
//! | Ascend NPU | `npu` | CANN's fused operators, see `npu` |
//! | a CPU or NPU of another process or machine | `remote` | those of the device, see `remote` |
//! | every other Burn device | | none: the reference runs |
//!
//! Policies, mappings and reports name a device by its [`DeviceKind`](dispatch::DeviceKind):
//!
//! ```
//! use burn::tensor::Device;
//! use burn_kernels::dispatch::DeviceKind;
//!
//! assert_eq!(DeviceKind::of(&Device::flex().autodiff()), DeviceKind::Cpu);
//! ```
//!
//! # The optimiser
//!
//! With the feature `optim`, `optim::InitFused` creates AdamW with a fused kernel from Burn's own configuration:
//!
#![cfg_attr(feature = "optim", doc = "```")]
#![cfg_attr(not(feature = "optim"), doc = "```ignore")]
//! use burn::optim::AdamWConfig;
//! use burn_kernels::optim::InitFused;
//!
//! let optimiser = AdamWConfig::new().with_weight_decay(0.01).init_fused(); // in place of `init()`
//! # drop(optimiser);
//! ```
//!
//! # Kernels that others built
//!
//! With the feature `packages`, `packages` reads, checks and loads packages of Hugging Face's `kernels` from folders
//! and from the cache, and with `hub` from a hub:
//!
#![cfg_attr(feature = "packages", doc = "```no_run")]
#![cfg_attr(not(feature = "packages"), doc = "```ignore")]
//! use burn_kernels::packages::{Backend, Package, Variant};
//!
//! let package = Package::open("relu-kernels".as_ref(), &Variant::here(Backend::Cpu))?;
//! println!("{package} has {:?}", package.functions().collect::<Vec<_>>());
//! # Ok::<(), burn_kernels::packages::Error>(())
//! ```
//!
//! # Examples
//!
//! `examples/annotate.rs` has every form of the attribute. `examples/own-crate` is a complete user's crate with a plain
//! training loop and one with Burn's `Learner`. `examples/third-party` is a crate with its own kernel. The book in
//! `docs/` explains each of these subjects.

#[cfg(feature = "distributed")]
pub mod distributed;
pub mod nn;
#[cfg(feature = "optim")]
pub mod optim;

pub use kernels_macros::fused_kernel;
/// Quantised weights, decoded and encoded.
pub use kernels_quant as quant;
pub use kernels_runtime::apply::{apply_default_kernels, apply_kernel};
pub use kernels_runtime::mapping::kernelize;
pub use kernels_runtime::{
    InitError, apply, attention, declare_kernel, dispatch, init, kernel, live, mapping, measure,
    measurement, memory, ops, policy, registry, report, semantics, threads, tune, verify,
};

#[cfg(feature = "packages")]
pub mod packages {
    //! Packages of kernels that others built: reads, checks and loads them, and [`register`]s their functions as
    //! implementations of kernels.

    pub use kernels_packages::*;
    pub use kernels_runtime::packages::{Error as RegisterError, Registered, register};
}
#[cfg(feature = "npu")]
pub use kernels_serving::npu;
#[cfg(feature = "remote")]
pub use kernels_serving::remote;

#[doc(hidden)]
pub use kernels_runtime::__private;

/// Compiles and runs the examples of the README and of the book.
#[cfg(doctest)]
mod documented {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[cfg(feature = "optim")]
    #[doc = include_str!("../docs/annotate.md")]
    struct Annotate;
    #[cfg(feature = "npu")]
    #[doc = include_str!("../docs/ascend.md")]
    struct Ascend;
    #[cfg(feature = "remote")]
    #[doc = include_str!("../docs/serving.md")]
    struct Serving;
    #[doc = include_str!("../docs/policy.md")]
    struct Choose;
    #[doc = include_str!("../docs/measure.md")]
    struct Measure;
    #[doc = include_str!("../docs/migrate-llama-factory.md")]
    struct LlamaFactory;
    #[doc = include_str!("../docs/migrate-hf-kernels.md")]
    struct HuggingFace;
}
