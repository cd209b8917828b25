//! Files and text that come from outside.
//!
//! * [`open`], [`read`] and [`read_text`] take plain files alone: a named pipe, a socket or a device
//!   in the place of a file would wait for ever or never end. Sizes are capped before anything is read.
//! * [`write_whole`] and [`Staging`] make a file or a folder appear complete or not at all, and clear
//!   away what a process that was killed meanwhile has left.
//! * [`escape`] shows text of a file as text, whatever is in it.
//! * `header` (a feature) reads the header of a safetensors file.

mod error;
#[cfg(feature = "safetensors")]
pub mod header;
mod leftover;
mod limit;
mod plain;
mod staging;
mod sync;
mod text;
mod write;

pub use error::FileError;
pub use leftover::clear_leftovers;
pub use limit::Limit;
pub use plain::{open, read, read_text};
pub use staging::Staging;
pub use text::{escape, escape_json, escape_lines, escape_path, indent_lines, shorten};
pub use write::{check_target, write_new, write_whole};
