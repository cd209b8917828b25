//! Training data: files to token ids, with the tokens that the model learns to write.
//!
//! [`files`] reads files, and [`record`] the records in them: texts, conversations by [`chat`], and those of
//! [`preferences`], whose prompts and answers [`sides`] reads. One error tells everything that is wrong. [`encode`] turns
//! records into the token ids of [`example`], [`mod@pack`] puts several examples into one sequence, and [`batches`] makes
//! the batches of each step. [`prompts`] has those of prompts that the model completes itself.

mod batches;
mod calls;
mod chat;
mod encode;
mod example;
mod files;
mod json;
mod pack;
mod pair;
#[cfg(feature = "parquet")]
mod parquet;
mod pictures;
mod preferences;
mod prompts;
mod record;
mod sides;
mod turns;
mod unlearned;

pub use batches::{Batches, Label, Sizes};
pub use encode::Encoder;
pub use example::{Encoded, Ends, Example, Group, Groups};
pub use files::read;
pub use pack::{Row, pack};
pub use preferences::Kind;
pub use prompts::{Prompt, Prompts, Recorded, check_alike};
