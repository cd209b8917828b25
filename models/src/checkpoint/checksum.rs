//! A checksum of the weights of a checkpoint.

use std::path::Path;

use super::open::Checkpoint;
use crate::ModelError;

/// The number of bytes that are in memory at a time.
const PIECE: usize = 4 << 20;

/// Returns a number that tells the weights of a checkpoint apart: the same for the same tensors, however they are spread over
/// files. It reads all of them once. It finds changes, but not those of someone who wants it not to.
///
/// # Errors
/// Returns an error as [`load`](crate::load) does if the files can't be read.
pub fn weights_checksum(path: &Path) -> Result<String, ModelError> {
    let checkpoint = Checkpoint::open(path)?;
    let mut sum = Checksum::default();
    for name in checkpoint.shards.names() {
        let Some((file, info)) = checkpoint.shards.find(name) else {
            continue;
        };
        sum.add(format!("{name} {} {:?}", info.type_name(), info.shape).as_bytes());
        for begin in (0..info.bytes).step_by(PIECE) {
            let length = PIECE.min(info.bytes - begin);
            sum.add(&file.read_range(info.begin + begin as u64, length)?);
        }
    }
    Ok(sum.finish())
}

const LANES: usize = 4;
/// The number of bytes of a word for each lane.
const ROW: usize = LANES * size_of::<u64>();

/// A hash of bytes, four words at a time. Every step can be undone, so that a change of one word always changes it.
struct Checksum {
    lanes: [u64; LANES],
    bytes: u64,
}

impl Default for Checksum {
    fn default() -> Self {
        Self {
            lanes: [1, 2, 3, 4],
            bytes: 0,
        }
    }
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        let (rows, rest) = bytes.as_chunks();
        for row in rows {
            self.mix(row);
        }
        let mut last = [0; ROW];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(&last);
        self.bytes += bytes.len() as u64;
    }

    fn mix(&mut self, row: &[u8; ROW]) {
        let (words, _) = row.as_chunks();
        for (lane, word) in self.lanes.iter_mut().zip(words) {
            *lane = mixed(*lane ^ u64::from_le_bytes(*word));
        }
    }

    fn finish(self) -> String {
        let hash = self
            .lanes
            .into_iter()
            .fold(0, |hash, lane| mixed(hash ^ lane));
        format!("{hash:016x}-{}", self.bytes)
    }
}

/// Spreads every bit of a word over the whole of it.
fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ (word >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> String {
        let mut sum = Checksum::default();
        sum.add(bytes);
        sum.finish()
    }

    #[test]
    fn every_change_is_seen() {
        let bytes: Vec<u8> = (0..200).collect();
        let whole = of(&bytes);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x80;
            assert_ne!(of(&changed), whole, "one sign, at {at}");
            // The same sign of two words of a lane.
            if let Some(other) = changed.get_mut(at + 32) {
                *other ^= 0x80;
                assert_ne!(of(&changed), whole, "two signs, from {at}");
            }
        }
        assert_ne!(of(&bytes[..199]), of(&[&bytes[..199], &[0]].concat()));
    }
}
