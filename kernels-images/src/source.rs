//! The places of pictures that records and people name.

use crate::{Decoding, Error, Picture};
use data_encoding::BASE64;
use kernels_io::{Limit, escape, read, shorten};
use std::fmt;
use std::path::{Path, PathBuf};

/// The largest file of a picture.
const LIMIT: Limit = Limit::mib("a picture", 256);

/// The longest part of a place that an error shows, in bytes.
const LONGEST_SHOWN: usize = 80;

/// The place of a picture: a file, or the text that names it.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// The bytes of a `data:` URL, as they are in a file.
    Bytes(Vec<u8>),
}

impl Source {
    /// Reads a path, relative to `folder`, a `file:` URL, or a `data:` URL in base64. Nothing is opened.
    ///
    /// # Errors
    /// Returns an error if the place is on the web, or if the URL is not valid.
    pub fn parse(place: &str, folder: &Path) -> Result<Self, Error> {
        let read = match scheme(place) {
            None if place.is_empty() => Err("the place of a picture is empty".into()),
            None => Ok(Self::File(folder.join(place))),
            Some(("file", rest)) => file(rest).map(Self::File),
            Some(("data", rest)) => data(rest).map(Self::Bytes),
            Some((scheme, _)) => Err(format!(
                "{scheme}: is not read; download the picture, and name the file"
            )),
        };
        read.map_err(|problem| Error::Record(format!("picture `{}`: {problem}", shown(place))))
    }

    /// Reads the picture.
    ///
    /// # Errors
    /// Returns an error that names the file if it can't be read, or as [`Picture::decode`] does.
    pub fn read(&self, decoding: &Decoding) -> Result<Picture, Error> {
        let name = self.to_string();
        match self {
            Self::File(file) => Picture::decode(&name, &read(file, LIMIT)?, decoding),
            Self::Bytes(bytes) => Picture::decode(&name, bytes, decoding),
        }
    }
}

impl fmt::Display for Source {
    /// Writes the name of the picture, not escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.to_string_lossy().fmt(f),
            Self::Bytes(bytes) => write!(f, "a picture in a data: URL ({} bytes)", bytes.len()),
        }
    }
}

/// Writes the name of the picture, not its bytes.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", escape(&self.to_string()))
    }
}

/// Returns the scheme of a URL in small letters, and the text after its colon. Returns `None` for a path, also with a
/// drive of Windows, which is one letter.
fn scheme(place: &str) -> Option<(&'static str, &str)> {
    const KNOWN: [&str; 2] = ["file", "data"];
    const REMOTE: [&str; 2] = ["http", "https"];
    let (scheme, rest) = place.split_once(':')?;
    let mut named = KNOWN.into_iter().chain(REMOTE);
    match named.find(|name| scheme.eq_ignore_ascii_case(name)) {
        Some(name) => Some((name, rest)),
        None if scheme.len() > 1 && rest.starts_with("//") => {
            Some(("another scheme than file: and data", rest))
        }
        None => None,
    }
}

/// Returns the path of a `file:` URL, behind its scheme.
fn file(rest: &str) -> Result<PathBuf, String> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    if !path.starts_with('/') {
        return Err(
            "a file: URL must have a whole path, such as file:///folder/picture.png".into(),
        );
    }
    let bytes = decode_percent(path.as_bytes())
        .ok_or("after % a file: URL must have two hexadecimal digits; write % as %25")?;
    let path = String::from_utf8(bytes).map_err(|_| "the path is not UTF-8")?;
    Ok(PathBuf::from(path))
}

fn decode_percent(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        decoded.push(match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                rest = behind;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (digit(*high)? * 16 + digit(*low)?) as u8
            }
            (b'%', _) => return None,
            (byte, _) => *byte,
        });
    }
    Some(decoded)
}

/// Returns the bytes of a `data:` URL, behind its scheme.
fn data(rest: &str) -> Result<Vec<u8>, String> {
    let (kind, data) = rest
        .split_once(',')
        .ok_or("a data: URL must have a comma before its data")?;
    let mut parameters = kind.split(';');
    let kind = parameters.next().unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("image/") {
        return Err("a data: URL must be of a picture, such as data:image/png;base64,…".into());
    }
    if !parameters.any(|parameter| parameter.eq_ignore_ascii_case("base64")) {
        return Err("a data: URL must be in base64, such as data:image/png;base64,…".into());
    }
    BASE64
        .decode(data.as_bytes())
        .map_err(|error| format!("its base64 is not valid: {error}"))
}

fn shown(place: &str) -> String {
    shorten(&escape(place), LONGEST_SHOWN).into_owned()
}
