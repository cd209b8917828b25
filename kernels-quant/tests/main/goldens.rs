//! Numbers are those of the packages, bit for bit.

use crate::stored::{cases, noise};
use kernels_quant::gguf;

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

#[test]
fn numbers_are_those_of_the_packages() {
    for case in cases() {
        let (stored, expected) = case.read();
        let decoded = stored.decoded();
        let differ = decoded
            .iter()
            .zip(&expected)
            .position(|(ours, theirs)| ours.to_bits() != theirs.to_bits());
        if let Some(at) = differ {
            let (row, column) = (at / stored.shape[1], at % stored.shape[1]);
            panic!(
                "{} [{row}, {column}]: {:e} instead of {:e}",
                case.file, decoded[at], expected[at]
            );
        }
    }
}

/// A panel of rows is that part of the whole.
#[test]
fn rows_are_those_of_the_whole() {
    for case in cases() {
        let (stored, expected) = case.read();
        let weight = stored.weight().unwrap();
        let [rows, columns] = weight.shape();
        let mut random = noise(1);
        for _ in 0..50 {
            let start = random() as usize % (rows + 1);
            let end = start + random() as usize % (rows - start + 1);
            let mut out = vec![f32::NAN; (end - start) * columns];
            weight.decode_rows(start..end, &mut out);
            assert!(
                bits(&out) == bits(&expected[start * columns..end * columns]),
                "{}, {start}..{end}",
                case.file
            );
        }
    }
}

/// Every layout of ggml has a fixture, and its name.
#[test]
fn all_blocks_have_fixtures() {
    for &block in gguf::Block::ALL {
        let file = format!("gguf_{}", block.name().to_lowercase());
        let case = cases().into_iter().find(|case| case.file == file);
        assert_eq!(case.expect(&file).read().0.encoding, block.into());
        assert_eq!(block.to_string(), block.name());
    }
}
