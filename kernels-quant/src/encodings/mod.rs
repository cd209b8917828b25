//! The encodings, one a file.

pub(crate) mod awq;
pub(crate) mod bnb_4bit;
pub(crate) mod bnb_int8;
pub(crate) mod compressed_tensors;
pub(crate) mod fp8_blocks;
pub mod gguf;
pub(crate) mod gptq;
mod mxfp4;
mod packed;
mod unpacked;

pub use awq::Awq;
pub use bnb_4bit::{Bnb4Bit, nf4};
pub use bnb_int8::BnbInt8;
pub use fp8_blocks::Fp8Blocks;
pub use gptq::{Gptq, GptqVersion};
pub use mxfp4::Mxfp4;
pub use packed::Packed;
pub use unpacked::{Code, Unpacked};
