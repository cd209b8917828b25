//! The places of patches and tokens of pictures: integers and weights that follow from the sizes of pictures alone.
//!
//! The patches of a picture lie frame by frame. Within a frame, blocks of `merge · merge` patches, which become one token,
//! follow each other in raster order, and so do the patches of a block. [`Tokens::positions`] finds the positions of tokens
//! around pictures, as `get_rope_index` of `transformers` does.

mod grid;
mod patches;
mod positions;

pub use self::grid::Grid;
pub(crate) use self::patches::{frame_lengths, interpolation, positions, windows};
pub use self::positions::{Clip, Marks, TokenPositions, Tokens};

#[cfg(test)]
mod tests;
