//! Importance matrices of llama.cpp's `llama-imatrix`: for each column of a weight, the mean square of the numbers
//! that it was multiplied by in a text.
//!
//! Two kinds of files are read. A GGUF file has the sums of the squares (`NAME.in_sum2`) and their counts
//! (`NAME.counts`), with a row for each expert. An older file, without a mark at its beginning, is a list of names with
//! sums, which are means times the number of calls, and behind them the number of parts of the text and its name.

use anyhow::{Context, bail, ensure};
use kernels_io::{Limit, escape, escape_path};
use kernels_models::gguf::{self, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// An importance matrix, by the names of the weights in GGUF files.
#[derive(Debug)]
pub struct Importance {
    path: PathBuf,
    entries: Entries,
}

#[derive(Debug)]
enum Entries {
    Gguf(Box<gguf::File>),
    Old(Old),
}

/// What a file of the older kind holds.
#[derive(Debug)]
struct Old {
    means: HashMap<String, Vec<f32>>,
    /// The number of parts of the text, and its name, if the file has them.
    text: Option<(i64, String)>,
}

/// The most bytes of a text that llama.cpp writes for a file, without the end that C has.
const TEXT: usize = 127;

/// The largest file of the older kind. That of a model of 70 billion parameters has 50 MB.
const LIMIT: Limit = Limit::mib("an importance matrix", 1024);

impl Importance {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if it is neither kind.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = escape_path(path);
        let mut start = [0; 4];
        let read = std::io::Read::read_exact(&mut kernels_io::open(path)?, &mut start);
        read.with_context(|| format!("{shown}: not an importance matrix, it is too short"))?;
        let entries = match &start {
            b"GGUF" => Entries::Gguf(Box::new(opened(path)?)),
            _ => Entries::Old(old(&kernels_io::read(path, LIMIT)?).with_context(|| shown)?),
        };
        Ok(Self {
            path: path.into(),
            entries,
        })
    }

    /// Returns the importance of each column of a weight, of one matrix after another if there are several. `dims` are the
    /// length of rows, their number, and the number of matrices. Returns `None` if the file does not have it.
    ///
    /// # Errors
    /// Returns an error if the entry is of a weight of another size, if a number is negative or not finite, or if all
    /// columns of a matrix are 0.
    pub fn of(&self, name: &str, dims: &[u64]) -> anyhow::Result<Option<Vec<f32>>> {
        let path = escape_path(&self.path);
        let found = match &self.entries {
            Entries::Old(old) => old.means.get(name).cloned(),
            Entries::Gguf(file) => means(file, name)?,
        };
        let Some(found) = found else {
            return Ok(None);
        };
        let shown = escape(name);
        let mut sides = dims.iter().take(1).chain(dims.iter().skip(2));
        let expected = sides.try_fold(1_u64, |all, &side| all.checked_mul(side));
        if expected != Some(found.len() as u64) {
            // An embedding is looked up, not multiplied, unless it is the head as well.
            if name == "token_embd.weight" {
                return Ok(None);
            }
            bail!(
                "{path}: the entry of `{shown}` has {} numbers, and the weight {} columns; the file is of another model",
                found.len(),
                expected.unwrap_or(u64::MAX)
            );
        }
        let wrong = found
            .iter()
            .find(|number| !number.is_finite() || **number < 0.0);
        if let Some(number) = wrong {
            bail!("{path}: the entry of `{shown}` holds {number}, and means of squares are from 0");
        }
        let columns = dims.first().map_or(1, |&columns| columns as usize).max(1);
        let mut matrices = found.chunks(columns);
        ensure!(
            matrices.all(|matrix| matrix.iter().any(|&number| number > 0.0)),
            "{path}: the entry of `{shown}` is 0 in all columns of a matrix, whose codes would be arbitrary; make it from \
             a longer text"
        );
        Ok(Some(found))
    }

    /// Returns the metadata by which `llama-quantize` says what a file was quantised with: the path of the importance
    /// matrix, the name of its text, the number of its entries, and of the parts of the text.
    ///
    /// # Errors
    /// Returns an error if the metadata of the importance matrix have other types.
    pub fn described(&self) -> anyhow::Result<Vec<(&'static str, Value)>> {
        let (entries, text, parts) = match &self.entries {
            Entries::Old(Old { means, text }) => {
                let name = text.as_ref().map(|(_, name)| name.as_str());
                (means.len(), name, text.as_ref().map(|(parts, _)| *parts))
            }
            Entries::Gguf(file) => {
                let sums = file.names().filter(|name| name.ends_with(".in_sum2"));
                let metadata = file.metadata();
                let texts = metadata.strings("imatrix.datasets")?;
                let first = texts.and_then(|texts| texts.first().copied());
                (
                    sums.count(),
                    first,
                    metadata.integer("imatrix.chunk_count")?,
                )
            }
        };
        let string = |text: &str| Value::String(text[..text.floor_char_boundary(TEXT)].to_owned());
        let path = self.path.to_string_lossy();
        let pairs = [
            ("quantize.imatrix.file", Some(string(&path))),
            ("quantize.imatrix.dataset", text.map(string)),
            (
                "quantize.imatrix.entries_count",
                Some(Value::Integer(entries as i128)),
            ),
            (
                "quantize.imatrix.chunks_count",
                parts
                    .filter(|parts| *parts > 0)
                    .map(|parts| Value::Integer(parts.into())),
            ),
        ];
        let known = pairs.into_iter();
        Ok(known
            .filter_map(|(key, value)| Some((key, value?)))
            .collect())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn opened(path: &Path) -> anyhow::Result<gguf::File> {
    let file = gguf::File::open(path)?;
    let kind = file.metadata().string("general.type")?;
    ensure!(
        kind == Some("imatrix"),
        "{}: `general.type` is {}, not `imatrix`; name a file of llama.cpp's `llama-imatrix`",
        escape_path(path),
        escape(kind.unwrap_or("missing"))
    );
    Ok(file)
}

/// Returns the means of a weight. All columns of a matrix without a count, such as of an expert that no token chose, are
/// equally important.
fn means(file: &gguf::File, name: &str) -> anyhow::Result<Option<Vec<f32>>> {
    let [sums, counts] = ["in_sum2", "counts"].map(|end| format!("{name}.{end}"));
    let Some(shape) = file.shape(&sums) else {
        return Ok(None);
    };
    let columns = shape.last().copied().unwrap_or(0);
    let (mut sums, counts) = (file.read(&sums)?, file.read(&counts)?);
    ensure!(
        columns > 0 && sums.len() / columns == counts.len(),
        "{}: `{}` has {} counts for {} rows of sums",
        escape_path(file.path()),
        escape(name),
        counts.len(),
        sums.len().checked_div(columns).unwrap_or(0)
    );
    for (row, count) in sums.chunks_mut(columns).zip(counts) {
        ensure!(
            count.is_finite() && count >= 0.0,
            "{}: `{}` has the count {count}",
            escape_path(file.path()),
            escape(name)
        );
        match count > 0.0 {
            true => row.iter_mut().for_each(|sum| *sum /= count),
            false => row.fill(1.0),
        }
    }
    Ok(Some(sums))
}

/// Reads a file of the older kind. The oldest ones end with the entries.
fn old(bytes: &[u8]) -> anyhow::Result<Old> {
    const WRONG: &str = "not an importance matrix";
    let mut rest = bytes;
    let mut entries = HashMap::new();
    let count = take_size(&mut rest).context(WRONG)?;
    ensure!(count > 0, "{WRONG}: it has no entries");
    for at in 0..count {
        let broken = || format!("{WRONG}: entry {at} of {count} is cut off or has a wrong size");
        let length = take_size(&mut rest).with_context(broken)?;
        let name = take(&mut rest, length).with_context(broken)?;
        let name = std::str::from_utf8(name).with_context(broken)?.to_owned();
        let calls = take_size(&mut rest).with_context(broken)?;
        let length = take_size(&mut rest).with_context(broken)?;
        let sums = length
            .checked_mul(4)
            .and_then(|length| take(&mut rest, length));
        let sums = sums.filter(|sums| !sums.is_empty()).with_context(broken)?;
        let calls = match calls {
            0 => 1.0,
            calls => calls as f32,
        };
        let sums = sums.as_chunks().0.iter();
        let means = sums.map(|sum| f32::from_le_bytes(*sum) / calls).collect();
        if entries.insert(name.clone(), means).is_some() {
            bail!("{WRONG}: `{}` has two entries", escape(&name));
        }
    }
    let text = match rest.is_empty() {
        true => None,
        false => Some(of_text(&mut rest).with_context(|| {
            format!("{WRONG}: what follows the entries is cut off or has a wrong size")
        })?),
    };
    Ok(Old {
        means: entries,
        text,
    })
}

/// Takes the number of parts of the text, and its name.
fn of_text(rest: &mut &[u8]) -> Option<(i64, String)> {
    let parts = take(rest, 4)?.try_into().ok()?;
    let length = take_size(rest)?;
    let name = String::from_utf8_lossy(take(rest, length)?).into_owned();
    Some((i32::from_le_bytes(parts).into(), name))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// Takes a number of 32 bits that is not negative.
fn take_size(rest: &mut &[u8]) -> Option<usize> {
    let bytes = take(rest, 4)?.try_into().ok()?;
    usize::try_from(i32::from_le_bytes(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(entries: &[(&str, i32, &[f32])]) -> Vec<u8> {
        let mut bytes = (entries.len() as i32).to_le_bytes().to_vec();
        for (name, calls, sums) in entries {
            bytes.extend((name.len() as i32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend(calls.to_le_bytes());
            bytes.extend((sums.len() as i32).to_le_bytes());
            bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        }
        bytes
    }

    #[test]
    fn sums_are_divided_by_calls() {
        let mut bytes = file(&[("a", 4, &[2.0, 6.0]), ("b", 0, &[3.0])]);
        bytes.extend(b"\x04\0\0\0\x01\0\0\0x");
        let Old { means, text } = old(&bytes).unwrap();
        assert_eq!(means["a"], [0.5, 1.5]);
        assert_eq!(means["b"], [3.0]);
        assert_eq!(text, Some((4, "x".to_owned())));
        bytes.pop();
        let said = format!("{:#}", old(&bytes).unwrap_err());
        assert!(
            said.contains("what follows the entries is cut off"),
            "{said}"
        );
    }

    #[test]
    fn damaged_files_are_refused() {
        let whole = file(&[("a", 1, &[1.0, 2.0]), ("b", 1, &[1.0])]);
        for length in 0..whole.len() {
            assert!(old(&whole[..length]).is_err(), "{length}");
        }
        assert!(old(&whole).is_ok());
        let said = |bytes: &[u8]| format!("{:#}", old(bytes).unwrap_err());
        assert!(said(&file(&[])).contains("no entries"));
        assert!(said(&file(&[("a", 1, &[1.0]), ("a", 1, &[1.0])])).contains("two entries"));
        assert!(said(&[0xff; 64]).contains("not an importance matrix"));
        // Sizes beyond the file take no memory.
        let mut large = file(&[("a", 1, &[1.0])]);
        let at = large.len() - 8;
        large[at..at + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(said(&large).contains("entry 0 of 1"));
    }

    #[test]
    fn entries_of_other_models_are_refused() {
        let entries = [
            ("w", &[1.0, 2.0][..]),
            ("bad", &[1.0, -1.0]),
            ("idle", &[1.0, 0.0, 0.0, 0.0]),
            ("token_embd.weight", &[1.0]),
        ];
        let own = Importance {
            path: "matrix.dat".into(),
            entries: Entries::Old(Old {
                means: entries
                    .into_iter()
                    .map(|(name, means)| (name.to_owned(), means.to_vec()))
                    .collect(),
                text: None,
            }),
        };
        assert_eq!(own.of("w", &[2, 5]).unwrap(), Some(vec![1.0, 2.0]));
        assert_eq!(own.of("w", &[1, 5, 2]).unwrap(), Some(vec![1.0, 2.0]));
        assert_eq!(own.of("other", &[2, 5]).unwrap(), None);
        assert_eq!(own.of("token_embd.weight", &[2, 5]).unwrap(), None);
        let said = |name, dims: &[u64]| own.of(name, dims).unwrap_err().to_string();
        assert!(said("w", &[3, 5]).contains("another model"));
        assert!(said("bad", &[2, 5]).contains("holds -1"));
        assert!(said("idle", &[2, 5, 2]).contains("is 0 in all columns"));
        assert!(said("w", &[2, 5, 1 << 32, 1 << 32]).contains("another model"));
    }
}
