//! Raw bindings to CANN, the software of Ascend NPUs, found and loaded at run time.
//!
//! Nothing is linked, and building needs no toolkit. [`Cann::load`] looks for the libraries of an installed toolkit
//! and resolves each function separately. If the toolkit lacks a function, [`Symbol::get`] returns an error that names
//! the libraries that were searched and the versions of CANN that have it.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cann = cann_sys::Cann::load()?;
//! let init = cann.runtime.aclInit.get()?;
//! // SAFETY: the prototype is CANN's, and NULL means no configuration.
//! let status = unsafe { init(std::ptr::null()) };
//! assert_eq!(status, cann_sys::errors::ACL_SUCCESS);
//! # Ok(())
//! # }
//! ```
//!
//! # Contents
//!
//! * One module per area ([`runtime`], [`meta`], [`norm`], …, [`hccl`]) has CANN's types and constants, and for each
//!   function an alias of its prototype.
//! * One table per area ([`Runtime`], [`Meta`], …) has a [`Symbol`] for each function. Nothing here calls operators by
//!   name ([`compile`]), kernels as binaries ([`kernel`]) or the profiler ([`profiling`]), so these have none.
//! * [`Search`] holds the folders in which libraries are looked for, in their order.
//! * [`versions::known`] returns the versions of CANN that have a function.
//!
//! # The bindings
//!
//! `include/cann/` has CANN's declarations in this project's own words, a header per area, because CANN's headers may
//! not be copied. `tests/bindings/bindings.rs` makes `src/bindings/` from them with `bindgen` and fails if the committed
//! modules differ. Each prototype becomes an alias and an entry of the area's table.
//!
//! `bindgen`'s own dynamic loading reads one library per table and panics if a function is missing. CANN's operators
//! are spread over several libraries, differently in every version, so the tables here search for each function.
//!
//! `search` lists the folders and only reads their names, `open` opens libraries and looks up functions, and `load`
//! joins both.
//!
//! # Safety of calls
//!
//! Every function is `unsafe`: the caller must keep CANN's rules. These are easily missed:
//!
//! * **Threads.** The current device and context belong to the calling thread. A thread that has called neither
//!   `aclrtSetDevice` nor `aclrtSetCurrentContext` may call nothing else.
//! * **Order.** A call on a stream returns before it has run. Device memory, the workspace and the host memory of an
//!   asynchronous copy must live unchanged until the stream has passed the call. `aclrtFree` does not wait, and
//!   `aclrtMemcpy` does not wait for streams either.
//! * **Device addresses.** The host must not read them. Data of tensors must be aligned to 32 bytes.
//! * **Executors.** Phase one makes an executor and phase two frees it, *even if it fails*. Never call phase two
//!   twice, unless the executor was made repeatable right after phase one. A repeatable executor must be destroyed by
//!   hand, and so must one whose phase two is never called. Operands must live until phase two has returned.
//! * **Lists own their members.** Destroying a list of tensors destroys the tensors.
//! * **The end.** `aclFinalize` must not run in a static destructor.
//!
//! Libraries are never unloaded, because CANN keeps threads of its own. So a resolved function is valid until the
//! process ends.
//!
//! # Versions
//!
//! The prototypes are those of CANN 8.1.RC1, which newer versions keep, and of 8.5 to 9.1 for later functions. They
//! were written from public documentation. `cargo test -p burn-cann-sys --features toolkit-headers` compares them with an
//! installed toolkit, whose `include` folders are in `CANN_TOOLKIT_INCLUDE`; by default they are not compared. Nothing
//! here has run on an Ascend device.
//!
//! CANN exists for Linux. On other platforms the crate compiles, and loading returns [`LoadError::Platform`].

mod bindings;
mod error;
mod error_text;
mod load;
mod newest;
mod open;
mod search;
mod symbol;
mod table;
pub mod versions;

pub use bindings::*;
pub use error::{Attempt, LoadError, Outcome};
#[doc(hidden)]
pub use error_text::write_with_causes;
pub use load::Cann;
pub use newest::{NewestGroupedMatmul, NewestRotary, PhaseTwo};
pub use search::{Environment, LIB_DIR, Search};
pub use symbol::{MissingSymbol, Symbol};
