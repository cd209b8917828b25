//! Text in place of token ids: a checkpoint's tokenizer and its chat template (feature `text`).
//!
//! * [`Tokenizer`] reads `tokenizer.json` or a GGUF file, turns text into token ids, and turns ids back into text.
//! * [`ChatTemplate`] renders [`Message`]s by the checkpoint's own template, as `apply_chat_template` of transformers
//!   does.
//! * [`Chat`] is both. [`Chat::prompt`] gives the ids of a conversation that the model is to answer, and
//!   [`Chat::tokens`] those of a whole conversation, with the tokens of the assistant's turns.
//! * [`Writer`] turns generated ids into text piece by piece, and ends at stop strings.
//!
//! ```no_run
//! use kernels_cli::text::{Chat, Message, Tokenizer};
//! # fn main() -> Result<(), kernels_cli::text::TextError> {
//! let folder = "checkpoint".as_ref();
//! let tokenizer = Tokenizer::open(folder, 49_152)?; // the model's `vocab_size`
//! let chat = Chat::open(folder, tokenizer)?;
//! let conversation = [Message::user("What is the capital of Ghana?"), Message::assistant("Accra.")];
//! let tokens = chat.tokens(&conversation)?;
//! for range in &tokens.answers {
//!     println!("the model learns {:?}", &tokens.ids[range.clone()]); // "Accra." and the end of the turn
//! }
//! # Ok(())
//! # }
//! ```

mod answers;
mod chat;
mod config;
mod error;
mod gguf;
mod kept;
mod limits;
mod message;
mod pieces;
mod template;
mod tokenizer;
mod writer;

pub use chat::{Chat, Tokens};
pub use error::TextError;
pub use jiff::civil::Date;
pub use message::Message;
pub use template::{ChatTemplate, interrupt_templates_on, isolate_templates};
pub use tokenizer::{Offsets, Tokenizer};
pub use writer::Writer;
