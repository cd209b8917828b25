//! Groups of processes that compute together: one model trained by many ranks, on one machine or on several.
//!
//! A launcher of the cluster (`mpirun`, `srun`) starts the same program several times, as *ranks*.
//! [`Group::from_environment`] reads the launcher's variables and joins the ranks. A [`Group`] sums, gathers,
//! exchanges and broadcasts slices of numbers over all ranks.
//!
//! ```
//! use kernels_distributed::Group;
//!
//! let ranks = Group::of_threads(3).into_iter().map(|group| {
//!     std::thread::spawn(move || {
//!         let mut values = [group.rank() as f32, 1.0];
//!         group.all_reduce(&mut values)?;
//!         Ok::<_, kernels_distributed::Error>(values)
//!     })
//! });
//! for rank in ranks.collect::<Vec<_>>() {
//!     assert_eq!(rank.join().unwrap()?, [3.0, 3.0]);
//! }
//! # Ok::<(), kernels_distributed::Error>(())
//! ```

mod answer;
// Engines between processes have one.
#[cfg(any(test, feature = "mpi"))]
mod control;
mod digest;
mod element;
mod error;
mod group;
mod launch;
#[cfg(feature = "mpi")]
mod mpi;
mod options;
mod request;
mod start;
mod threads;

pub use element::{Element, Summed};
pub use error::{Error, ErrorKind};
pub use group::{Group, Pending};
pub use launch::{Launch, Launcher};
pub use options::{LOSS_STATUS, OnLoss, Options};
