//! The size to which a picture is resized.

/// The largest ratio of the sides of a picture.
const MOST_RATIO: f64 = 200.0;

/// The largest number of pixels after resizing, whatever a configuration says. In f32 each takes 24 bytes.
const MOST_PIXELS: f64 = (1u64 << 26) as f64;

/// Returns the width and the height to which a picture is resized: multiples of `factor` with at least `min_pixels`
/// and at most `max_pixels`, and nearly the picture's ratio, by the formula of transformers' `smart_resize`. Halves
/// round to even.
///
/// # Errors
/// Returns an error if a side is zero or more than 200 times as long as the other, or if the size would be zero or
/// above 2²⁶ pixels.
pub(crate) fn smart_resize(
    [width, height]: [usize; 2],
    factor: usize,
    [min_pixels, max_pixels]: [u64; 2],
) -> Result<[usize; 2], String> {
    let sides = [width as f64, height as f64];
    let (long, short) = (sides[0].max(sides[1]), sides[0].min(sides[1]));
    if short == 0.0 || factor == 0 {
        return Err(format!(
            "{width}×{height} pixels can't be resized to multiples of {factor}"
        ));
    }
    if long / short > MOST_RATIO {
        return Err(format!(
            "the picture is {width}×{height}, and one side must be at most {MOST_RATIO} times the other; cut it"
        ));
    }
    let (area, factor) = (sides[0] * sides[1], factor as f64);
    let (min_pixels, max_pixels) = (min_pixels as f64, max_pixels as f64);
    let mut resized = sides.map(|side| (side / factor).round_ties_even() * factor);
    if resized[0] * resized[1] > max_pixels {
        let ratio = (area / max_pixels).sqrt();
        resized = sides.map(|side| factor.max((side / ratio / factor).floor() * factor));
    } else if resized[0] * resized[1] < min_pixels {
        let ratio = (min_pixels / area).sqrt();
        resized = sides.map(|side| (side * ratio / factor).ceil() * factor);
    }
    let pixels = resized[0] * resized[1];
    if !(1.0..=MOST_PIXELS).contains(&pixels) {
        return Err(format!(
            "the picture is {width}×{height} and would be resized to {}×{}, but a size of 1 to {MOST_PIXELS} pixels is \
             supported; see min_pixels and max_pixels, also called size.shortest_edge and size.longest_edge",
            resized[0], resized[1]
        ));
    }
    Ok(resized.map(|side| side as usize))
}
