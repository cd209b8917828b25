//! Reading and writing files, and showing text from outside.
//!
//! * [`open`], [`read`] and [`read_text`] accept plain files only, because a named pipe, a socket or a device could
//!   block forever or never end. They check the size before they read, and name what stands in the place of a file: a
//!   Git LFS pointer, or a link without a target.
//! * [`write_whole`], [`NewFile`] and [`Staging`] make a file or a folder appear complete or not at all. They remove
//!   what killed processes left of earlier writes.
//! * [`escape`] makes text from a file safe to show.
//! * [`Page`] and [`Table`] lay out text for people, in the width and the colours of its place.
//! * `header` (a feature) reads the header of a safetensors file.

mod error;
#[cfg(feature = "safetensors")]
pub mod header;
mod leftover;
mod limit;
mod new_file;
mod page;
mod plain;
mod staging;
mod sync;
mod table;
mod text;
mod write;

pub use error::FileError;
pub use leftover::clear_leftovers;
pub use limit::Limit;
pub use new_file::NewFile;
pub use page::{Look, Page, Tone};
pub use plain::{is_there, metadata, open, read, read_text};
pub use staging::Staging;
pub use table::{Cell, Fit, Table};
pub use text::{escape, escape_json, escape_lines, escape_path, indent_lines, shorten};
pub use write::{check_target, write_new, write_whole};
