//! Files as pixels in RGB.

use crate::header::{Format, Header, truncated};
use crate::pixels::{self, Alpha};
use crate::{Error, Source};
use image::codecs::{jpeg::JpegDecoder, png::PngDecoder};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, RgbImage};
use std::io::{Cursor, ErrorKind};
use std::path::Path;

/// The settings of decoding, and the limits of a picture's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoding {
    /// The largest width and height, in pixels.
    pub max_side: u32,
    /// The largest product of both. Decoding takes up to 16 bytes for each pixel.
    pub max_pixels: u64,
    /// The treatment of transparent pixels.
    pub alpha: Alpha,
}

impl Default for Decoding {
    /// Returns the limits of JPEG for the sides, and for pixels the number above which Pillow warns.
    fn default() -> Self {
        Self {
            max_side: 65_535,
            max_pixels: 89_478_485,
            alpha: Alpha::default(),
        }
    }
}

/// The pixels of a picture, upright, in RGB with 8 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    size: [usize; 2],
    rgb: Vec<u8>,
}

/// The memory that the parts of a PNG besides its pixels may take, in bytes.
const MOST_BESIDES: u64 = 64 << 20;

impl Picture {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error that names the file if it can't be read, or as [`Self::decode`] does.
    pub fn open(file: &Path, decoding: &Decoding) -> Result<Self, Error> {
        Source::File(file.to_owned()).read(decoding)
    }

    /// Decodes the bytes of a PNG or JPEG file. An orientation in EXIF is applied, as transformers does. Colour
    /// profiles and gamma are ignored, as Pillow does. `name` is the picture's in errors.
    ///
    /// # Errors
    /// Returns an error if the bytes are of another format, if the picture has no pixels or more than `decoding`
    /// allows, which is found before anything is decoded, or if the bytes are damaged or not all there. A JPEG that ends
    /// properly, but whose scans are damaged or too short, is decoded as far as they go.
    pub fn decode(name: &str, bytes: &[u8], decoding: &Decoding) -> Result<Self, Error> {
        Self::of_bytes(bytes, decoding).map_err(Error::picture(name))
    }

    /// Returns a picture of pixels, row by row, each with red, green and blue.
    ///
    /// # Errors
    /// Returns an error if there are no pixels, or not `3 · width · height` bytes.
    pub fn of_rgb([width, height]: [usize; 2], rgb: Vec<u8>) -> Result<Self, Error> {
        let pixels = width
            .checked_mul(height)
            .and_then(|pixels| pixels.checked_mul(3));
        if rgb.is_empty() || pixels != Some(rgb.len()) {
            let problem = format!("{width}×{height} pixels don't have {} bytes", rgb.len());
            return Err(Error::picture("a picture")(problem));
        }
        Ok(Self {
            size: [width, height],
            rgb,
        })
    }

    /// Returns the width and the height in pixels.
    pub fn size(&self) -> [usize; 2] {
        self.size
    }

    /// Returns the pixels, row by row, each with red, green and blue.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    fn of_bytes(bytes: &[u8], decoding: &Decoding) -> Result<Self, String> {
        let header = Header::read(bytes)?;
        check(header.size, decoding)?;
        let (image, orientation) = samples(bytes, header)?;
        let [width, height] = header.size;
        let is_wide_grey = header.format == Format::Png { is_wide_grey: true };
        let rgb = pixels::rgb(image, is_wide_grey, decoding.alpha)?;
        let image = RgbImage::from_raw(width, height, rgb);
        let mut image = DynamicImage::ImageRgb8(image.ok_or_else(truncated)?);
        image.apply_orientation(orientation);
        let size = [image.width(), image.height()].map(|side| side as usize);
        Ok(Self {
            size,
            rgb: image.into_bytes(),
        })
    }
}

fn check([width, height]: [u32; 2], decoding: &Decoding) -> Result<(), String> {
    let problem = if width.max(height) > decoding.max_side {
        format!("be at most {} pixels wide and high", decoding.max_side)
    } else if u64::from(width) * u64::from(height) > decoding.max_pixels {
        format!("have at most {} pixels", decoding.max_pixels)
    } else {
        return Ok(());
    };
    Err(format!(
        "the picture is {width}×{height}, and pictures must {problem}; scale it down"
    ))
}

fn samples(bytes: &[u8], header: Header) -> Result<(DynamicImage, Orientation), String> {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(MOST_BESIDES);
    let cursor = Cursor::new(bytes);
    match header.format {
        Format::Png { .. } => {
            let decoder = PngDecoder::with_limits(cursor, limits).map_err(damaged)?;
            upright(decoder, header.size)
        }
        Format::Jpeg => upright(JpegDecoder::new(cursor).map_err(damaged)?, header.size),
    }
}

/// Decodes a picture of this size. The decoder may take another part of a file for its header than [`Header`] does, so that
/// its own sizes are compared before it decodes.
fn upright(
    mut decoder: impl ImageDecoder,
    size: [u32; 2],
) -> Result<(DynamicImage, Orientation), String> {
    let (width, height) = decoder.dimensions();
    if [width, height] != size {
        return Err("its parts have different sizes; save it anew".into());
    }
    let orientation = decoder.orientation().map_err(damaged)?;
    let image = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    Ok((image, orientation))
}

fn damaged(error: ImageError) -> String {
    match error {
        ImageError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => truncated(),
        other => format!("it can't be decoded: {other}"),
    }
}
