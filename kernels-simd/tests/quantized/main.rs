//! Products with quantised weights, against f64 of the decoded weight, for every encoding.

// Helpers of the tests of `kernels-quant`, some of which only those use.
#[allow(dead_code)]
#[path = "../../../kernels-quant/tests/main/stored.rs"]
mod stored;

use half::{bf16, f16};
use kernels_quant::{Bnb4Bit, BnbInt8, Dtype, QuantizedWeight, gguf};
use kernels_simd::quantized::{decode_rows, forward, gradient_of_x};
use kernels_simd::{Values, View};
use stored::{Stored, cases, noise};

/// Numbers of rows: none, one, as in decoding, and so many that products take other paths.
const COUNTS: [usize; 7] = [0, 1, 2, 7, 8, 33, 200];

/// A type of `x`, with its unit of rounding.
trait Number: kernels_simd::Element {
    const UNIT: f64;
    /// Half the distance of subnormal numbers, or more.
    const TINY: f64;
    fn of(value: f64) -> Self;
    fn to(self) -> f64;
}

macro_rules! number {
    ($($Number:ty, $unit:expr, $tiny:expr, |$x:ident| $of:expr, |$y:ident| $to:expr;)*) => {
        $(impl Number for $Number {
            const UNIT: f64 = $unit;
            const TINY: f64 = $tiny;
            fn of($x: f64) -> Self {
                $of
            }
            fn to(self) -> f64 {
                let $y = self;
                $to
            }
        })*
    };
}

const TINY: f64 = f32::MIN_POSITIVE as f64;

number! {
    f64, 0.0, TINY, |x| x, |y| y;
    f32, 0.0, TINY, |x| x as f32, |y| f64::from(y);
    bf16, 1.0 / 256.0, TINY, |x| bf16::from_f64(x), |y| y.to_f64();
    f16, 1.0 / 2048.0, 2.98e-8, |x| f16::from_f64(x), |y| y.to_f64();
}

fn numbers<T: Number>(count: usize, seed: u64) -> Vec<T> {
    let mut random = noise(seed);
    let one = || random() as f64 / u64::MAX as f64 * 2.0 - 1.0;
    std::iter::repeat_with(one).take(count).map(T::of).collect()
}

fn wide(values: &Values) -> Vec<f64> {
    match values {
        Values::F64(values) => values.clone(),
        Values::F32(values) => values.iter().map(|x| f64::from(*x)).collect(),
        Values::Bf16(values) => values.iter().map(|x| x.to_f64()).collect(),
        Values::F16(values) => values.iter().map(|x| x.to_f64()).collect(),
    }
}

/// Compares with sums in f64. Errors are measured by the sum of the terms' sizes, which a sum in f32 can't be better than.
fn compare<T: Number>(found: &Values, exact: impl Iterator<Item = (f64, f64)>, what: &str) {
    let found = wide(found);
    let mut places = 0;
    for (at, (exact, size)) in exact.enumerate() {
        let bound = 2e-6 * size + T::UNIT * exact.abs() + T::TINY;
        let error = (found[at] - exact).abs();
        assert!(
            error <= bound || found[at] == exact,
            "{what}: {:e}, not {exact:e}, at {at}: off by {error:e} with a bound of {bound:e}",
            found[at]
        );
        places += 1;
    }
    assert_eq!(found.len(), places, "{what}");
}

/// Returns a sum of products and that of their sizes.
fn sums(terms: impl Iterator<Item = f64>) -> (f64, f64) {
    terms.fold((0.0, 0.0), |(sum, size), term| {
        (sum + term, size + term.abs())
    })
}

fn check<T: Number>(weight: &QuantizedWeight<'_>, decoded: &[f32], count: usize, what: &str) {
    let [outputs, inputs] = weight.shape();
    let what = format!("{what}, {count} rows of {}", std::any::type_name::<T>());
    let x = numbers::<T>(count * inputs, 1);
    let y = forward(&View::whole(&x, &[count, inputs]), weight);
    let exact = (0..count * outputs).map(|at| {
        let (row, output) = (at / outputs, at % outputs);
        sums(
            (0..inputs).map(|i| x[row * inputs + i].to() * f64::from(decoded[output * inputs + i])),
        )
    });
    compare::<T>(&y, exact, &format!("{what}: forward"));
    let dy = numbers::<T>(count * outputs, 3);
    let dx = gradient_of_x(&View::whole(&dy, &[count, outputs]), weight);
    let exact = (0..count * inputs).map(|at| {
        let (row, input) = (at / inputs, at % inputs);
        sums(
            (0..outputs)
                .map(|o| dy[row * outputs + o].to() * f64::from(decoded[o * inputs + input])),
        )
    });
    compare::<T>(&dx, exact, &format!("{what}: backward"));
}

/// Half types overflow where a weight of a fixture does.
fn fits<T: Number>(decoded: &[f32]) -> bool {
    let largest = decoded.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
    T::UNIT < 1e-4 || f64::from(largest) < 10.0
}

fn check_all(stored: &Stored, counts: &[usize], what: &str) {
    let weight = stored
        .weight()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let [rows, columns] = weight.shape();
    let mut decoded = vec![f32::NAN; rows * columns];
    weight.decode_rows(0..rows, &mut decoded);
    let mut ours = vec![f32::NAN; rows * columns];
    decode_rows(&weight, 0..rows, &mut ours);
    let differ = ours
        .iter()
        .zip(&decoded)
        .position(|(ours, theirs)| ours.to_bits() != theirs.to_bits());
    assert_eq!(differ, None, "{what}: the same bits");
    if decoded.iter().any(|number| !number.is_finite()) {
        return;
    }
    for &count in counts {
        check::<f64>(&weight, &decoded, count, what);
        check::<f32>(&weight, &decoded, count, what);
        if fits::<bf16>(&decoded) {
            check::<bf16>(&weight, &decoded, count, what);
            check::<f16>(&weight, &decoded, count, what);
        }
    }
}

#[test]
fn products_are_those_of_the_decoded_weights_of_packages() {
    for case in cases() {
        check_all(&case.read().0, &COUNTS, case.file);
    }
}

/// Returns blocks of random codes, with scales near 1/64.
fn blocks(block: gguf::Block, shape: [usize; 2]) -> Stored {
    let mut random = noise(7);
    let row = shape[1] / block.elements() * block.bytes();
    let mut bytes: Vec<u8> = (0..shape[0] * row).map(|_| random() as u8).collect();
    let halves: &[usize] = match block {
        gguf::Block::Q4_1 | gguf::Block::Q5_1 | gguf::Block::Q4K | gguf::Block::Q5K => &[0, 2],
        gguf::Block::Q6K => &[208],
        gguf::Block::Mxfp4 => &[],
        _ => &[0],
    };
    for bytes in bytes.chunks_exact_mut(block.bytes()) {
        for &at in halves {
            let scale = f16::from_f64(random() as f64 / u64::MAX as f64 / 64.0);
            bytes[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
        if block == gguf::Block::Mxfp4 {
            bytes[0] = 120 + bytes[0] % 8;
        }
    }
    Stored::new(block, shape).with("blocks", Dtype::U8, &[shape[0], row], bytes)
}

fn int8(shape: [usize; 2]) -> Stored {
    let mut random = noise(8);
    let bytes = (0..shape[0] * shape[1]).map(|_| random() as u8).collect();
    let scales: Vec<f32> = (0..shape[0]).map(|row| 0.5 + row as f32 / 50.0).collect();
    Stored::new(BnbInt8, shape)
        .with("weight", Dtype::I8, &shape, bytes)
        .singles("SCB", &shape[..1], &scales)
}

const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

fn nf4(shape: [usize; 2], block: usize) -> Stored {
    let mut random = noise(9);
    let elements = shape[0] * shape[1];
    let bytes = (0..elements.div_ceil(2)).map(|_| random() as u8).collect();
    let count = elements.div_ceil(block);
    let absmax: Vec<f32> = (0..count).map(|at| 0.1 + (at % 13) as f32 / 20.0).collect();
    let text = format!(
        r#"{{"quant_type": "nf4", "blocksize": {block}, "shape": [{}, {}]}}"#,
        shape[0], shape[1]
    );
    let state = text.into_bytes();
    let name = "weight.quant_state.bitsandbytes__nf4";
    Stored::new(Bnb4Bit::Nf4, shape)
        .with(name, Dtype::U8, &[state.len()], state)
        .with("weight", Dtype::U8, &[elements.div_ceil(2), 1], bytes)
        .singles("weight.absmax", &[count], &absmax)
        .singles("weight.quant_map", &[16], &NF4)
}

/// Sizes around the parts of products: outputs of several parts, inputs of several pieces, none of them whole.
#[test]
fn products_of_larger_weights() {
    let counts = [1, 5, 40];
    for &block in gguf::Block::ALL {
        let wide = match block.elements() {
            32 => 544,
            _ => 512,
        };
        check_all(&blocks(block, [131, wide]), &counts, block.name());
    }
    check_all(&int8([67, 523]), &counts, "int8");
    check_all(&nf4([67, 576], 64), &counts, "nf4");
    check_all(&nf4([67, 100], 64), &counts, "nf4, blocks across rows");
}

/// Shapes whose panels are of several sizes, and which threads share.
#[test]
fn results_dont_depend_on_the_number_of_threads() {
    for stored in [blocks(gguf::Block::Q4K, [300, 512]), int8([515, 301])] {
        let weight = stored.weight().unwrap();
        let [outputs, inputs] = weight.shape();
        for count in [1, 3, 64] {
            let (x, dy) = (
                numbers::<f32>(count * inputs, 4),
                numbers::<f32>(count * outputs, 5),
            );
            let results = [1, 2, 5].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                pool.build().unwrap().install(|| {
                    let y = forward(&View::whole(&x, &[count, inputs]), &weight);
                    let dx = gradient_of_x(&View::whole(&dy, &[count, outputs]), &weight);
                    [y, dx]
                })
            });
            assert_eq!(results[0], results[1], "{count}");
            assert_eq!(results[0], results[2], "{count}");
        }
    }
}

#[test]
#[should_panic(expected = "have no product with a weight of [4, 32] outputs and inputs")]
fn rows_of_another_width_are_refused() {
    let stored = blocks(gguf::Block::Q8_0, [4, 32]);
    forward(
        &View::whole(&[0.0_f32; 62], &[2, 31]),
        &stored.weight().unwrap(),
    );
}
