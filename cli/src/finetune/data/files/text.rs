//! The text of a data file: decompressed, in UTF-8, without a byte order mark.

use super::kind::is_gzip;
use anyhow::{anyhow, bail, ensure};
use flate2::read::MultiGzDecoder;
use kernels_io::{Limit, escape_path};
use std::io::Read;
use std::path::Path;

/// The first bytes of files without text, and the names of their kinds.
const FOREIGN: [(&[u8], &str); 10] = [
    (b"\xff\xfe", UTF16),
    (b"\xfe\xff", UTF16),
    (b"\x1f\x8b", "compressed by gzip; unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it"),
    (b"\xfd7zXZ", "compressed by xz; unpack it"),
    (b"BZh", "compressed by bzip2; unpack it"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (
        b"PAR1",
        "a Parquet file; give it a name that ends in .parquet",
    ),
    (b"ARROW1", "an Arrow file; write it as JSON lines"),
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer instead of the file itself; fetch it with `git lfs pull`",
    ),
];

const UTF16: &str =
    "text in UTF-16, and not in UTF-8; convert it, for example with `iconv -f UTF-16 -t UTF-8`";

/// The largest size of a data file.
const LIMIT: Limit = Limit::mib("training data", 16 << 10);

/// Returns the rows of a Parquet file as JSON lines.
#[cfg(feature = "parquet")]
pub(super) fn rows(file: &Path) -> anyhow::Result<String> {
    let rows = super::super::parquet::rows(file, LIMIT)?;
    ensure!(!rows.is_empty(), "{} has no rows", escape_path(file));
    Ok(rows)
}

#[cfg(not(feature = "parquet"))]
pub(super) fn rows(file: &Path) -> anyhow::Result<String> {
    bail!(
        "{}: Parquet files are read by a build with `--features parquet`; or write it as JSON lines, for example with \
         pandas: `frame.to_json(\"data.jsonl\", orient=\"records\", lines=True)`",
        escape_path(file)
    )
}

/// Returns the text of a file, without a byte order mark.
pub(super) fn text(file: &Path) -> anyhow::Result<String> {
    let name = escape_path(file);
    let mut bytes = kernels_io::read(file, LIMIT)?;
    if is_gzip(file) {
        bytes = unpacked(&bytes, LIMIT).map_err(|why| anyhow!("{name}: {why}"))?;
    }
    let foreign = FOREIGN.iter().find(|(first, _)| bytes.starts_with(first));
    if let Some((_, what)) = foreign {
        bail!("{name} is {what}");
    }
    // Text in UTF-16 without a mark begins with half a letter.
    ensure!(
        !bytes.iter().take(2).any(|byte| *byte == 0),
        "{name} is {UTF16}"
    );
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + lines_in(&error.as_bytes()[..valid]);
        anyhow!("{name}:{line}: not valid UTF-8; convert it, for example with `iconv -f LATIN1 -t UTF-8`")
    })?;
    let text = match text.strip_prefix(MARK) {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    ensure!(!text.trim().is_empty(), "{name} is empty");
    Ok(text)
}

/// Decompresses gzip data of one or several members.
pub(super) fn unpacked(bytes: &[u8], limit: Limit) -> anyhow::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes).take(limit.bytes + 1);
    if let Err(error) = reader.read_to_end(&mut unpacked) {
        bail!("not a valid gzip file: {error}");
    }
    ensure!(
        unpacked.len() as u64 <= limit.bytes,
        "unpacked, it is larger than the limit of {} bytes for {}",
        limit.bytes,
        limit.what
    );
    Ok(unpacked)
}

/// The byte order mark.
pub(super) const MARK: char = '\u{feff}';

fn lines_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
