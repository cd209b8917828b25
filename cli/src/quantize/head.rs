//! The beginning of a GGUF file: metadata, copied from a file byte for byte or made anew, and the list of tensors.

use super::kind::Kind;
use anyhow::{Context, bail};
use kernels_io::escape;
use kernels_models::gguf::Value;
use std::io::{self, Read};
use std::ops::Range;

/// The beginning of a file that [`kernels_models::gguf::File`] has checked.
#[derive(Debug)]
pub struct Head {
    bytes: Vec<u8>,
    /// The keys of the metadata, with the places of key and value in `bytes`.
    pairs: Vec<(String, Range<usize>)>,
    /// Keys that are added behind those of the metadata, with the bytes of key and value.
    added: Vec<(String, Vec<u8>)>,
    pub tensors: Vec<Tensor>,
    /// The offset in the file of the first tensor's bytes.
    pub start: u64,
    pub alignment: u64,
}

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub name: String,
    /// The length of rows first.
    pub dims: Vec<u64>,
    /// ggml's number of the type.
    pub id: u32,
    /// The offset of its bytes after those of the beginning.
    pub offset: u64,
}

/// The keys whose values change when a file is quantised.
const QUANTISATION: &str = "general.quantization_version";
const FILE_TYPE: &str = "general.file_type";

/// The version of the layouts of blocks.
const VERSION: u32 = 2;

impl Head {
    /// Reads the beginning of a file. `alignment` is that of its metadata.
    ///
    /// # Errors
    /// Returns an error if the file ends too early or the system fails.
    pub fn read(file: impl Read, alignment: u64) -> io::Result<Self> {
        let mut cursor = Cursor {
            file,
            bytes: Vec::new(),
        };
        cursor.take(8)?;
        let (tensors, pairs) = (cursor.u64()?, cursor.u64()?);
        let mut head = Self {
            bytes: Vec::new(),
            pairs: Vec::new(),
            added: Vec::new(),
            tensors: Vec::new(),
            start: 0,
            alignment,
        };
        for _ in 0..pairs {
            let begin = cursor.bytes.len();
            let key = cursor.text()?;
            let kind = cursor.u32()?;
            cursor.skip_value(kind)?;
            head.pairs.push((key, begin..cursor.bytes.len()));
        }
        for _ in 0..tensors {
            let name = cursor.text()?;
            let dims = cursor.u32()?;
            let dims = (0..dims).map(|_| cursor.u64());
            head.tensors.push(Tensor {
                dims: dims.collect::<io::Result<_>>()?,
                name,
                id: cursor.u32()?,
                offset: cursor.u64()?,
            });
        }
        head.bytes = cursor.bytes;
        head.start = (head.bytes.len() as u64).next_multiple_of(alignment);
        Ok(head)
    }

    /// Returns the beginning of a file without tensors.
    ///
    /// # Errors
    /// Returns an error if a number is beyond the range of GGUF's usual types.
    pub fn of(pairs: &[(String, Value)]) -> anyhow::Result<Self> {
        let mut head = Self {
            bytes: [&b"GGUF"[..], &3_u32.to_le_bytes()].concat(),
            pairs: Vec::new(),
            added: Vec::new(),
            tensors: Vec::new(),
            start: 0,
            alignment: 32,
        };
        for (key, value) in pairs {
            let begin = head.bytes.len();
            put_pair(&mut head.bytes, key, value)?;
            head.pairs.push((key.clone(), begin..head.bytes.len()));
        }
        Ok(head)
    }

    /// Adds values to the metadata, in place of those that the same keys have.
    ///
    /// # Errors
    /// Returns an error if a number is beyond the range of GGUF's usual types.
    pub fn add(&mut self, pairs: &[(&str, Value)]) -> anyhow::Result<()> {
        for (key, value) in pairs {
            let mut bytes = Vec::new();
            put_pair(&mut bytes, key, value)?;
            self.added.push(((*key).to_owned(), bytes));
        }
        Ok(())
    }

    /// Returns the beginning of a file with the same metadata, but for the type of its tensors, and with these tensors,
    /// whose bytes follow each other, aligned.
    pub fn with(&self, file_type: u32, tensors: &[(&str, &[u64], Kind, u64)]) -> Vec<u8> {
        let kept = self.pairs.iter().filter(|(key, _)| {
            let is_added = self.added.iter().any(|(added, _)| added == key);
            !(is_added || key == QUANTISATION || key == FILE_TYPE || key.starts_with("split."))
        });
        let own = [(QUANTISATION, VERSION), (FILE_TYPE, file_type)];
        let mut out = self.bytes[..8].to_vec();
        out.extend((tensors.len() as u64).to_le_bytes());
        let count = kept.clone().count() + own.len() + self.added.len();
        out.extend((count as u64).to_le_bytes());
        for (_, place) in kept {
            out.extend(&self.bytes[place.clone()]);
        }
        for (key, value) in own {
            put_text(&mut out, key);
            out.extend(U32.to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        for (_, bytes) in &self.added {
            out.extend(bytes);
        }
        let mut offset = 0_u64;
        for (name, dims, kind, bytes) in tensors {
            put_text(&mut out, name);
            out.extend((dims.len() as u32).to_le_bytes());
            out.extend(dims.iter().flat_map(|side| side.to_le_bytes()));
            out.extend(kind.id().to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += bytes.next_multiple_of(self.alignment);
        }
        let aligned = (out.len() as u64).next_multiple_of(self.alignment);
        out.resize(aligned as usize, 0);
        out
    }
}

fn put_pair(out: &mut Vec<u8>, key: &str, value: &Value) -> anyhow::Result<()> {
    put_text(out, key);
    put_value(out, value).with_context(|| format!("key `{}`", escape(key)))
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Puts the type of a value and the value. Numbers have the types that llama.cpp asks for: sizes and ids are unsigned,
/// and integers in lists have a sign.
fn put_value(out: &mut Vec<u8>, value: &Value) -> anyhow::Result<()> {
    let (kind, list) = match value {
        Value::List(list) => (LIST, list.as_slice()),
        single => (kind(single, U32)?, std::slice::from_ref(single)),
    };
    out.extend(kind.to_le_bytes());
    let of_element = match (kind, list.first()) {
        (LIST, Some(first)) => self::kind(first, I32)?,
        (LIST, None) => TEXT,
        (kind, _) => kind,
    };
    if kind == LIST {
        out.extend(of_element.to_le_bytes());
        out.extend((list.len() as u64).to_le_bytes());
    }
    for value in list {
        match (of_element, value) {
            (U32, Value::Integer(number)) => out.extend(u32::try_from(*number)?.to_le_bytes()),
            (I32, Value::Integer(number)) => out.extend(i32::try_from(*number)?.to_le_bytes()),
            (F32, Value::F32(number)) => out.extend(number.to_le_bytes()),
            (FLAG, Value::Flag(flag)) => out.push(u8::from(*flag)),
            (TEXT, Value::String(text)) => put_text(out, text),
            (_, other) => bail!("{other} is of another type than the values before it"),
        }
    }
    Ok(())
}

/// Returns the number of the type of a value that is not a list. Integers get the number `integer`.
fn kind(value: &Value, integer: u32) -> anyhow::Result<u32> {
    Ok(match value {
        Value::Integer(_) => integer,
        Value::F32(_) => F32,
        Value::Flag(_) => FLAG,
        Value::String(_) => TEXT,
        other => bail!("{other} is of a type that is not written"),
    })
}

/// The numbers of types of values.
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const FLAG: u32 = 7;
const TEXT: u32 = 8;
const LIST: u32 = 9;

/// Reads a file and keeps the bytes.
struct Cursor<R> {
    file: R,
    bytes: Vec<u8>,
}

impl<R: Read> Cursor<R> {
    /// Reads bytes. Memory grows with the bytes in the file, not with the sizes that it names.
    fn take(&mut self, count: u64) -> io::Result<&[u8]> {
        let begin = self.bytes.len();
        let read = self
            .file
            .by_ref()
            .take(count)
            .read_to_end(&mut self.bytes)?;
        match read as u64 == count {
            true => Ok(&self.bytes[begin..]),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn u32(&mut self) -> io::Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn text(&mut self) -> io::Result<String> {
        let length = self.u64()?;
        let text = String::from_utf8(self.take(length)?.to_vec());
        text.map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn skip_value(&mut self, kind: u32) -> io::Result<()> {
        match kind {
            TEXT => {
                let length = self.u64()?;
                self.take(length)?;
            }
            LIST => {
                let (kind, count) = (self.u32()?, self.u64()?);
                match size(kind) {
                    Some(size) => {
                        let bytes = count.checked_mul(size).ok_or(io::ErrorKind::InvalidData)?;
                        self.take(bytes)?;
                    }
                    None => (0..count).try_for_each(|_| self.skip_value(kind))?,
                }
            }
            kind => {
                self.take(size(kind).ok_or(io::ErrorKind::InvalidData)?)?;
            }
        }
        Ok(())
    }
}

/// Returns the number of bytes of a value of a type that is not a text or a list.
fn size(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}
