//! The places of patches and tokens of pictures: integers and weights that follow from the sizes of pictures alone.
//!
//! The patches of a picture lie frame by frame. Within a frame, blocks of `merge · merge` patches, which become one token,
//! follow each other in raster order, and so do the patches of a block. Names of functions in `transformers` are those of its
//! `vision_utils`.

mod grid;
mod patches;
mod positions;

pub use self::grid::Grid;
pub(crate) use self::patches::{frame_lengths, interpolation, positions, windows};
pub(crate) use self::positions::{Clip, Marks, TokenPositions, Tokens};

#[cfg(test)]
mod tests;
