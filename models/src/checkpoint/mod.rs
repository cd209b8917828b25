//! Reading and writing of model directories in Hugging Face layout, and reading of GGUF files.
//!
//! Reading loads one tensor at a time with range reads. Beside the model, memory holds at most a piece of a tensor. A
//! memory map would save one copy of that piece, but a file that is truncated meanwhile would raise a signal instead of
//! an error.

mod check;
mod checksum;
mod decode;
mod file;
pub mod gguf;
mod inspect;
mod kept;
mod left_out;
mod load;
mod matrices;
mod open;
mod progress;
mod quantised;
mod save;
#[cfg(feature = "remote")]
mod server;
mod shards;
mod source;
mod storage;
mod stored;
mod vision;

pub use self::checksum::weights_checksum;
pub(crate) use self::file::TensorFile;
pub use self::inspect::{Inspection, StoredType, inspect};
pub use self::load::{QuantisedWeights, load, load_as, load_part, load_reward_model, load_with};
pub use self::progress::Progress;
pub(crate) use self::save::refuse_occupied;
pub use self::save::{save, save_into, save_with};
pub use self::shards::weight_files;
pub(crate) use self::stored::stored_dtypes;
pub use self::stored::stored_gradients;
pub use self::vision::{is_vision_tower, load_vision_tower, load_with_vision};

#[cfg(target_endian = "big")]
compile_error!("safetensors files are little-endian, and so must be the machine");

const CONFIG: &str = "config.json";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
