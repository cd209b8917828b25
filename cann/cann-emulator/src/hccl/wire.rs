//! Messages between the processes of a group.
//!
//! A rank that connects sends a [`Hello`] of fixed size. After it come messages, each with its length in eight bytes
//! before it. A reader takes memory as bytes arrive, whatever the length says, and takes no message that it does not
//! understand whole.

use std::io::{self, Read};

use super::call::{Operation, Part};
use super::meeting::Key;
use super::root::{MARK, Root};
use crate::error::{Failure, Outcome};
use crate::ops::reduce_ranks::{Number, Reduction};

/// The first message of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) token: [u8; 16],
    /// A random number of the rank's process.
    pub(crate) process: u64,
    pub(crate) size: u32,
    pub(crate) rank: u32,
    pub(crate) device: i32,
}

impl Hello {
    pub(crate) const LENGTH: usize = 52;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        bytes.extend(self.token);
        bytes.extend(self.process.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(self.rank.to_le_bytes());
        bytes.extend(self.device.to_le_bytes());
        bytes
    }

    /// Reads the message of a rank that knows the root. Returns `None` for any other bytes.
    pub(crate) fn decode(bytes: &[u8], root: &Root) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        let mark: [u8; 16] = bytes.array()?;
        let hello = Self {
            token: bytes.array()?,
            process: u64::from_le_bytes(bytes.array()?),
            size: u32::from_le_bytes(bytes.array()?),
            rank: u32::from_le_bytes(bytes.array()?),
            device: i32::from_le_bytes(bytes.array()?),
        };
        (mark == *MARK && hello.token == root.token && bytes.0.is_empty()).then_some(hello)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// All ranks have come.
    Welcome,
    /// The rank can't join.
    Refused(Failure),
    /// A rank's part of a meeting, or the reason why it has none.
    Part(Key, Outcome<Part>),
    /// A rank waits no longer.
    GaveUp(Key, Failure),
    /// The data for a rank.
    Answer(Key, Outcome<Vec<Vec<u8>>>),
}

/// More bytes than a collective of the largest count has on one device.
const MOST: u64 = 1 << 40;

const NUMBERS: [Number; 12] = [
    Number::I8,
    Number::I16,
    Number::I32,
    Number::I64,
    Number::U8,
    Number::U16,
    Number::U32,
    Number::U64,
    Number::F16,
    Number::BF16,
    Number::F32,
    Number::F64,
];

const REDUCTIONS: [Reduction; 4] = [
    Reduction::Sum,
    Reduction::Product,
    Reduction::Maximum,
    Reduction::Minimum,
];

impl Message {
    /// Reads a message.
    pub(crate) fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 8];
        stream.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        let wrong = |text| io::Error::new(io::ErrorKind::InvalidData, text);
        if length > MOST {
            return Err(wrong("a message is too long"));
        }
        let mut bytes = Vec::new();
        stream.take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::decode(&bytes).ok_or_else(|| wrong("a message makes no sense"))
    }

    /// Returns the message with its length before it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 8];
        match self {
            Self::Welcome => out.push(0),
            Self::Refused(failure) => {
                out.push(1);
                put_failure(&mut out, failure);
            }
            Self::Part(key, part) => {
                out.push(2);
                put_key(&mut out, *key);
                put_outcome(&mut out, part, put_part);
            }
            Self::GaveUp(key, failure) => {
                out.push(3);
                put_key(&mut out, *key);
                put_failure(&mut out, failure);
            }
            Self::Answer(key, results) => {
                out.push(4);
                put_key(&mut out, *key);
                put_outcome(&mut out, results, |out, blocks| put_blocks(out, blocks));
            }
        }
        let length = out.len() as u64 - 8;
        out[..8].copy_from_slice(&length.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        let message = match bytes.byte()? {
            0 => Self::Welcome,
            1 => Self::Refused(bytes.failure()?),
            2 => Self::Part(bytes.key()?, bytes.outcome(Bytes::part)?),
            3 => Self::GaveUp(bytes.key()?, bytes.failure()?),
            4 => Self::Answer(bytes.key()?, bytes.outcome(Bytes::blocks)?),
            _ => return None,
        };
        bytes.0.is_empty().then_some(message)
    }
}

fn put_size(out: &mut Vec<u8>, size: usize) {
    out.extend((size as u64).to_le_bytes());
}

fn put_key(out: &mut Vec<u8>, key: Key) {
    match key {
        Key::All(number) => {
            out.push(0);
            out.extend(number.to_le_bytes());
        }
        Key::Pair { from, to, number } => {
            out.push(1);
            out.extend(from.to_le_bytes());
            out.extend(to.to_le_bytes());
            out.extend(number.to_le_bytes());
        }
    }
}

fn put_failure(out: &mut Vec<u8>, failure: &Failure) {
    out.extend(failure.code.to_le_bytes());
    put_size(out, failure.text.len());
    out.extend(failure.text.as_bytes());
}

fn put_outcome<T>(out: &mut Vec<u8>, outcome: &Outcome<T>, put: fn(&mut Vec<u8>, &T)) {
    match outcome {
        Ok(value) => {
            out.push(0);
            put(out, value);
        }
        Err(failure) => {
            out.push(1);
            put_failure(out, failure);
        }
    }
}

fn put_blocks(out: &mut Vec<u8>, blocks: &[Vec<u8>]) {
    put_size(out, blocks.len());
    for block in blocks {
        put_size(out, block.len());
        out.extend(block);
    }
}

fn put_part(out: &mut Vec<u8>, part: &Part) {
    let (tag, by, root) = match part.operation {
        Operation::Barrier => (0, None, 0),
        Operation::Broadcast { root } => (1, None, root),
        Operation::Reduce { by, root } => (2, Some(by), root),
        Operation::AllReduce { by } => (3, Some(by), 0),
        Operation::ReduceScatter { by } => (4, Some(by), 0),
        Operation::AllGather => (5, None, 0),
        Operation::Scatter { root } => (6, None, root),
        Operation::AllToAll => (7, None, 0),
        Operation::Pair => (8, None, 0),
    };
    let by = by.map_or(0, |by| place(&REDUCTIONS, by));
    out.extend([tag, by, place(&NUMBERS, part.number)]);
    put_size(out, root);
    put_blocks(out, &part.sends);
    put_size(out, part.receives.len());
    for count in &part.receives {
        put_size(out, *count);
    }
}

/// Returns the place of a value in the list of all its kind.
fn place<T: PartialEq>(all: &[T], value: T) -> u8 {
    let place = all.iter().position(|one| *one == value);
    place.expect("the list has every value of the type") as u8
}

/// Bytes that are not yet read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    fn size(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }

    fn key(&mut self) -> Option<Key> {
        match self.byte()? {
            0 => Some(Key::All(self.number()?)),
            1 => Some(Key::Pair {
                from: u32::from_le_bytes(self.array()?),
                to: u32::from_le_bytes(self.array()?),
                number: self.number()?,
            }),
            _ => None,
        }
    }

    fn failure(&mut self) -> Option<Failure> {
        let code = i32::from_le_bytes(self.array()?);
        let length = self.size()?;
        let text = String::from_utf8_lossy(self.take(length)?);
        Some(Failure::new(code, text))
    }

    fn outcome<T>(&mut self, read: fn(&mut Self) -> Option<T>) -> Option<Outcome<T>> {
        match self.byte()? {
            0 => Some(Ok(read(self)?)),
            1 => Some(Err(self.failure()?)),
            _ => None,
        }
    }

    /// Reads a list whose length comes first. Each element takes at least eight bytes.
    fn list<T>(&mut self, read: fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.size()?;
        if length > self.0.len() / 8 {
            return None;
        }
        (0..length).map(|_| read(self)).collect()
    }

    fn blocks(&mut self) -> Option<Vec<Vec<u8>>> {
        self.list(|bytes| {
            let length = bytes.size()?;
            Some(bytes.take(length)?.to_vec())
        })
    }

    fn part(&mut self) -> Option<Part> {
        let [tag, by, number] = self.array()?;
        let by = *REDUCTIONS.get(usize::from(by))?;
        let root = self.size()?;
        let operation = match tag {
            0 => Operation::Barrier,
            1 => Operation::Broadcast { root },
            2 => Operation::Reduce { by, root },
            3 => Operation::AllReduce { by },
            4 => Operation::ReduceScatter { by },
            5 => Operation::AllGather,
            6 => Operation::Scatter { root },
            7 => Operation::AllToAll,
            8 => Operation::Pair,
            _ => return None,
        };
        Some(Part {
            operation,
            number: *NUMBERS.get(usize::from(number))?,
            sends: self.blocks()?,
            receives: self.list(Self::size)?,
        })
    }
}

#[cfg(test)]
mod tests;
