//! Reading and writing of model directories in Hugging Face layout.
//!
//! Reading loads one tensor at a time with range reads. Beside the model, memory holds at most one tensor, or only a
//! piece of it if its layout in the file is that in memory. A memory map would save one copy of that tensor, but a file
//! that is truncated meanwhile would raise a signal instead of an error.

mod check;
mod decode;
mod file;
mod fp8;
mod load;
pub(crate) mod mxfp4;
mod save;
#[cfg(feature = "remote")]
mod server;
mod shards;

pub(crate) use self::fp8::BLOCK as FP8_BLOCK;
pub use self::load::load;
pub use self::save::{save, save_with};

#[cfg(target_endian = "big")]
compile_error!("safetensors files are little-endian, and so must be the machine");

const CONFIG: &str = "config.json";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
