//! Raw bindings to CANN, the software of Ascend NPUs, found and loaded at run time.
//!
//! Nothing is linked and nothing is needed to build: [`Cann::load`] looks for the libraries of an
//! installed toolkit and resolves every function by itself. A function that the toolkit lacks is an
//! error where it is asked for, which says who was asked and which versions of CANN have it.
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
//! # What is here
//!
//! * One module per area ([`runtime`], [`meta`], [`norm`], …, [`hccl`]) with CANN's types, constants and
//!   one alias per function, its prototype; and one table per area ([`Runtime`], [`Meta`], …) with a
//!   [`Symbol`] per function. The modules are made by `bindgen` from the headers in `include/`, which are
//!   this project's own: CANN's headers may not be copied.
//! * [`Search`]: where libraries are looked for, and in which order.
//! * [`versions::known`]: which versions of CANN have a function.
//!
//! `bindgen`'s own dynamic loading reads one library per table and panics at a function that is not
//! there. Operators are spread over several libraries, differently in every version, so the tables here
//! search function by function.
//!
//! # Safety of calling
//!
//! Every function is `unsafe`, and what CANN asks for must hold. The rules that are easily missed:
//!
//! * **Threads.** The current device and context belong to the calling thread. A thread that has called
//!   neither `aclrtSetDevice` nor `aclrtSetCurrentContext` may call nothing else.
//! * **Time.** A call on a stream returns before it has run. Device memory, workspace and the host memory
//!   of an asynchronous copy must live, and stay as they are, until the stream has passed it; `aclrtFree`
//!   does not wait. `aclrtMemcpy` does not wait for streams either.
//! * **Device addresses** are not for the host to read. Data of tensors must be aligned to 32 bytes.
//! * **Executors.** Phase one makes an executor and phase two frees it, *also when it fails*. Never call
//!   phase two twice, unless the executor was made repeatable straight after phase one; such a one is
//!   destroyed by hand, and so is one whose phase two is never called. Operands live until phase two has
//!   returned.
//! * **Lists own their members**: destroying a list of tensors destroys the tensors.
//! * **`aclFinalize`** must not run in a static destructor.
//!
//! Libraries are never unloaded: CANN keeps threads of its own, so a resolved function is valid until
//! the process ends.
//!
//! # Versions
//!
//! Prototypes are those of CANN 8.1.RC1, which the newer versions keep, and of 8.5 to 9.1 for what came
//! later. They were written from public documentation and compared with no installed toolkit by default:
//! `cargo test -p cann-sys --features toolkit-headers` does that, with the toolkit's `include` folders in
//! `CANN_TOOLKIT_INCLUDE`. Nothing here has been run on an Ascend device.
//!
//! Linux is the platform of CANN. Elsewhere the crate compiles, and loading returns
//! [`LoadError::Platform`].

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
