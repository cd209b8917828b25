//! Products with quantised weights, against f64 of the decoded weight, for every encoding.

// Helpers of the tests of `kernels-quant`, some of which only those use.
#[allow(dead_code)]
#[path = "../../../kernels-quant/tests/main/stored.rs"]
mod stored;

mod heads;
mod int8;
mod made;

use half::{bf16, f16};
use kernels_quant::{Code, QuantizedWeight, Scales, gguf};
use kernels_simd::quantized::{decode_rows, forward, gradient_of_x};
use kernels_simd::{Values, View};
use made::{awq, blocks, fp8_blocks, gptq, int8, mxfp4, nf4, packed, unpacked};
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
    assert!(
        decoded.iter().all(|number| number.is_finite()),
        "{what}: products are of finite numbers"
    );
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
    check_all(&mxfp4([67, 544]), &counts, "mxfp4");
    // So many rows that panels are wide.
    check_all(&blocks(gguf::Block::Q8_0, [300, 544]), &[200], "Q8_0");
    check_all(&gptq([304, 544], 4, 64, false), &[200], "gptq");
}

/// Shapes of words and groups that do and that do not end with vectors and pieces.
#[test]
fn products_of_larger_weights_in_words() {
    let counts = [1, 5, 40];
    for (bits, group, shuffled) in [
        (4, 64, false),
        (4, 40, false),
        (4, 64, true),
        (8, 128, false),
        (2, 32, false),
    ] {
        let what = format!("gptq of {bits} bits, groups of {group}, {shuffled}");
        check_all(&gptq([144, 560], bits, group, shuffled), &counts, &what);
    }
    for group in [64, 20] {
        check_all(&awq([136, 640], group), &counts, "awq");
    }
    // Wide enough that many words of a line are copied at once, with a last part that is narrower.
    check_all(&gptq([1096, 128], 4, 64, true), &[1, 3], "wide gptq");
    check_all(&awq([1096, 128], 64), &[1, 3], "wide awq");
    check_all(&gptq([1096, 32], 8, 32, false), &[1, 20], "low gptq");
    // A thread gets the largest number of outputs, and the last one fewer.
    check_all(&gptq([8264, 32], 4, 32, true), &[1, 3], "widest gptq");
    check_all(&awq([8264, 32], 32), &[1, 3], "widest awq");
    for (columns, bits, scales, zeros) in [
        (640, 4, Scales::Groups(128), false),
        (640, 4, Scales::Groups(32), true),
        (600, 4, Scales::Groups(24), true),
        (523, 4, Scales::Rows, false),
        (523, 8, Scales::Rows, true),
        (640, 8, Scales::Groups(64), false),
        (523, 8, Scales::Tensor, false),
        (523, 3, Scales::Rows, false),
    ] {
        let what = format!("{bits} bits, {columns} columns, {scales}, {zeros}");
        check_all(&packed([67, columns], bits, scales, zeros), &counts, &what);
    }
}

#[test]
fn products_of_larger_weights_of_bytes() {
    let counts = [1, 5, 40];
    for (columns, code, scales, zeros) in [
        (523, Code::Int8, Scales::Rows, false),
        (523, Code::Int8, Scales::Rows, true),
        (640, Code::Int8, Scales::Groups(128), true),
        (640, Code::Int8, Scales::Groups(20), false),
        (523, Code::Int8, Scales::Tensor, false),
        (523, Code::E4M3, Scales::Rows, false),
        (640, Code::E4M3, Scales::Groups(64), false),
        (523, Code::E4M3, Scales::Blocks([32, 48]), false),
    ] {
        let what = format!("{code:?}, {columns} columns, {scales}, {zeros}");
        check_all(
            &unpacked([67, columns], code, scales, zeros),
            &counts,
            &what,
        );
    }
    check_all(&fp8_blocks([131, 576], [128, 128]), &counts, "fp8");
    check_all(&fp8_blocks([67, 523], [13, 100]), &counts, "fp8");
}

/// Shapes whose panels are of several sizes, and which threads share.
#[test]
fn results_dont_depend_on_the_number_of_threads() {
    for stored in [
        blocks(gguf::Block::Q4K, [300, 512]),
        int8([515, 301]),
        gptq([1096, 128], 4, 64, true),
    ] {
        let weight = stored.weight().unwrap();
        let [outputs, inputs] = weight.shape();
        for count in [1, 3, 64, 200] {
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
