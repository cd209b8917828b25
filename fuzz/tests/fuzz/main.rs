//! The fuzz targets: all code that reads data from outside.

mod files;
#[cfg(feature = "images")]
mod pictures;
mod policies;
#[cfg(feature = "remote")]
mod remote;
mod weights;

use kernels_fuzz::Target;

/// Returns a target whose reading takes memory only for the input.
fn target<'a>(name: &'a str, words: &'a [&'a str]) -> Target<'a> {
    Target {
        name,
        words,
        memory: 0,
    }
}

fn text(input: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(input).map_err(|error| error.to_string())
}
