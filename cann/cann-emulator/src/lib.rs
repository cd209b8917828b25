//! CANN's C interface over host memory. It runs programs for Ascend NPUs on machines without one.
//!
//! The emulator was written from public documentation. It is not Huawei's simulator, it was not compared with a
//! device, and its speed says nothing about a device's. It is strict where devices are strict. Where a device would
//! crash or read garbage, it fails with a status code and a text that says what to do:
//!
//! * **Device addresses** are in a reserved range that the host cannot read. New memory is poisoned: it is NaN in
//!   every float type. A freed address is not used again for a long time. Addresses that a program reserves have the
//!   physical memory that it maps to them, and elsewhere none.
//! * **Streams** are threads, so a missing synchronisation shows, more often with a delay before each task
//!   ([`Config::delay`]). A kernel that uses freed memory breaks its stream, and the next wait reports it.
//! * **Contexts** belong to threads. A thread without one may do nothing.
//! * **Handles** are never used twice, so a destroyed object is recognised.
//! * **Operators** take the documented dtypes, shapes, layouts and sizes, and nothing else. They compute in f32 and
//!   round once when they store, to nearest with ties to even; `src/ops` documents the exceptions. Integers and f64
//!   are computed exactly in their own type.
//! * **Dtypes** are promoted and results converted as CANN does: elementwise operators take operands of different dtypes
//!   and round their result once more if the output has another dtype. Other operators take what their document names.
//! * **Indices** out of range, with which a device would read or write elsewhere, break the stream.
//! * **Ranks** of a group that call different collectives, come too late or end are an error for all who wait for them.
//!   Each process has its own devices, so ranks of two processes may both have device 0. The process that made the root
//!   must live as long as the group.
//! * **`aclFinalize`** writes to stderr what was not given back, and [`last_report`] returns it.
//!
//! Every function has the prototype of `cann-sys`, which the compiler checks. A function that the emulator lacks is
//! not exported, so looking it up fails as with a CANN that lacks it.
//!
//! The version and the chip change only the documented behaviour. All functions are exported for every version and
//! chip; `cann_sys::Search::hide` hides those that an older CANN lacks.
//!
//! # Limits of the model
//!
//! Some features are refused: dropout and shifts of flash attention, offsets of products of i8 by group, tensors of four
//! bits and the format FRACTAL_NZ. A view that repeats elements has at most 2²⁸ of them. Random numbers have the right
//! distribution but are not CANN's numbers.
//!
//! # Use
//!
//! `cargo run -p cann-emulator --bin cann-emulator-install -- FOLDER` installs the library in a folder under the names
//! of CANN's libraries. `CANN_LIB_DIR` (for `cann-sys`) or `LD_LIBRARY_PATH` then points a program to the folder.
//! Tests can also link this crate and call the functions of [`abi`] directly. In both cases the state belongs to the
//! process.
//!
//! [`Config`] lists the settings and the faults that can be injected. `cann_sys::Search::hide` makes a function
//! missing.
//!
//! # Failing work
//!
//! An operator that finds freed memory, or values that it cannot take, fails with 507035 on its stream. The stream
//! goes on with the next task, or stops if `aclrtSetStreamFailureMode` set that. Its waits and queries report the
//! first failure. If the host waits for an event whose stream failed before the event, the wait reports the failure
//! too; a wait of another stream does not.
//!
//! # Structure
//!
//! `abi/` exports the functions and checks operands. `ops/` is the maths on slices. `executor` has the two phases of
//! operators, and `state` the process. `memory`, `stream`, `event` and `callback` are the device, `hccl` the groups of
//! ranks, and `chip` the figures of processors.
//!
//! An operator is defined by the names of its phases and of its parameters, and by what phase one does: it takes and
//! checks the operands, and returns the work. `abi/operator` makes the exported functions of these, with the prototypes
//! of `cann-sys`, and forms in place from the same body. A refusal is a condition and a text (`ensure!`).
//!
//! Base operators are tables: a line of `abi/elementwise` has the name of an operator, its dtypes and its function of a
//! value. `number` selects the type of the computation by dtype. Views are read and written in runs of one stride
//! (`tensor`). Broadcasting and orders of axes are strides, never copies. `abi/checks` has the checks that all base
//! operators share.
//!
//! Locks are taken in this order: memory, then process. A kernel holds the memory's lock while it runs.
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
mod threads;

pub use config::{Config, configure};
pub use memory::Usage;
pub use report::{last_report, usage};
