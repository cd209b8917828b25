//! The values of a message in MessagePack, which are counted while its bytes pass.
//!
//! Burn's server reads a message into values in memory. The smallest task is a byte for each value in a message and some 130
//! bytes for each in memory, so the size of a message does not limit what it takes. The bytes of a tensor are one value.

/// The maximum number of values in a message: some 250 MiB in memory. A batch of a client's tasks has some thousands.
pub(super) const MOST: u64 = 1 << 21;

/// A counter of the values in a stream of bytes. It does not check that they form a message, which Burn does.
#[derive(Debug, Default)]
pub(super) struct Values {
    count: u64,
    /// The bytes of the value that have not arrived yet.
    left: u64,
    /// The bytes of a length that have not arrived yet, and the length so far.
    length: Option<(u32, u64)>,
    /// The bytes of the value that its length does not count.
    extra: u64,
}

impl Values {
    /// Returns the number of values that have begun.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Passes bytes. `unmask` returns the byte at a place.
    pub(super) fn pass(&mut self, bytes: usize, unmask: impl Fn(usize) -> u8) {
        let mut at = 0;
        while at < bytes {
            if self.left > 0 {
                let inside =
                    usize::try_from(self.left).map_or(bytes - at, |left| left.min(bytes - at));
                self.left -= inside as u64;
                at += inside;
                continue;
            }
            let byte = unmask(at);
            at += 1;
            match self.length.take() {
                Some((more, length)) => self.read_length(more, length << 8 | u64::from(byte)),
                None => self.begin(byte),
            }
        }
    }

    fn read_length(&mut self, more: u32, length: u64) {
        match more {
            1 => self.left = length.saturating_add(self.extra),
            _ => self.length = Some((more - 1, length)),
        }
    }

    /// Begins a value by its first byte, as in the specification of MessagePack. Elements of arrays and maps are values.
    fn begin(&mut self, byte: u8) {
        self.count += 1;
        let (lengths, extra) = match byte {
            0xa0..=0xbf => (0, u64::from(byte & 0x1f)),
            0xc4 | 0xd9 => (1, 0),
            0xc5 | 0xda => (2, 0),
            0xc6 | 0xdb => (4, 0),
            0xc7 => (1, 1),
            0xc8 => (2, 1),
            0xc9 => (4, 1),
            0xcc | 0xd0 => (0, 1),
            0xcd | 0xd1 | 0xd4 | 0xdc | 0xde => (0, 2),
            0xd5 => (0, 3),
            0xca | 0xce | 0xd2 | 0xdd | 0xdf => (0, 4),
            0xd6 => (0, 5),
            0xcb | 0xcf | 0xd3 => (0, 8),
            0xd7 => (0, 9),
            0xd8 => (0, 17),
            _ => (0, 0),
        };
        match lengths {
            0 => self.left = extra,
            _ => (self.length, self.extra) = (Some((lengths, 0)), extra),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn count(bytes: &[u8], cut: usize) -> u64 {
        let mut values = Values::default();
        for part in bytes.chunks(cut) {
            values.pass(part.len(), |at| part[at]);
        }
        values.count()
    }

    #[test]
    fn values_are_counted_however_the_bytes_are_cut() {
        // One array, its elements, and the keys and values of its maps.
        let message = json!([
            null, true, 1, 200, 70000, -3, -200, 5_000_000_000_u64, 0.5, "short",
            "x".repeat(40), "y".repeat(300), "z".repeat(70000), {"a": [1, 2]}, vec![7; 20], vec![7; 70000],
        ]);
        let expected = 1 + 13 + (1 + 1 + 3) + 21 + 70001;
        let bytes = rmp_serde::to_vec(&message).unwrap();
        for cut in [1, 2, 3, 7, 1000, bytes.len()] {
            assert_eq!(count(&bytes, cut), expected, "in pieces of {cut}");
        }
    }

    #[test]
    fn bytes_are_one_value() {
        for size in [0_usize, 10, 300, 70000] {
            let mut bytes = match size {
                0..256 => vec![0xc4, size as u8],
                256..65536 => [&[0xc5][..], &(size as u16).to_be_bytes()].concat(),
                _ => [&[0xc6][..], &(size as u32).to_be_bytes()].concat(),
            };
            bytes.extend(vec![0x91; size]);
            bytes.extend([0xc7, 2, 5, 0x91, 0x91, 0xd8]);
            bytes.extend([0x91; 17]);
            bytes.push(0xc0);
            assert_eq!(count(&bytes, 5), 4);
        }
    }
}
