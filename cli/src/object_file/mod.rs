//! The records of kernels and sites in a built file, of any format.
//!
//! A file can come from anywhere, and its parts may overlap. All reading is metered, so that memory and time stay
//! proportional to the file's size.

mod metered;
mod sections;

use anyhow::{Context, bail, ensure};
use burn_kernels::registry::section::{self, Record};
use metered::{Meter, Source};
use object::read::{ReadCache, ReadRef};
use std::collections::HashSet;
use std::hash::Hash;
use std::io::{Read, Seek};

/// The records of a built file, and the cost of finding them.
#[derive(Debug)]
pub struct Contents {
    /// The distinct records, in no order. The parts of a universal file hold the same records for each processor.
    pub records: HashSet<Record>,
    /// The number of bytes of the file that were read.
    pub looked_at: u64,
    /// The number of bytes of records that were decoded.
    pub decoded: u64,
}

/// Reads the records of a program, a library, an object file, or an archive of object files.
///
/// # Errors
/// Returns an error if the file can't be read, is not an object file, or has no valid metadata section. Also returns an
/// error if its parts overlap, as they never do in a file that a linker wrote.
pub fn read(file: impl Read + Seek) -> anyhow::Result<Contents> {
    let cache = ReadCache::new(Source::new(file));
    // The first read returns the same error again, and the source keeps its cause.
    let length = cache.len().unwrap_or(0);
    let meter = Meter::for_file(length);
    let contents = sections::collect(&cache, &meter, length).and_then(|found| records(&found));
    if let Some(failure) = cache.into_inner().failure() {
        return Err(failure).context("it cannot be read");
    }
    let (records, decoded) = contents?;
    Ok(Contents {
        records,
        looked_at: meter.spent(),
        decoded,
    })
}

/// Decodes these sections. Returns the records, and the number of bytes of the sections.
fn records(sections: &[&[u8]]) -> anyhow::Result<(HashSet<Record>, u64)> {
    if sections.is_empty() {
        bail!(
            "it holds no kernel metadata: it was not built with burn-kernels, or was stripped of it"
        );
    }
    let mut records = Vec::new();
    for section in sections {
        records.extend(section::decode(section).context("its kernel metadata is damaged")?);
    }
    ensure!(!records.is_empty(), "its kernel metadata is empty");
    let decoded = sections.iter().map(|section| section.len() as u64).sum();
    Ok((distinct(records), decoded))
}

fn distinct<T: Hash + Eq>(items: Vec<T>) -> HashSet<T> {
    items.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::hash::Hasher;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    struct Counted(usize);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn records_are_not_all_compared_with_all() {
        const RECORDS: usize = 60_000;
        let twice = (0..RECORDS).chain(0..RECORDS).map(Counted).collect();
        assert_eq!(distinct(twice).len(), RECORDS);
        assert!(
            COMPARED.get() < 4 * RECORDS,
            "{} comparisons",
            COMPARED.get()
        );
    }
}
