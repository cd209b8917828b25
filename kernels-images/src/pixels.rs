//! Samples of every kind as RGB with 8 bits.

use image::DynamicImage;

/// The treatment of transparent pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alpha {
    /// Transparency is ignored. Transparent pixels have the colours that the file has there, as with Pillow's
    /// `convert("RGB")`. transformers does so with files that it opens itself.
    #[default]
    Dropped,
    /// The picture lies on white, as transformers 5 does with pictures that others opened with Pillow. Where a PNG
    /// names one transparent colour in samples of 2, 4 or 16 bits, Pillow takes another one for it.
    OnWhite,
}

/// Returns RGB with 8 bits, as Pillow converts. Of 16 bits the upper 8 count, but grey samples of 16 bits are cut off
/// at 255, which makes most of them white.
pub(crate) fn rgb(
    image: DynamicImage,
    is_wide_grey: bool,
    alpha: Alpha,
) -> Result<Vec<u8>, String> {
    let narrow = |samples: Vec<u16>| -> Vec<u8> {
        let narrow = |sample: u16| match is_wide_grey {
            true => sample.min(255) as u8,
            false => (sample >> 8) as u8,
        };
        samples.into_iter().map(narrow).collect()
    };
    let (samples, has_colours, has_alpha) = match image {
        DynamicImage::ImageRgb8(image) => return Ok(image.into_raw()),
        DynamicImage::ImageLuma8(image) => (image.into_raw(), false, false),
        DynamicImage::ImageLumaA8(image) => (image.into_raw(), false, true),
        DynamicImage::ImageRgba8(image) => (image.into_raw(), true, true),
        DynamicImage::ImageRgb16(image) => return Ok(narrow(image.into_raw())),
        DynamicImage::ImageLuma16(image) => (narrow(image.into_raw()), false, false),
        DynamicImage::ImageLumaA16(image) => (narrow(image.into_raw()), false, true),
        DynamicImage::ImageRgba16(image) => (narrow(image.into_raw()), true, true),
        other => {
            return Err(format!(
                "its colours are not supported: {:?}",
                other.color()
            ));
        }
    };
    let colours = if has_colours { 3 } else { 1 };
    let pixels = samples.chunks_exact(colours + usize::from(has_alpha));
    let pixels = pixels.flat_map(|pixel| {
        let colour = [0, colours / 2, colours - 1].map(|channel| pixel[channel]);
        match (has_alpha, alpha) {
            (true, Alpha::OnWhite) => colour.map(|sample| on_white(sample, pixel[colours])),
            _ => colour,
        }
    });
    Ok(pixels.collect())
}

/// Returns a sample that lies on white, by the formula of Pillow's `alpha_composite` for an opaque background.
fn on_white(sample: u8, alpha: u8) -> u8 {
    if alpha == 0 {
        return 255;
    }
    let (sample, alpha) = (u32::from(sample), u32::from(alpha));
    let sum = (sample * alpha + 255 * (255 - alpha) + 128) << 7;
    ((((sum >> 8) + sum) >> 8) >> 7) as u8
}
