//! Compute kernels that others built, as packages of Hugging Face's `kernels`.
//!
//! A package is a folder with a variant for each framework and machine. A Rust program runs variants of TVM-FFI,
//! which are libraries with a C interface ([`Variant`]). No Python runs.
//!
//! ```no_run
//! use kernels_packages::{Argument, Backend, Package, Tensor, Trust, Variant};
//!
//! let package = Package::open("relu".as_ref(), &Variant::here(Backend::Cpu))?;
//! // SAFETY: I wrote this package.
//! let loaded = unsafe { package.load(Trust::Folder) }?;
//! let relu = loaded.function("relu")?;
//! let (x, mut y) = ([-1.0_f32, 2.0], [0.0_f32; 2]);
//! {
//!     let (x, y) = (Tensor::new(&x, &[2])?, Tensor::new_mut(&mut y, &[2])?);
//!     // SAFETY: `relu` takes two tensors of one shape, and writes to the second.
//!     unsafe { relu.call(&[Argument::Tensor(&x), Argument::Tensor(&y)]) }?;
//! }
//! assert_eq!(y, [0.0, 2.0]);
//! # Ok::<(), kernels_packages::Error>(())
//! ```
//!
//! 1. [`Package::open`], [`Cache::open`] and, with the feature `hub`, `Hub::open` read a package into memory and
//!    check it: the variant, what `metadata.json` says, the digest of every file, the headers of each library, and
//!    `burn-kernels.json` ([`binding`]), which says what functions compute. Nothing runs.
//! 2. [`Package::load`] runs the very bytes that were checked, from sealed memory, on Linux. It demands a reason to
//!    [`Trust`] them, and is `unsafe`: no check can tell whether foreign code is sound.
//! 3. [`Loaded`] has functions, and the [`Bound`] ones with their operations. [`Function::call`] borrows tensors and
//!    returns the function's error as a value.
//!
//! **Promised**: no byte of a package runs before all checks passed; what runs is what was hashed; a library comes
//! from no path that the package names; packages are not unloaded; exceptions do not cross the border; text of
//! packages is escaped in errors. **Not promised**: a function that reads or writes where it must not corrupts or
//! ends the process. A server in another process (`kernels serve`) isolates it.

pub mod binding;
mod cache;
mod call;
mod digest;
mod elf;
mod error;
mod folder;
#[cfg(feature = "hub")]
mod hub;
mod load;
mod lock;
mod metadata;
mod open;
mod package;
mod repository;
mod runtime;
mod settings;
mod stream;
mod strict;
mod tensor;
mod variant;

pub use cache::{Cache, Cached};
pub use call::{Argument, Function, Returned};
pub use digest::{Algorithm, Digest, Sum, content_id};
pub use error::Error;
pub use folder::variants;
#[cfg(feature = "hub")]
pub use hub::Hub;
pub use load::{Bound, Callable, Loaded, Trust};
pub use lock::{FILE as LOCK_FILE, Lock, Locked, read_python};
pub use metadata::{BackendInfo, Dependency, Metadata};
pub use package::{Library, Package};
pub use repository::{Commit, Origin, Repository, Revision};
pub use runtime::{VARIABLE as RUNTIME_VARIABLE, open_runtime};
pub use settings::{Settings, Token};
pub use stream::on_stream;
pub use tensor::{DType, Device, Element, Tensor, Writable};
pub use variant::{ABI, Backend, Decision, Variant, decide};

/// The snippets of the book.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../docs/packages.md")]
    mod packages {}
}
