//! Parts of the kernels for GPUs that the operations of a mixture share: the sort of slots by expert, and the
//! tensors of all experts as one.
//!
//! **Mistakes.** Nothing reads indices on the host, because that would wait for the device. The slot of an index that is
//! neither an expert nor one past the last has no row, and [`MISTAKE`](sort::kernels::MISTAKE) in the row map. What is
//! added up for its token is NaN.

pub(in crate::ops::moe) mod sort;
pub(in crate::ops::moe) mod stack;
