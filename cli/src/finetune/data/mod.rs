//! Training data: files to token ids, with the tokens that the model learns to write.
//!
//! [`files`] reads records and tells everything that is wrong with them, [`encode`] turns them into token ids, [`mod@pack`]
//! puts several examples into one sequence, and [`batches`] makes the batches of each step.

mod batches;
mod encode;
mod files;
mod pack;
mod record;

pub use batches::{Batches, Sizes};
pub use encode::{Encoded, Encoder, Example};
pub use files::read;
pub use pack::{Row, pack};
