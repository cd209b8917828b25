//! Quantised weights, decoded to the floats that the package of their format computes in f32, bit for bit.
//!
//! A [`QuantizedWeight`] is a matrix `[rows, columns]`, which is `[out, in]` of a linear layer, in one [`Encoding`]. Its
//! parts are tensors of a file, under the names that the file has after the name of the layer. The constructor checks
//! them, so that decoding can't fail:
//!
//! ```
//! use kernels_quant::{Dtype, Part, QuantizedWeight, gguf};
//!
//! // A block of Q8_0: the scale 0.5 as a half-precision float, then 32 integers.
//! let block: Vec<u8> = [0x00, 0x38].into_iter().chain(0..32).collect();
//! let parts = [("blocks", Part::new(Dtype::U8, &[1, 34], &block))];
//! let weight = QuantizedWeight::new(gguf::Block::Q8_0, [1, 32], parts)?;
//! let mut row = [0.0; 32];
//! weight.decode_rows(0..1, &mut row);
//! assert_eq!(row[..4], [0.0, 0.5, 1.0, 1.5]);
//! # Ok::<(), kernels_quant::QuantError>(())
//! ```
//!
//! Products and sums are in f32, in the order of the formula of each encoding, and not fused. Packages that compute in
//! the dtype of a model round these numbers once more. Scales that are infinite or NaN are decoded as they are.
//!
//! Encodings:
//!
//! * [`gguf::Block`]: the blocks of GGUF files.
//! * [`Bnb4Bit`] and [`BnbInt8`]: NF4, FP4 and LLM.int8 of bitsandbytes.
//! * [`Gptq`] and [`Awq`]: integers packed into words, with scales and zeros in groups.
//! * [`Packed`] and [`Unpacked`]: compressed-tensors, of integers in words, and of bytes, integers or floats.
//! * [`Fp8Blocks`]: floats of 8 bits with a scale for each rectangle.
//! * [`Mxfp4`]: floats of 4 bits with a common exponent, as gpt-oss has them.
//!
//! An [`OwnedWeight`] has the memory of its parts, and [`Codes`] are for products that decode in registers.
//!
//! [`QuantConfig`] holds the settings of encodings in `config.json` of a checkpoint.
//!
//! An encoding is one file in `encodings/`: its settings, its parts with their dtypes and shapes, and the decoding of
//! rows. Three can be written, with the codes that their own packages choose: [`gguf::Block::encode`], [`nf4`] and
//! [`BnbInt8::encode_row`].

#![forbid(unsafe_code)]

mod bits;
mod codes;
mod config;
mod dtype;
mod encoding;
mod encodings;
mod error;
mod finite;
mod floats;
pub mod numbers;
mod owned;
mod parts;
mod scales;
mod views;
mod weight;

pub use codes::{AWQ_PLACES, BlockScales, Codes, ColumnGroups, Number, RowGroups, WordOrder};
pub use config::{ConfigError, LeftOut, QuantConfig};
pub use dtype::Dtype;
pub use encoding::Encoding;
pub use encodings::{
    Awq, Bnb4Bit, BnbInt8, Code, Fp8Blocks, Gptq, GptqVersion, Mxfp4, Packed, Unpacked,
};
pub use encodings::{gguf, nf4};
pub use error::QuantError;
pub use floats::{decode_floats, encode_bfloats, encode_halves};
pub use owned::{OwnedPart, OwnedWeight};
pub use parts::{Part, PartSpec};
pub use scales::Scales;
pub use weight::QuantizedWeight;
