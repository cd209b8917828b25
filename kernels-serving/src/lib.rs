//! Servers of devices, with the kernels of `kernels-runtime`: for other processes and machines, and for the NPUs of this
//! process. Programs use the facade crate `burn-kernels`, whose modules `remote` and `npu` these are.
//!
//! * `remote` (feature `remote`): servers, and the half of clients, which `kernels-runtime` has.
//! * `npu` (feature `npu`): Ascend NPUs.
//!
//! Without these features, the crate is empty and builds nothing.

#[cfg(feature = "npu")]
pub mod npu;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(all(test, feature = "remote"))]
mod verify;

#[cfg(feature = "remote")]
kernels_runtime::__private::debug_as_display!(remote::ServeError);
#[cfg(feature = "npu")]
kernels_runtime::__private::debug_as_display!(npu::DeviceError);
