//! The kind of a data file, by its name.

use anyhow::bail;
use kernels_io::escape_path;
use std::path::Path;

/// The kind of content of a data file.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Lines,
    Json,
    Parquet,
}

impl Kind {
    /// Returns the kind of a file by the end of its name.
    pub(super) fn of(file: &Path) -> anyhow::Result<Self> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_start_matches('.').to_ascii_lowercase();
        let Some((_, ends)) = name.split_once('.') else {
            return Ok(Self::Text);
        };
        let mut ends = ends.strip_suffix(".gz").unwrap_or(ends).rsplit('.');
        let advice = match ends.next() {
            Some("json") => return Ok(Self::Json),
            Some("jsonl" | "ndjson" | "jsonlines" | "ldjson") => return Ok(Self::Lines),
            Some("parquet") if is_gzip(file) => {
                "the columns of a Parquet file are compressed inside of it; unpack it"
            }
            Some("parquet") => return Ok(Self::Parquet),
            Some("txt" | "text" | "md" | "markdown" | "rst" | "tex") => match ends.next() {
                Some("jsonl" | "json" | "ndjson") => {
                    "it may hold JSON, which is read from a name that ends in .jsonl or .json, and would be learned as \
                     plain text; rename it"
                }
                _ => return Ok(Self::Text),
            },
            Some("gz" | "tgz" | "zst" | "xz" | "bz2" | "lz4" | "zip" | "7z" | "tar") => {
                "it may be compressed, which is read from names such as data.jsonl.gz; unpack it, and name \
                 the file that comes out"
            }
            Some("csv" | "tsv" | "xls" | "xlsx" | "arrow" | "feather" | "orc") => {
                "tables are not read; write it as JSON lines, for example with pandas: \
                 `frame.to_json(\"data.jsonl\", orient=\"records\", lines=True)`"
            }
            _ => {
                "unknown file extension; JSON lines are read from .jsonl, one JSON value from .json, rows from .parquet, \
                 and a text, all of which is learned, from .txt or .md; rename it"
            }
        };
        bail!("{}: {advice}", escape_path(file))
    }
}

/// Returns `true` if the name of a file ends in `.gz`.
pub(super) fn is_gzip(file: &Path) -> bool {
    let end = file.extension();
    end.is_some_and(|end| end.eq_ignore_ascii_case("gz"))
}
