//! Points of a run as events for TensorBoard, under the names that transformers' and TRL's trainers give them.
//!
//! A file is a sequence of records, each the length of its data in 8 bytes, the checksum of these, the data, and its checksum.
//! Data is a message of protocol buffers: `wall_time` (field 1) and `step` (2), with `file_version` (3) in the first
//! one, and with `summary` (5) in others. Its `value`s (1) have a `tag` (1) and a `simple_value` (2).

use super::metrics::{Point, TRAIN};

/// The name of the file, which TensorBoard knows by its beginning.
pub const FILE: &str = "events.out.tfevents.kernels";

/// Returns the first record of a file of a run that began so many seconds after 1970.
pub fn head(began: f64) -> Vec<u8> {
    record(&event(began, 0, 3, b"brain.Event:2"))
}

/// Returns the record of a point.
pub fn of(point: &Point, began: f64) -> Vec<u8> {
    let split = if point.split == TRAIN { TRAIN } else { "eval" };
    let own = [
        ("loss", Some(point.loss)),
        ("epoch", Some(point.epoch as f64)),
        ("learning_rate", point.lr),
        ("grad_norm", point.grad_norm),
        ("load_balancing_loss", point.load_balancing_loss),
        ("tokens_per_s", Some(point.tokens_per_s)),
    ];
    let own = own
        .into_iter()
        .filter_map(|(name, number)| Some((name, number?)));
    let others = point
        .metrics
        .iter()
        .map(|(name, number)| (&name[..], *number));
    let summary: Vec<u8> = own
        .chain(others)
        .flat_map(|(name, number)| {
            let mut value = field(1, format!("{split}/{name}").as_bytes());
            // Field 2 of 4 bytes.
            value.push((2 << 3) | 5);
            value.extend((number as f32).to_le_bytes());
            field(1, &value)
        })
        .collect();
    record(&event(began + point.seconds, point.step, 5, &summary))
}

/// Returns an event with one more field.
fn event(time: f64, step: usize, number: u8, data: &[u8]) -> Vec<u8> {
    // Field 1 of 8 bytes, and field 2, an integer, unless it is 0.
    let mut event = vec![(1 << 3) | 1];
    event.extend(time.to_le_bytes());
    if step > 0 {
        event.push(2 << 3);
        event.extend(integer(step));
    }
    event.extend(field(number, data));
    event
}

/// Returns a field of bytes, with its number and length.
fn field(number: u8, data: &[u8]) -> Vec<u8> {
    let start = std::iter::once((number << 3) | 2).chain(integer(data.len()));
    start.chain(data.iter().copied()).collect()
}

/// Returns an integer in bytes of 7 bits, the lowest first, each but the last one marked.
fn integer(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 1 << 7 {
        bytes.push(number as u8 | (1 << 7));
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let checksum = |data: &[u8]| masked(crc32c(data)).to_le_bytes();
    [&length[..], &checksum(&length), data, &checksum(data)].concat()
}

/// Returns a checksum as records have it, so that those of data with checksums are not easy to confuse.
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Returns the CRC-32C (RFC 3720, appendix B.4). The data is short, and no table is worth its memory.
fn crc32c(data: &[u8]) -> u32 {
    let rest = data.iter().fold(u32::MAX, |rest, byte| {
        (0..8).fold(rest ^ u32::from(*byte), |rest, _| match rest & 1 {
            0 => rest >> 1,
            _ => (rest >> 1) ^ 0x82f6_3b78,
        })
    });
    !rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn events_are_those_that_tensorboard_writes() {
        // Those of the package `tensorboard`, by its `RecordWriter`.
        let point = Point {
            step: 300,
            epoch: 1,
            split: "valid".to_owned(),
            loss: 0.5,
            load_balancing_loss: None,
            tokens_per_s: 8.0,
            lr: None,
            grad_norm: None,
            memory_bytes: None,
            seconds: 1.0,
            metrics: BTreeMap::from([("rewards/margins".to_owned(), -2.0)]),
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(&head(1.0)), HEAD);
        assert_eq!(hex(&of(&point, 1.0)), EVENT);
    }

    const HEAD: &str =
        "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a";
    const EVENT: &str = "6a00000000000000af81ed6709000000000000004010ac022a5c0a100a096576616c2f6c6f7373150000003f0a110a0a6576\
        616c2f65706f6368150000803f0a180a116576616c2f746f6b656e735f7065725f7315000000410a1b0a146576616c2f7265\
        77617264732f6d617267696e7315000000c0c791208a";
}
