//! Pictures as vision-language models take them: PNG and JPEG files decoded, resized, normalised and cut into
//! patches, and the tokens that stand for them, as the image processors of transformers do it for Qwen2-VL,
//! Qwen2.5-VL, Qwen3-VL, Qwen3.5 and Qwen-Omni.
//!
//! ```no_run
//! use kernels_images::{Decoding, Picture, Placeholders, Processor};
//! use std::path::Path;
//!
//! let folder = Path::new("Qwen3-VL-4B-Instruct");
//! let processor = Processor::open(folder)?;
//! let picture = Picture::open(Path::new("cat.png"), &Decoding::default())?;
//! let patches = processor.patches("cat.png", &picture)?;
//! let [time, rows, columns] = patches.grid();
//! assert_eq!(patches.values().len(), time * rows * columns * patches.width());
//!
//! // Each `<|image_pad|>` of a conversation becomes as many as the language model has rows of the picture.
//! let placeholders = Placeholders::of_folder(folder, processor.merge_size())?;
//! let tokens = placeholders.expand(&[151644, 151652, 151655, 151653], &[patches.grid()])?;
//! # let _ = tokens.ids;
//! # Ok::<(), kernels_images::Error>(())
//! ```
//!
//! * [`Picture`] has a file's pixels in RGB, as Pillow's `convert("RGB")` makes them. Sizes are checked first.
//! * [`Processor`] follows the settings of `preprocessor_config.json`. [`Resizer`] is the package whose bicubic
//!   resizing it computes: Pillow or torchvision, bit for bit.
//! * [`Patches`] are `pixel_values` and a row of `image_grid_thw`.
//! * [`Placeholders`] expands the tokens that stand for pictures.
//! * [`Source`] is the place of a picture that a record names, and [`Images`] and [`Part`] read a record's pictures.

#![forbid(unsafe_code)]

mod config;
mod decode;
mod error;
mod header;
mod part;
mod patches;
mod pixels;
mod placeholders;
mod processor;
mod resize;
mod size;
mod source;

pub use decode::{Decoding, Picture};
pub use error::Error;
pub use part::{Images, Part};
pub use patches::Patches;
pub use pixels::Alpha;
pub use placeholders::{Expanded, Placeholders};
pub use processor::Processor;
pub use resize::Resizer;
pub use source::Source;
