//! Products of rounded rows: exact but for sums in f32, and as far from those of the rows as rounding explains.

use crate::made::{blocks, fp8_blocks, int8, mxfp4, nf4, packed, unpacked};
use crate::stored::Stored;
use crate::{Number, compare, numbers, sums, wide};
use half::{bf16, f16};
use kernels_quant::{Code, QuantizedWeight, Scales, gguf};
use kernels_simd::quantized::{decode_rows, int8 as product};
use kernels_simd::{Values, View};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Numbers of rows: as in decoding, and so many that codes are reordered, with and without a rest.
const COUNTS: [usize; 6] = [0, 1, 3, 7, 8, 41];

const BLOCK: usize = 32;

fn decoded(weight: &QuantizedWeight<'_>) -> Vec<f64> {
    let [rows, columns] = weight.shape();
    let mut out = vec![f32::NAN; rows * columns];
    decode_rows(weight, 0..rows, &mut out);
    out.into_iter().map(f64::from).collect()
}

/// Rounds a row by the formula: to 127 parts of the largest size of each block. The factor and its products are in
/// f32, so that the same numbers are halfway between two.
fn rounded(row: &[f64]) -> Vec<f64> {
    let of_block = |block: &[f64]| {
        let largest = block.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let factor = 127.0 / largest as f32;
        let round = move |x: &f64| {
            let number = (*x as f32 * factor).round_ties_even();
            f64::from(number) * largest / 127.0
        };
        block.iter().map(round).collect::<Vec<_>>()
    };
    row.chunks(BLOCK).flat_map(of_block).collect()
}

fn check<T: Number>(weight: &QuantizedWeight<'_>, count: usize, what: &str) {
    let [outputs, inputs] = weight.shape();
    let what = format!("{what}, {count} rows of {}", std::any::type_name::<T>());
    let w = decoded(weight);
    let x = numbers::<T>(count * inputs, 1);
    let y = product::forward(&View::whole(&x, &[count, inputs]), weight);
    let x: Vec<f64> = x.into_iter().map(T::to).collect();
    let row_of = |at: usize| &w[at % outputs * inputs..][..inputs];
    let x_rounded: Vec<f64> = x.chunks(inputs.max(1)).flat_map(rounded).collect();
    let exact = (0..count * outputs).map(|at| {
        let x = &x_rounded[at / outputs * inputs..][..inputs];
        let (sum, size) = sums(x.iter().zip(row_of(at)).map(|(x, w)| x * w));
        // Terms of unsigned codes cancel, and are some times as large as the result.
        (sum, 16.0 * size)
    });
    compare::<T>(&y, exact, &format!("{what}: of rounded rows"));
    let y = wide(&y);
    for (at, y) in y.iter().enumerate() {
        let x = &x[at / outputs * inputs..][..inputs];
        let (exact, size) = sums(x.iter().zip(row_of(at)).map(|(x, w)| x * w));
        let blocks = x.chunks(BLOCK).zip(row_of(at).chunks(BLOCK));
        let most: f64 = blocks
            .map(|(x, w)| {
                let largest = x.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                largest / 254.0 * w.iter().map(|w| w.abs()).sum::<f64>()
            })
            .sum();
        let bound = most + 4e-5 * size + T::UNIT * exact.abs() + T::TINY;
        assert!(
            (y - exact).abs() <= bound,
            "{what}: {y:e}, not {exact:e} within {bound:e}, at {at}"
        );
    }
}

fn check_all(stored: &Stored, what: &str) {
    let weight = stored.weight().unwrap();
    assert!(product::takes(&weight), "{what}");
    for count in COUNTS {
        check::<f32>(&weight, count, what);
        check::<bf16>(&weight, count, what);
        check::<f16>(&weight, count, what);
    }
}

#[test]
fn products_are_those_of_rounded_rows() {
    for &block in gguf::Block::ALL {
        let wide = match block.elements() {
            32 => 544,
            _ => 512,
        };
        check_all(&blocks(block, [131, wide]), block.name());
    }
    for (columns, bits, scales, zeros) in [
        (640, 4, Scales::Groups(128), false),
        (640, 4, Scales::Groups(16), true),
        (523, 4, Scales::Rows, false),
        (523, 8, Scales::Rows, true),
        (640, 8, Scales::Groups(64), false),
    ] {
        let what = format!("{bits} bits, {columns} columns, {scales}, {zeros}");
        check_all(&packed([67, columns], bits, scales, zeros), &what);
    }
    for (scales, zeros) in [
        (Scales::Rows, false),
        (Scales::Tensor, false),
        (Scales::Rows, true),
    ] {
        let stored = unpacked([67, 523], Code::Int8, scales, zeros);
        check_all(&stored, &format!("bytes, {scales}, {zeros}"));
    }
}

/// The scales of this weight are large, which f16 does not hold.
#[test]
fn products_with_the_integers_of_bitsandbytes() {
    let stored = int8([67, 523]);
    let weight = stored.weight().unwrap();
    for count in COUNTS {
        check::<f32>(&weight, count, "int8");
    }
}

#[test]
fn weights_that_are_no_integers_are_refused() {
    let shape = [64, 128];
    for stored in [nf4(shape, 64), mxfp4(shape), fp8_blocks(shape, [128, 128])] {
        let weight = stored.weight().unwrap();
        assert!(!product::takes(&weight));
        let x = vec![0.5_f32; shape[1]];
        let call = || product::forward(&View::whole(&x, &[1, shape[1]]), &weight);
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    }
}

#[test]
fn rounded_rows_are_those_of_the_formula() {
    let x = numbers::<f32>(3 * 75, 5);
    let ours = product::rounded(&x, 75);
    for (ours, x) in ours.chunks(75).zip(x.chunks(75)) {
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        for (ours, exact) in ours.iter().zip(rounded(&x)) {
            assert!((f64::from(*ours) - exact).abs() <= 2e-7 * exact.abs());
        }
    }
    let tiny = f32::MIN_POSITIVE;
    assert_eq!(product::rounded(&[tiny, -0.0, 0.0], 3), [0.0; 3]);
}

/// A number that is not finite shows in all results of its row, and in no other row.
#[test]
fn infinite_rows_have_no_results() {
    let stored = blocks(gguf::Block::Q4_0, [20, 64]);
    let weight = stored.weight().unwrap();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for count in [2, 12] {
            let mut x = numbers::<f32>(count * 64, 6);
            x[64 + 40] = bad;
            let y = product::forward(&View::whole(&x, &[count, 64]), &weight);
            for (at, y) in wide(&y).into_iter().enumerate() {
                assert_eq!(y.is_nan(), at / 20 == 1, "{bad}, {at}");
            }
        }
    }
}

#[test]
fn results_dont_depend_on_the_number_of_threads() {
    let stored = blocks(gguf::Block::Q4K, [300, 512]);
    let weight = stored.weight().unwrap();
    for count in [1, 64] {
        let x = numbers::<f32>(count * 512, 4);
        let results: [Values; 3] = [1, 2, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().unwrap();
            pool.install(|| product::forward(&View::whole(&x, &[count, 512]), &weight))
        });
        assert_eq!(results[0], results[1], "{count}");
        assert_eq!(results[0], results[2], "{count}");
    }
}
