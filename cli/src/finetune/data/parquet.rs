//! Rows of Parquet files, as JSON lines.

use super::turns::BYTES;
use crate::catching::catching;
use anyhow::{anyhow, bail, ensure};
use kernels_io::{Limit, escape, escape_path};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::resume_unwind;
use std::path::Path;

/// The largest description of a file's columns and parts.
const FOOTER: Limit = Limit::mib("the footer of a Parquet file", 16);

/// Bytes of stack for each byte of a footer. The crate reads groups inside of groups by recursion, and a group takes
/// five bytes of a footer at least.
const STACK_PER_BYTE: usize = 1 << 10;

/// Returns a JSON object for each row, each in a line of its own.
///
/// Old writers don't say which columns of bytes are texts. Bytes that are valid UTF-8 are, and others become an object with
/// the field [`BYTES`], which is refused where a text is needed.
///
/// # Errors
/// Returns an error if the file can't be read, is not a valid Parquet file, or is larger than `limit`, also as JSON.
pub fn rows(path: &Path, limit: Limit) -> anyhow::Result<String> {
    let name = escape_path(path);
    let invalid = |why: &str| anyhow!("{name} is not a valid Parquet file: {}", escape(why));
    // Opening it checks that it is a plain file.
    let mut file = kernels_io::open(path)?;
    let stack = (1 << 23) + STACK_PER_BYTE * footer(&mut file).map_err(|why| invalid(&why))?;
    let read = std::thread::Builder::new().stack_size(stack);
    // The crate panics on some files that are damaged.
    let read = read.spawn(move || catching(|| lines(file, limit.bytes)))?;
    let lines = read.join().unwrap_or_else(|panic| resume_unwind(panic));
    let lines = match lines.map_err(|why| invalid(&why))? {
        Ok(lines) => lines,
        Err(ParquetError::NYI(what)) => bail!("{name} can't be read: {}", escape(&what)),
        Err(error) => return Err(invalid(&error.to_string())),
    };
    ensure!(
        lines.len() as u64 <= limit.bytes,
        "{name}: as JSON, its rows are larger than the limit of {} bytes for {}",
        limit.bytes,
        limit.what
    );
    Ok(lines)
}

/// Returns the number of bytes of the footer, which stands before its length and a mark.
fn footer(file: &mut File) -> Result<usize, String> {
    const MARK: &[u8; 4] = b"PAR1";
    let said = |error: std::io::Error| error.to_string();
    let size = file.seek(SeekFrom::End(0)).map_err(said)?;
    let mut end = [0; 8];
    let at = size.checked_sub(8).ok_or("it is too short")?;
    file.seek(SeekFrom::Start(at)).map_err(said)?;
    file.read_exact(&mut end).map_err(said)?;
    let ([a, b, c, d, ..], mark) = (end, &end[4..]);
    match u32::from_le_bytes([a, b, c, d]) {
        _ if mark != MARK => Err("it does not end with PAR1; it may be cut off".to_owned()),
        length if u64::from(length) > at => Err("its footer does not fit".to_owned()),
        length if u64::from(length) > FOOTER.bytes => Err(format!(
            "{} has {length} bytes, and may have {}",
            FOOTER.what, FOOTER.bytes
        )),
        length => Ok(length as usize),
    }
}

/// Returns the rows as JSON lines. Ends behind the first row with which they are larger than `limit`.
fn lines(file: File, limit: u64) -> Result<String> {
    let mut lines = String::new();
    let reader = SerializedFileReader::new(file)?;
    let groups = reader.metadata().row_groups().iter();
    groups
        .flat_map(|group| group.columns())
        .try_for_each(|column| check_codec(column.compression()))?;
    for row in reader.get_row_iter(None)? {
        object(&row?, &mut lines);
        lines.push('\n');
        if lines.len() as u64 > limit {
            break;
        }
    }
    Ok(lines)
}

/// Refuses columns that are compressed in a way that this build lacks.
fn check_codec(codec: Compression) -> Result<()> {
    use Compression::{GZIP, SNAPPY, UNCOMPRESSED, ZSTD};
    if let UNCOMPRESSED | SNAPPY | GZIP(_) | ZSTD(_) = codec {
        return Ok(());
    }
    let codec = codec.to_string();
    let codec = codec.split('(').next().unwrap_or_default();
    Err(ParquetError::NYI(format!(
        "its columns are compressed as {codec}; write it with Snappy, zstd or gzip, or without compression"
    )))
}

/// Writes a row as a JSON object whose fields have the order of the columns.
fn object(row: &Row, text: &mut String) {
    list(
        text,
        ['{', '}'],
        row.get_column_iter(),
        |(name, field), text| {
            *text += &Value::from(name.as_str()).to_string();
            text.push(':');
            value(field, text);
        },
    );
}

fn value(field: &Field, text: &mut String) {
    match field {
        Field::Group(row) => object(row, text),
        Field::ListInternal(fields) => list(text, ['[', ']'], fields.elements(), value),
        // Maps of other keys than texts are rare in records; such a key is written as a text.
        Field::MapInternal(map) => list(text, ['{', '}'], map.entries(), |(key, field), text| {
            let key = match key.to_json_value() {
                Value::String(key) => key,
                key => key.to_string(),
            };
            *text += &Value::from(key).to_string();
            text.push(':');
            value(field, text);
        }),
        Field::Bytes(bytes) => match str::from_utf8(bytes.data()) {
            Ok(own) => *text += &Value::from(own).to_string(),
            Err(_) => *text += &json!({ BYTES: bytes.len() }).to_string(),
        },
        scalar => *text += &scalar.to_json_value().to_string(),
    }
}

/// Writes a list between brackets.
fn list<T>(
    text: &mut String,
    [open, close]: [char; 2],
    entries: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut String),
) {
    text.push(open);
    for (at, entry) in entries.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write(entry, text);
    }
    text.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finetune::data::Kind;
    use std::path::PathBuf;

    const LIMIT: Limit = Limit::mib("training data", 1);

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../tests/fixtures/parquet")
            .join(name)
    }

    #[test]
    fn rows_are_json_lines_in_the_order_of_the_columns() {
        let expected = [
            r#"{"messages":[{"role":"user","content":"Hé \"you\"\n"},{"role":"assistant","content":"Yes."}],"id":1,"score":0.5,"tags":{"z":1,"a":2},"empty":null}"#,
            r#"{"messages":[{"role":"user","content":"?"},{"role":"assistant","content":"!"}],"id":null,"score":null,"tags":{},"empty":null}"#,
            r#"{"messages":[{"role":"user","content":null},{"role":"assistant","content":""}],"id":-9223372036854775808,"score":null,"tags":null,"empty":null}"#,
        ];
        for compression in ["snappy", "zstd", "gzip"] {
            let rows = rows(&fixture(&format!("{compression}.parquet")), LIMIT).unwrap();
            assert_eq!(rows.lines().collect::<Vec<_>>(), expected, "{compression}");
        }
    }

    #[test]
    fn bytes_are_texts_if_they_are_utf_8() {
        let rows = rows(&fixture("bytes.parquet"), LIMIT).unwrap();
        let expected = [
            r#"{"prompt":"Où est-ce ?","chosen":" Here.","rejected":" There.","image":{"bytes that are not UTF-8":4},"digest":"abcd"}"#,
            r#"{"prompt":"a","chosen":" b","rejected":{"bytes that are not UTF-8":1},"image":null,"digest":{"bytes that are not UTF-8":4}}"#,
        ];
        assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
        // They are told where they are needed.
        let file = [fixture("bytes.parquet")];
        let said = crate::finetune::data::read(&file, Some(Kind::Pairs)).unwrap_err();
        let said = said.to_string();
        for expected in [
            "2 of the records",
            "bytes.parquet:1: `image` is read with conversations of --loss sft alone",
            "bytes.parquet:2: `rejected` must be a text or turns, but is 1 bytes that are not UTF-8",
        ] {
            assert!(said.contains(expected), "{said}");
        }
    }

    /// Returns the error of a file of these bytes.
    fn refused(bytes: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        rows(file.path(), LIMIT).unwrap_err().to_string()
    }

    #[test]
    fn files_that_are_cut_or_changed_are_errors() {
        let whole = std::fs::read(fixture("snappy.parquet")).unwrap();
        for length in (0..whole.len()).step_by(3) {
            let said = refused(&whole[..length]);
            assert!(said.contains("not a valid Parquet file"), "{said}");
        }
        // Changed bytes: an error, or other rows.
        for at in (0..whole.len()).step_by(7) {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), changed).unwrap();
            let _ = rows(file.path(), LIMIT);
        }
    }

    #[test]
    fn groups_as_deep_as_a_footer_can_hold_are_an_error() {
        // Thrift's compact protocol: a file's version, and its schema as a list of groups with one child each.
        const DEPTH: u32 = 1 << 20;
        let mut footer = vec![0x15, 2, 0x19, 0xfc];
        footer.extend([
            (DEPTH & 127) as u8 | 128,
            (DEPTH >> 7 & 127) as u8 | 128,
            (DEPTH >> 14) as u8,
        ]);
        for _ in 0..DEPTH {
            // Required, with the name "a" and one child.
            footer.extend([0x35, 0, 0x18, 1, b'a', 0x15, 2, 0]);
        }
        let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
        let file = [b"PAR1", &footer[..], &length, b"PAR1"].concat();
        assert!(refused(&file).contains("not a valid Parquet file"));
    }

    #[test]
    fn codecs_that_the_build_lacks_are_named() {
        let said = rows(&fixture("lz4.parquet"), LIMIT)
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("lz4.parquet can't be read: its columns are compressed as LZ4"),
            "{said}"
        );
    }

    #[test]
    fn rows_beyond_the_limit_are_an_error() {
        let none = Limit::mib("training data", 0);
        let said = rows(&fixture("zstd.parquet"), none)
            .unwrap_err()
            .to_string();
        assert!(said.contains("limit of 0 bytes"), "{said}");
    }
}
