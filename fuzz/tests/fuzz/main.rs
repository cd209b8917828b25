//! The fuzz targets: everything that reads what others wrote.

mod files;
mod policies;
#[cfg(feature = "remote")]
mod remote;
mod weights;

use kernels_fuzz::Target;

/// A target whose reading takes memory for the input alone.
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
