//! Reading of files up to a limit.

use object::read::{ReadCache, ReadCacheOps, ReadRef};
use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

/// A file, and the last error of reading it, which `object` does not report.
#[derive(Debug)]
pub struct Source<F> {
    file: F,
    failure: Option<io::Error>,
}

impl<F: Read + Seek> Source<F> {
    pub fn new(file: F) -> Self {
        Self {
            file,
            failure: None,
        }
    }

    /// Returns the last error of the system.
    pub fn failure(self) -> Option<io::Error> {
        self.failure
    }

    fn note<T>(&mut self, done: impl FnOnce(&mut F) -> io::Result<T>) -> Result<T, ()> {
        done(&mut self.file).map_err(|error| {
            // A file that ends early is damaged, which is not an error of the system.
            if error.kind() != io::ErrorKind::UnexpectedEof {
                self.failure = Some(error);
            }
        })
    }
}

impl<F: Read + Seek> ReadCacheOps for Source<F> {
    fn len(&mut self) -> Result<u64, ()> {
        self.note(|file| file.seek(SeekFrom::End(0)))
    }

    fn seek(&mut self, pos: u64) -> Result<u64, ()> {
        self.note(|file| file.seek(SeekFrom::Start(pos)))
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize, ()> {
        self.note(|file| file.read(buf))
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), ()> {
        self.note(|file| file.read_exact(buf))
    }
}

/// The number of bytes that may still be read.
#[derive(Debug)]
pub struct Meter {
    limit: u64,
    left: Cell<u64>,
    exceeded: Cell<bool>,
}

impl Meter {
    /// The largest number of bytes that are read of one file. What was read stays in memory.
    const MOST: u64 = 2 << 30;

    /// Returns a meter for a file of `length` bytes. Some parts are read twice, and of each name more than its length.
    pub fn for_file(length: u64) -> Self {
        let limit = length.saturating_mul(4).saturating_add(1 << 16);
        let limit = limit.min(Self::MOST);
        Self {
            limit,
            left: Cell::new(limit),
            exceeded: Cell::new(false),
        }
    }

    pub fn spent(&self) -> u64 {
        self.limit - self.left.get()
    }

    /// Returns the limit, if it was exceeded.
    pub fn exceeded(&self) -> Option<u64> {
        self.exceeded.get().then_some(self.limit)
    }

    fn spend(&self, bytes: u64) -> Result<(), ()> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.exceeded.set(true);
                Err(())
            }
        }
    }
}

/// A part of a file, read through a meter.
#[derive(Debug)]
pub struct Part<'a, F: Read + Seek> {
    cache: &'a ReadCache<Source<F>>,
    meter: &'a Meter,
    start: u64,
    length: u64,
}

impl<F: Read + Seek> Clone for Part<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Read + Seek> Copy for Part<'_, F> {}

impl<'a, F: Read + Seek> Part<'a, F> {
    pub fn whole(cache: &'a ReadCache<Source<F>>, meter: &'a Meter, length: u64) -> Self {
        Self {
            cache,
            meter,
            start: 0,
            length,
        }
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns a part of this part, or `None` if it ends beyond it.
    pub fn part(&self, (start, length): (u64, u64)) -> Option<Self> {
        let end = start.checked_add(length)?;
        // The sum is made only within this part: elsewhere it may pass the largest number.
        (end <= self.length).then(|| Self {
            start: self.start + start,
            length,
            ..*self
        })
    }
}

impl<'a, F: Read + Seek> ReadRef<'a> for Part<'a, F> {
    fn len(self) -> Result<u64, ()> {
        Ok(self.length)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // For empty ranges, formats may give any offset.
        if size == 0 {
            return Ok(&[]);
        }
        let part = self.part((offset, size)).ok_or(())?;
        // Counted before memory is allocated for it.
        self.meter.spend(size)?;
        self.cache.read_bytes_at(part.start, size)
    }

    /// Reads a name. Names of metadata sections are short, so longer names are not read to their end.
    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        const LONGEST: u64 = 64;
        let length = range.end.checked_sub(range.start).ok_or(())?;
        let length = length.min(LONGEST);
        let part = self.part((range.start, length)).ok_or(())?;
        self.meter.spend(length)?;
        let range = part.start..part.start + length;
        self.cache.read_bytes_at_until(range, delimiter)
    }
}
