//! Sites that tune themselves: with the word `tune` in a [policy](crate::policy), a site measures its kernel and its
//! reference in the first calls of each class, and keeps the faster. Of a kernel with several implementations for the
//! device, each is measured, and the fastest is kept.
//!
//! ```
//! # extern crate kernels_runtime as burn_kernels;
//! use burn_kernels::policy::{self, Policy};
//! use burn_kernels::tune;
//!
//! let _scope = policy::scope(Policy::auto().tune()); // as BURN_KERNELS=tune
//! // … some steps of training …
//! println!("{}", tune::report());
//! let choices = tune::report().to_toml(); // for BURN_KERNELS=tune:FILE
//! # drop(choices);
//! ```
//!
//! # Classes
//!
//! A class has the calls of a site with one implementation, device, dtype, mode and size of each tensor. A size is the
//! last axis and the product of all other axes, which is rounded up to a power of two.
//!
//! # Measurements
//!
//! A measured call runs the kernel and the body once each, on copies of the tensors that are detached from the
//! program's graph: forward and, if gradients are tracked, backward. It waits for the device before and after each. The
//! program's own result comes from the kernel, by a call of its own. The first measured call of a class fills caches
//! and is not counted. After three more, the shortest times decide. The reference is chosen only if it takes more than
//! 3 % less time. Where a device has several implementations of the kernel, and the policy prefers none, a class of
//! each is measured, one after the other. Another than the first is chosen only if its kernel, too, takes more than 3 %
//! less time. Copies share the program's memory, so a kernel that works in place takes new memory in a measurement. A
//! measured call needs the memory of the body, too.
//!
//! Calls that [live verification](crate::live) checks are not measured. The requirements on the body are the same: no
//! side effects, and sites inside it are neither counted nor tuned. A body that draws random numbers draws more of them
//! in measured calls. Of a gated MLP, a sparse block or an attention layer, the part between the layers is measured, with
//! the operation's own reference.
//!
//! A kernel that the policy requests by name stays, and the [report](report()) does not have it. A kernel also stays
//! without a measurement, and the report says why:
//!
//! * if its body captures a tensor that is computed under autodiff, because a backward pass would use up the program's
//!   graph;
//! * if its body panics on the copies;
//! * in training whose gradients Burn adds up over several devices in each backward pass;
//! * under a deterministic policy, because times differ from run to run, unless a file has the choice.
//!
//! # Files
//!
//! [`TuneReport::write`] and `kernels tune` write choices to a file, with the release of burn-kernels, the device and both
//! times. `tune:FILE` in a policy reads it. Choices of another release, of a build with other debug assertions, or of
//! another device are not used.

mod choice;
mod class;
mod file;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod report;
mod table;

pub use crate::device::Machine;
pub use choice::Choice;
pub(crate) use choice::{Times, is_clearly_less};
pub(crate) use class::{Class, TURNS, Turn};
pub(crate) use file::Choices;
pub use file::TuneError;
pub use report::{TuneReport, TuneRow, report, reset};
pub(crate) use table::Call;
