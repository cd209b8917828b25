//! CANN's C interface over host memory, so that programs for Ascend NPUs run where there is none.
//!
//! A re-implementation from public documentation. It is not Huawei's simulator, it was compared with no
//! device, and it says nothing about speed. It is strict where devices are strict, and where they
//! crash or read garbage it fails with a status code and a text that says what to do:
//!
//! * **Device addresses** lie in a reserved range that the host cannot read. Fresh memory is poisoned: NaN in
//!   every float type. A freed address is not used again for a long time.
//! * **Streams** are threads. A missing synchronisation shows, the more so with a delay before each task
//!   ([`Config::delay`]). A kernel that meets freed memory breaks its stream, and the next wait says so.
//! * **Contexts** belong to threads. A thread without one may do nothing.
//! * **Handles** are never used twice: what was destroyed is known to be.
//! * **Operators** take the dtypes, shapes, layouts and sizes that are documented, and nothing else. Maths
//!   is in f32 with one rounding, to nearest and ties to even, at the store; `src/ops` says where not.
//!   Integers and f64 are exact in themselves.
//! * **Dtypes are not promoted.** Base operators want operands of one dtype, and the output's that follows
//!   from it, where CANN would convert: a program that works here does not depend on promotion.
//! * **Indices** out of range, which a device would read or write elsewhere, break the stream.
//! * **`aclFinalize`** writes to stderr what was not given back; [`last_report`] returns it.
//!
//! Every function has the prototype of `cann-sys`, which the compiler checks. What is not here is not
//! exported, so that looking it up fails as with a CANN that lacks it.
//!
//! What the version and the chip say is what is documented for them; every function is exported whatever
//! they say, so a program for an older CANN is told with `cann_sys::Search::hide` what that lacks.
//!
//! # What it does not model
//!
//! Modes of the matrix unit that lose precision, the limit of rotary embeddings by the number of cores, and
//! dropout, shifts, prefixes and variable lengths of flash attention: each is refused. Random numbers have the
//! right distribution, and are not CANN's.
//!
//! # Use
//!
//! `cargo run -p cann-emulator --bin cann-emulator-install -- FOLDER` lays the library out under the names
//! of CANN's; then point a program at the folder with `CANN_LIB_DIR` (for `cann-sys`) or
//! `LD_LIBRARY_PATH`. Tests can link this crate and call the functions of [`abi`] directly; the state is
//! the process' in either case. [`Config`] says what can be set, and which faults can be injected.
//! A missing function is `cann_sys::Search::hide`.
//!
//! # Failing work
//!
//! An operator that meets freed memory, or values that it cannot take, fails with 507035 on its stream. The
//! stream goes on with what comes next, or stops if `aclrtSetStreamFailureMode` said so, and its waits and
//! queries report the first failure. A wait of the host for an event reports it too if the event's stream
//! failed before; a wait of another stream does not.
//!
#![doc = include_str!("../absent.md")]
#![cfg(unix)]

pub mod abi;
mod callback;
mod chip;
mod config;
mod error;
mod event;
mod executor;
mod hccl;
mod loss;
mod memory;
mod number;
mod object;
mod ops;
mod report;
mod scalar;
mod state;
mod stream;
mod tensor;

pub use config::{Config, configure};
pub use memory::Usage;
pub use report::{last_report, usage};
