//! Mixtures of experts.
//!
//! * [`experts`]: the experts of a layer, from the router's choice to the weighted sum.
//! * [`grouped_matmul`]: rows grouped by expert times each expert's weights.

pub mod experts;
pub mod grouped_matmul;

#[cfg(feature = "cpu")]
mod ints;
mod many;
#[cfg(feature = "cpu")]
mod product;
#[cfg(feature = "cpu")]
mod slabs;
mod sort;

#[cfg(feature = "cpu")]
pub use many::Many;
pub use many::Stack;
