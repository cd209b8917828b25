//! The messages between servers and clients of remote devices.

use crate::{target, text};
use burn::backend::ir::ScalarIr;
use kernels_fuzz::fuzz;
use kernels_runtime::remote::{Address, fuzz as inner};

/// Reads an operation and its numbers. The first byte selects the operation. Its highest bit selects the encoding of
/// the numbers: as clients encode them, or as scalars of a kind and eight bytes each.
#[test]
fn wire() {
    let words = [
        "offset",
        "silu",
        "\x02\x02\0\0\0\0\0\0\0",
        "\x03\x01\0\0\0\0\0\0\0",
    ];
    fuzz(target("wire", &words), |input| {
        let (first, rest) = input.split_first().ok_or("nothing")?;
        if *first >= 0x80 {
            return inner::encoded(first & 0x7f, rest);
        }
        let scalars: Vec<ScalarIr> = rest.chunks_exact(9).map(scalar).collect();
        inner::message(*first, &scalars)
    });
}

fn scalar(bytes: &[u8]) -> ScalarIr {
    let word = u64::from_le_bytes(bytes[1..9].try_into().expect("eight bytes"));
    match bytes[0] % 5 {
        0 => ScalarIr::Float(f64::from_bits(word)),
        1 => ScalarIr::Int(word as i64),
        3 => ScalarIr::Bool(word % 2 == 1),
        _ => ScalarIr::UInt(word),
    }
}

#[test]
fn declaration() {
    let words = [
        "\"schema\":1",
        "\"kind\":\"cpu\"",
        "\"facts\":[[",
        "\"host\":null",
    ];
    fuzz(target("declaration", &words), |input| {
        let words = input.as_chunks::<4>().0.iter();
        let words: Vec<i32> = words.map(|word| i32::from_le_bytes(*word)).collect();
        inner::declaration(&words)
    });
}

#[test]
fn address() {
    let words = ["ws://", "iroh://", "@", ":3000", "[::1]", "127.0.0.1", "/"];
    fuzz(target("address", &words), |input| {
        let address: Address = text(input)?.parse().map_err(|error| format!("{error}"))?;
        assert_eq!(address.to_string().parse().as_ref(), Ok(&address));
        Ok(())
    });
}

#[test]
fn token() {
    fuzz(target("token", &["\0", "0123456789abcdef"]), |input| {
        let (connection, token) = input.split_first_chunk::<8>().ok_or("no connection")?;
        inner::token(token, u64::from_le_bytes(*connection))
    });
}
