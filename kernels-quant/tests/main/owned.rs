//! Weights that own their parts, and those quantised in NF4.

use crate::stored::{cases, noise};
use kernels_quant::{Bnb4Bit, OwnedPart, OwnedWeight};

#[test]
fn an_owned_weight_decodes_as_its_parts() {
    for case in cases() {
        let (stored, _) = case.read();
        let parts = stored.parts.iter().map(|part| OwnedPart {
            name: part.name.clone(),
            dtype: part.dtype,
            shape: part.shape.clone(),
            bytes: part.bytes.clone(),
        });
        let parts: Vec<OwnedPart> = parts.collect();
        let bytes: usize = parts.iter().map(|part| part.bytes.len()).sum();
        let owned = OwnedWeight::new(stored.encoding, stored.shape, parts.clone()).unwrap();
        assert_eq!((owned.bytes(), owned.shape()), (bytes, stored.shape));
        let mut decoded = vec![f32::NAN; stored.shape[0] * stored.shape[1]];
        owned.view().decode_rows(0..stored.shape[0], &mut decoded);
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&decoded), bits(&stored.decoded()), "{}", case.file);
        // Without its codes. Some other parts are optional.
        let mut rest = parts;
        let codes = (0..rest.len()).max_by_key(|&at| rest[at].bytes.len());
        rest.remove(codes.expect("a part"));
        let missing = OwnedWeight::new(stored.encoding, stored.shape, rest);
        assert!(missing.is_err(), "{}", case.file);
    }
}

/// The numbers of NF4 are at most 0.3039 apart, and the codes of scales 0.0071 of their largest distance from the mean.
#[test]
fn nf4_is_near_the_numbers() {
    let mut random = noise(3);
    for shape @ [rows, columns] in [[1, 1], [3, 7], [16, 64], [65, 257]] {
        let numbers: Vec<f32> = (0..rows * columns)
            .map(|_| (random() as f64 / u64::MAX as f64 * 4.0 - 2.0) as f32)
            .collect();
        let weight = OwnedWeight::nf4(shape, &numbers);
        assert_eq!(weight.encoding(), Bnb4Bit::Nf4.into());
        let mut decoded = vec![f32::NAN; numbers.len()];
        weight.view().decode_rows(0..rows, &mut decoded);
        for (at, (decoded, number)) in decoded.iter().zip(&numbers).enumerate() {
            let block = &numbers[at / 64 * 64..numbers.len().min(at / 64 * 64 + 64)];
            let largest = block.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            let error = (decoded - number).abs();
            assert!(
                error <= 0.152 * largest + 0.02,
                "{shape:?}: {decoded}, not {number}"
            );
        }
    }
    // Where all numbers have one size, scales are exact.
    let signs = [2.5, -2.5, 0.0, 2.5, -2.5, -2.5];
    let mut decoded = [f32::NAN; 6];
    OwnedWeight::nf4([2, 3], &signs)
        .view()
        .decode_rows(0..2, &mut decoded);
    assert_eq!(decoded, signs);
    assert!(OwnedWeight::nf4([1, 3], &[0.0; 3]).bytes() > 0);
}

#[test]
#[should_panic(expected = "cannot hold")]
fn infinite_numbers_are_not_quantised() {
    OwnedWeight::nf4([1, 2], &[1.0, f32::INFINITY]);
}
