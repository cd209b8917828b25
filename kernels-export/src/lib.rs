//! The CPU kernels of burn-kernels as a C library.
//!
//! [`functions`] has the list of functions. Each is a symbol twice: `burn_kernels_<name>` for C, with typed arguments and
//! results that the caller frees, and `__tvm_ffi_<name>` by the convention of TVM-FFI, which takes packed arguments and
//! writes results to tensors of the caller, all of them or none. Tensors come as `DLTensor` of DLPack, in the memory of the CPU.
//!
//! A function returns 0, or another number with a message. It never unwinds into its caller: what does not fit is an error,
//! and so is a panic.
//!
//! Threads are those of the OpenMP pool of the host, which is PyTorch's in Python (`pool`).

mod argument;
mod call;
pub mod functions;
mod made;
mod numbers;
mod pool;
mod tensor;
mod tvm;

pub use call::burn_kernels_error;
pub use kernels_abi::{Any, DlManagedTensor, DlTensor, Value};
