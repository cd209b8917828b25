//! Encoding: the bytes of ggml and bitsandbytes, errors of the decoded numbers, and numbers that have no code.

use std::path::Path;

use kernels_quant::gguf::Block;
use kernels_quant::{
    Bnb4Bit, BnbInt8, Dtype, Part, PartSpec, QuantizedWeight, decode_floats, encode_bfloats,
    encode_halves, nf4,
};
use safetensors::SafeTensors;

use crate::stored::noise;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoded");
    std::fs::read(path.join(name)).expect("a fixture")
}

fn singles(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let bytes = file.tensor(name).expect(name).data();
    let mut numbers = vec![0.0; bytes.len() / 4];
    decode_floats(Dtype::F32, bytes, &mut numbers);
    numbers
}

fn encoded(block: Block, numbers: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0xaa; numbers.len() / block.elements() * block.bytes()];
    block.encode(numbers, &mut bytes).unwrap();
    bytes
}

fn decoded(block: Block, bytes: &[u8]) -> Vec<f32> {
    let mut numbers = vec![f32::NAN; bytes.len() / block.bytes() * block.elements()];
    block.decode(bytes, &mut numbers);
    numbers
}

#[test]
fn blocks_are_those_of_ggml() {
    let file = fixture("gguf.safetensors");
    let file = SafeTensors::deserialize(&file).unwrap();
    let numbers = singles(&file, "numbers");
    for &block in Block::ALL {
        let expected = file.tensor(&block.name().to_lowercase()).unwrap();
        let found = encoded(block, &numbers);
        let both = found
            .chunks(block.bytes())
            .zip(expected.data().chunks(block.bytes()));
        for (at, (found, expected)) in both.enumerate() {
            let row = at * block.elements() / 256;
            // Of subnormal numbers, ggml's power wraps around, and the codes are zeros.
            if block == Block::Mxfp4 && row == 7 {
                continue;
            }
            assert_eq!(found, expected, "{block}: block {at}, of row {row}");
        }
    }
}

/// Returns the numbers that the generator of the fixtures makes, too.
fn same_noise(seed: u64, count: usize) -> Vec<f32> {
    let mut random = noise(seed);
    let one = |bits: u64| {
        let number = (bits >> 40) as f64 / f64::from(1 << 23) - 1.0;
        (number * 0.5_f64.powi((bits & 7) as i32)) as f32
    };
    (0..count).map(|_| one(random())).collect()
}

/// Two kinds of blocks have the same codes with importance and without.
#[test]
fn blocks_of_important_columns_are_those_of_ggml() {
    let file = fixture("weighted.safetensors");
    let file = SafeTensors::deserialize(&file).unwrap();
    let mut numbers = same_noise(5, 6 * 512);
    numbers[512..1024].iter_mut().for_each(|x| *x *= 1e-6);
    numbers[1024..1324].fill(0.0);
    numbers[1536..2048].iter_mut().for_each(|x| *x = x.abs());
    let mut importance: Vec<f32> = same_noise(6, 512).iter().map(|x| x * x).collect();
    importance[100..140].fill(0.0);
    let mut compared = 0;
    for &block in Block::ALL {
        let mut found = vec![0xaa; numbers.len() / block.elements() * block.bytes()];
        block
            .encode_weighted(&numbers, &importance, &mut found)
            .unwrap();
        let plain = encoded(block, &numbers);
        let Ok(expected) = file.tensor(&block.name().to_lowercase()) else {
            assert!(matches!(block, Block::Q8_0 | Block::Mxfp4));
            assert_eq!(found, plain);
            continue;
        };
        assert_ne!(found, plain, "{block}");
        let both = found.chunks(block.bytes());
        let both = both.zip(expected.data().chunks(block.bytes()));
        for (at, (found, expected)) in both.enumerate() {
            assert_eq!(found, expected, "{block}: block {at}");
        }
        compared += 1;
    }
    assert_eq!(compared, 7);
}

#[test]
fn numbers_without_a_code_are_named_with_importance_too() {
    for (at, number) in [(300, f32::NAN), (511, f32::INFINITY), (7, 1e30)] {
        let mut numbers = same_noise(5, 512);
        numbers[at] = number;
        for block in [Block::Q4_0, Block::Q5_1, Block::Q4K, Block::Q6K] {
            let mut bytes = vec![0; 512 / block.elements() * block.bytes()];
            let error = block
                .encode_weighted(&numbers, &[1.0; 512], &mut bytes)
                .unwrap_err();
            assert!(
                matches!(error, kernels_quant::QuantError::Number { at: own, .. } if own == at),
                "{block}: {error}"
            );
        }
    }
}

fn in_nf4(shape: [usize; 2], numbers: &[f32]) -> Vec<(PartSpec, Vec<u8>)> {
    let mut codes = vec![0xaa; numbers.len().div_ceil(2)];
    let mut absmax = vec![f32::NAN; numbers.len().div_ceil(nf4::BLOCK)];
    nf4::encode(numbers, &mut codes, &mut absmax).unwrap();
    let bytes = nf4::finish(shape, Dtype::F32, codes, &absmax);
    let parts = nf4::parts(shape, Dtype::F32);
    assert_eq!(parts.len(), bytes.len());
    for (part, bytes) in parts.iter().zip(&bytes) {
        assert_eq!(part.bytes(), bytes.len(), "{}", part.name);
    }
    parts.into_iter().zip(bytes).collect()
}

#[test]
fn nf4_is_that_of_bitsandbytes() {
    let file = fixture("bnb.safetensors");
    let file = SafeTensors::deserialize(&file).unwrap();
    for (name, shape, seed) in [
        ("small", [3, 130], 1),
        ("odd", [7, 37], 2),
        ("long", [129, 131], 3),
    ] {
        let mut numbers = same_noise(seed, shape[0] * shape[1]);
        let zeros = shape[1].min(64);
        numbers[..zeros].fill(0.0);
        for (part, bytes) in in_nf4(shape, &numbers) {
            let expected = file.tensor(&format!("{name}.{}", part.name)).unwrap();
            // The sum of the scales is torch's, in f32, and both follow from it.
            if part.name.contains("quant_state") {
                let parse =
                    |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
                let (mut found, mut expected) = (parse(&bytes), parse(expected.data()));
                let [ours, theirs] = [&mut found, &mut expected]
                    .map(|state| state["nested_offset"].take().as_f64().unwrap());
                assert!(
                    (ours / theirs - 1.0).abs() < 2e-7,
                    "{name}: {ours} {theirs}"
                );
                assert_eq!(found, expected, "{name}");
                continue;
            }
            assert_eq!(part.shape, expected.shape(), "{name}: {}", part.name);
            if part.name == "weight.nested_absmax" {
                let both = bytes
                    .as_chunks()
                    .0
                    .iter()
                    .zip(expected.data().as_chunks().0);
                for (&ours, &theirs) in both {
                    let [ours, theirs] = [ours, theirs].map(f32::from_le_bytes);
                    assert!(
                        (ours / theirs - 1.0).abs() < 1e-6,
                        "{name}: {ours} {theirs}"
                    );
                }
                continue;
            }
            assert!(bytes == expected.data(), "{name}: {}", part.name);
        }
    }
}

/// bitsandbytes' library for CPUs does not take the nearest code of every scale, and the code 0 where all scales are equal.
#[test]
fn scales_have_the_codes_of_bitsandbytes_library() {
    let codes = |absmax: &[f32]| {
        let shape = [1, absmax.len() * nf4::BLOCK];
        let codes = vec![0; shape[1] / 2];
        nf4::finish(shape, Dtype::F32, codes, absmax).swap_remove(1)
    };
    // The nearest of the second is 4.
    assert_eq!(codes(&[3.0, 1.070_305, 1.929_695]), [255, 5, 74]);
    assert_eq!(codes(&[0.5, 0.5]), [0, 0]);
}

/// The numbers of bitsandbytes' int8 fixture.
fn rows_of_int8() -> Vec<f32> {
    let mut numbers = same_noise(4, 6 * 50);
    numbers[2 * 50..3 * 50].fill(0.0);
    numbers[3 * 50 + 4] = 60000.0;
    for (at, number) in numbers[4 * 50..5 * 50].iter_mut().enumerate() {
        *number = (at as f64 / 254.0) as f32;
    }
    numbers[4 * 50] = 0.5;
    numbers
}

#[test]
fn int8_is_that_of_bitsandbytes() {
    let file = fixture("bnb.safetensors");
    let file = SafeTensors::deserialize(&file).unwrap();
    let scales = singles(&file, "int8.SCB");
    let expected = file.tensor("int8.weight").unwrap();
    for (row, numbers) in rows_of_int8().chunks(50).enumerate() {
        let mut codes = [0; 50];
        let scale = BnbInt8::encode_row(numbers, &mut codes).unwrap();
        assert_eq!(scale.to_bits(), scales[row].to_bits(), "row {row}");
        assert_eq!(codes, expected.data()[row * 50..][..50], "row {row}");
    }
}

/// bitsandbytes multiplies by 127 times the inverse of a scale, which is rounded: here, to a tie.
#[test]
fn int8_rounds_the_inverse_of_a_scale() {
    let mut codes = [0; 2];
    let scale = BnbInt8::encode_row(&[2.603_515_6, -1.301_757_8], &mut codes).unwrap();
    assert_eq!(
        (scale, codes.map(|code| code as i8)),
        (2.603_515_6, [127, -64])
    );
}

/// The largest error of a number, in parts of the largest number of its group: half of a step.
#[test]
fn errors_are_at_most_half_a_step() {
    let numbers = same_noise(5, 256 * 40);
    // Steps of `largest / n`, and the error of scales in 11 bits or, of large blocks, in 6.
    let bounds = [
        (Block::Q8_0, 0.5 / 127.0 + 1e-3),
        // The number opposite the largest has the code 7, not 8.
        (Block::Q4_0, 1.0 / 8.0 + 1e-3),
        (Block::Q5_0, 1.0 / 16.0 + 1e-3),
        // Of a range of twice the largest number.
        (Block::Q4_1, 1.0 / 15.0 + 2e-3),
        (Block::Q5_1, 1.0 / 31.0 + 2e-3),
    ];
    for (block, bound) in bounds {
        let found = decoded(block, &encoded(block, &numbers));
        for (found, numbers) in found.chunks(32).zip(numbers.chunks(32)) {
            let largest = numbers.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            for (found, number) in found.iter().zip(numbers) {
                let error = (found - number).abs() / largest;
                assert!(error <= bound, "{block}: {number} is {found}, of {largest}");
            }
        }
    }
}

/// More bits give a smaller error, by about half for each.
#[test]
fn large_blocks_err_less_with_more_bits() {
    let numbers = same_noise(6, 256 * 40);
    let squares = |numbers: &mut dyn Iterator<Item = f32>| {
        numbers.map(|x| f64::from(x) * f64::from(x)).sum::<f64>()
    };
    let all = squares(&mut numbers.iter().copied());
    let relative = |block: Block| {
        let found = decoded(block, &encoded(block, &numbers));
        let mut errors = found.iter().zip(&numbers).map(|(a, b)| a - b);
        (squares(&mut errors) / all).sqrt()
    };
    let [four, five, six] = [Block::Q4K, Block::Q5K, Block::Q6K].map(relative);
    assert!(
        four < 0.1 && five < 0.6 * four && six < 0.7 * five,
        "{four} {five} {six}"
    );
    assert!(relative(Block::Q8_0) < 0.4 * six);
}

/// Numbers that a block holds exactly, also with another sign.
#[test]
fn zeros_and_powers_are_exact() {
    for &block in Block::ALL {
        assert!(
            decoded(block, &encoded(block, &[0.0; 256]))
                .iter()
                .all(|&x| x == 0.0),
            "{block}"
        );
    }
    for sign in [1.0, -1.0] {
        let numbers: Vec<f32> = (0..32)
            .map(|at| sign * ((at % 16) as f32 - 8.0) * 0.25)
            .collect();
        assert_eq!(
            decoded(Block::Q4_0, &encoded(Block::Q4_0, &numbers)),
            numbers
        );
    }
}

/// Numbers below the smallest scale become zeros, never something infinite.
#[test]
fn subnormal_numbers_become_zeros() {
    for size in [1e-45, 1e-40, 1.2e-38] {
        let numbers: Vec<f32> = (0..256).map(|at| size * (at % 5) as f32).collect();
        for &block in Block::ALL.iter().filter(|&&block| block != Block::Mxfp4) {
            let found = decoded(block, &encoded(block, &numbers));
            assert!(found.iter().all(|&x| x == 0.0), "{block}");
        }
    }
}

#[test]
fn numbers_without_a_code_are_errors() {
    for &block in Block::ALL {
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut numbers = [1.0; 512];
            numbers[300] = number;
            let mut bytes = vec![0; 512 / block.elements() * block.bytes()];
            let error = block.encode(&numbers, &mut bytes).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("element 300 is {number}, which {block} cannot hold")
            );
        }
    }
    // Scales that no half-precision number holds.
    for &block in Block::ALL.iter().filter(|&&block| block != Block::Mxfp4) {
        let mut numbers = [-1.0; 256];
        numbers[77] = -1e38;
        let mut bytes = vec![0; 256 / block.elements() * block.bytes()];
        let error = block.encode(&numbers, &mut bytes).unwrap_err().to_string();
        assert!(error.starts_with("element 77 is -1"), "{error}");
    }
    let mut row = [0.5; 4];
    row[2] = 70000.0;
    let error = BnbInt8::encode_row(&row, &mut [0; 4])
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "element 2 is 70000, which bitsandbytes int8 cannot hold"
    );
    let error = encode_halves(&row, &mut [0; 8]).unwrap_err().to_string();
    assert_eq!(error, "element 2 is 70000, which F16 cannot hold");
    row[2] = f32::NAN;
    let error = nf4::encode(&row, &mut [0; 2], &mut [0.0])
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "element 2 is NaN, which bitsandbytes nf4 cannot hold"
    );
}

/// The decoder reads what the encoder writes: it takes the parts, and each number is within half of the largest gap of the
/// table.
#[test]
fn encoded_weights_are_read() {
    for shape in [[3, 130], [7, 37], [1, 1], [130, 131]] {
        let numbers = same_noise(7, shape[0] * shape[1]);
        let parts = in_nf4(shape, &numbers);
        let parts = parts
            .iter()
            .map(|(part, bytes)| (part.name, Part::new(part.dtype, &part.shape, bytes)));
        let weight = QuantizedWeight::new(Bnb4Bit::Nf4, shape, parts).unwrap();
        let mut found = vec![f32::NAN; numbers.len()];
        weight.decode_rows(0..shape[0], &mut found);
        for (found, numbers) in found.chunks(nf4::BLOCK).zip(numbers.chunks(nf4::BLOCK)) {
            let largest = numbers.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            for (found, number) in found.iter().zip(numbers) {
                // Half of the gap from -1 to -0.696, and the error of the scale, in 8 bits.
                let bound = 0.153 * largest + 0.02;
                assert!(
                    (found - number).abs() <= bound,
                    "{number} is {found}, of {largest}"
                );
            }
        }
    }
    let (shape, numbers) = ([6, 50], rows_of_int8());
    let (mut codes, mut scales) = (vec![0; 300], Vec::new());
    for (numbers, codes) in numbers.chunks(50).zip(codes.chunks_mut(50)) {
        scales.extend(BnbInt8::encode_row(numbers, codes).unwrap().to_le_bytes());
    }
    let bytes = [codes, scales, vec![0]];
    let specs = BnbInt8::parts(shape);
    let parts = specs.iter().zip(&bytes);
    let parts = parts.map(|(part, bytes)| (part.name, Part::new(part.dtype, &part.shape, bytes)));
    let weight = QuantizedWeight::new(BnbInt8, shape, parts).unwrap();
    let mut found = vec![f32::NAN; 300];
    weight.decode_rows(0..6, &mut found);
    for (found, numbers) in found.chunks(50).zip(numbers.chunks(50)) {
        let largest = numbers.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        let near = |(found, number): (&f32, &f32)| (found - number).abs() <= largest * 0.57 / 127.0;
        assert!(found.iter().zip(numbers).all(near));
    }
}

#[test]
fn floats_are_exact_and_halves_nearest() {
    let bits = [0x0000, 0x8001, 0x3c00, 0x7bff, 0xfbff, 0x0400_u16];
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let mut numbers = [0.0; 6];
    decode_floats(Dtype::F16, &bytes, &mut numbers);
    assert_eq!(
        numbers,
        [
            0.0,
            -(2.0_f32.powi(-24)),
            1.0,
            65504.0,
            -65504.0,
            2.0_f32.powi(-14)
        ]
    );
    let mut again = vec![0; bytes.len()];
    encode_halves(&numbers, &mut again).unwrap();
    assert_eq!(again, bytes);
    decode_floats(Dtype::BF16, &[0x80, 0x3f], &mut numbers[..1]);
    assert_eq!(numbers[0], 1.0);
    // Ties go to even.
    let mut tie = [0; 4];
    encode_halves(
        &[1.0 + 2.0_f32.powi(-11), 1.0 + 3.0 * 2.0_f32.powi(-11)],
        &mut tie,
    )
    .unwrap();
    assert_eq!(tie, [0x00, 0x3c, 0x02, 0x3c]);
    encode_bfloats(
        &[1.0 + 2.0_f32.powi(-8), 1.0 + 3.0 * 2.0_f32.powi(-8)],
        &mut tie,
    )
    .unwrap();
    assert_eq!(tie, [0x80, 0x3f, 0x82, 0x3f]);
    // The next power of two is beyond both.
    assert!(encode_bfloats(&[f32::MAX], &mut tie[..2]).is_err());
    assert!(encode_bfloats(&[f32::NAN], &mut tie[..2]).is_err());
}
