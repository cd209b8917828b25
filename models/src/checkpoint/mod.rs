//! Model directories in Hugging Face layout, read and written.
//!
//! Reading goes tensor by tensor through range reads: at no time is more than one tensor held
//! beside the model, and of one that lies in a file as it does in memory only a piece. A memory map would save one copy of that one tensor and turn a file that is
//! truncated meanwhile into a signal instead of an error.

mod check;
mod decode;
mod file;
mod load;
mod save;
#[cfg(feature = "remote")]
mod server;
mod shards;

pub use self::load::load;
pub use self::save::{save, save_with};

#[cfg(target_endian = "big")]
compile_error!("safetensors files are little-endian, and so must be the machine");

const CONFIG: &str = "config.json";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
