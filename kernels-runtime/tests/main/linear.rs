//! Linear layers beside their reference in f64 and beside Burn's own: sizes around the parts of products, layouts, empty
//! operands, half types, threads.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor, TensorData, module};
use kernels_runtime::ops::linear::{self, Inputs};
use kernels_runtime::semantics::{LinearKey, OutputLayout, Shift};

const LAYOUTS: [OutputLayout; 2] = [OutputLayout::InputMajor, OutputLayout::OutputMajor];
const SHIFTS: [Shift; 2] = [Shift::None, Shift::Bias];

fn keys() -> impl Iterator<Item = LinearKey> {
    let of = |layout| SHIFTS.map(|shift| LinearKey { layout, shift });
    LAYOUTS.into_iter().flat_map(of)
}

/// The numbers of a call in a half type or f32, as leaves of a graph.
struct Numbers {
    x: Tensor<3>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    dy: Tensor<3>,
}

impl Numbers {
    fn new([rows, inputs, outputs]: [usize; 3], key: LinearKey, dtype: FloatDType) -> Self {
        let device = Device::flex().autodiff();
        // Of the test alone: the generator of a device is shared with other tests.
        fn random<const D: usize>(
            shape: [usize; D],
            dtype: FloatDType,
            device: &Device,
        ) -> Tensor<D> {
            let count: usize = shape.iter().product();
            // The number's bits are mixed, so that sums grow as those of random numbers do.
            let values = (0..count as u64).map(|i| {
                let mixed = (i + 1_000_003 * D as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
                ((mixed ^ mixed >> 32) % 2001) as f32 / 1000.0 - 1.0
            });
            let data = TensorData::new(values.collect::<Vec<_>>(), shape);
            Tensor::<D>::from_data(data, device).cast(dtype)
        }
        let axes = match key.layout {
            OutputLayout::InputMajor => [inputs, outputs],
            OutputLayout::OutputMajor => [outputs, inputs],
        };
        Self {
            x: random([1, rows, inputs], dtype, &device),
            weight: random(axes, dtype, &device),
            bias: random([outputs], dtype, &device),
            dy: random([1, rows, outputs], dtype, &device),
        }
    }

    fn cast(&self, dtype: FloatDType) -> Self {
        Self {
            x: self.x.clone().cast(dtype),
            weight: self.weight.clone().cast(dtype),
            bias: self.bias.clone().cast(dtype),
            dy: self.dy.clone().cast(dtype),
        }
    }

    /// Returns the result and the gradients of a function, in f64.
    fn run(&self, key: LinearKey, layer: impl Fn(Inputs<3>) -> Tensor<3>) -> Vec<Vec<f64>> {
        let leaf = |tensor: &Tensor<3>| tensor.clone().detach().require_grad();
        let x = leaf(&self.x);
        let weight = self.weight.clone().detach().require_grad();
        let bias = self.bias.clone().detach().require_grad();
        let shifted = key.shift == Shift::Bias;
        let y = layer(Inputs {
            x: x.clone(),
            weight: weight.clone(),
            bias: shifted.then(|| bias.clone()),
        });
        let grads = (y.clone() * self.dy.clone()).sum().backward();
        let mut all = vec![values(y)];
        all.extend(x.grad(&grads).map(values));
        all.extend(weight.grad(&grads).map(values));
        all.extend(bias.grad(&grads).map(values));
        assert_eq!(all.len(), if shifted { 4 } else { 3 });
        all
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.to_data().iter::<f64>().collect()
}

fn fused(key: LinearKey) -> impl Fn(Inputs<3>) -> Tensor<3> {
    move |inputs| linear::fused(inputs, key).expect("a kernel")
}

/// Compares a call with the reference in f64. Half types may be off by their last bit, and where the sum cancels by what
/// f32 loses of the terms, of which none is larger than one.
fn compare(sizes: [usize; 3], key: LinearKey, dtype: FloatDType) {
    let numbers = Numbers::new(sizes, key, dtype);
    let found = numbers.run(key, fused(key));
    let exact = numbers
        .cast(FloatDType::F64)
        .run(key, |inputs| linear::reference(inputs, key));
    let last_bit = match dtype {
        FloatDType::BF16 => 1.0 / 256.0,
        FloatDType::F16 => 1.0 / 2048.0,
        FloatDType::F64 => 1e-15,
        _ => 1e-7,
    };
    let terms = *sizes.iter().max().unwrap() as f64;
    let lost = terms
        * if dtype == FloatDType::F64 {
            1e-15
        } else {
            1e-7
        };
    // Subnormal numbers of f16, to whose unit small results are rounded.
    let least = if dtype == FloatDType::F16 { 3e-8 } else { 0.0 };
    for (number, (found, exact)) in found.iter().zip(&exact).enumerate() {
        assert_eq!(found.len(), exact.len());
        for (found, exact) in found.iter().zip(exact) {
            let bound = exact.abs() * last_bit + lost + least;
            assert!(
                (found - exact).abs() <= bound,
                "{key}, {sizes:?}, {dtype:?}: result {number} is {found}, not {exact}"
            );
        }
    }
}

/// Sizes around few rows, pairs, vectors and parts.
#[test]
fn results_and_gradients_of_every_size() {
    for dtype in [
        FloatDType::F32,
        FloatDType::BF16,
        FloatDType::F16,
        FloatDType::F64,
    ] {
        for key in keys() {
            for rows in [1, 2, 7, 8, 9, 17, 33] {
                for (inputs, outputs) in [(1, 1), (2, 3), (7, 64), (16, 65), (34, 130), (65, 12)] {
                    compare([rows, inputs, outputs], key, dtype);
                }
            }
        }
    }
}

/// Sizes whose parts several threads compute.
#[test]
fn results_and_gradients_of_several_threads() {
    for dtype in [FloatDType::F32, FloatDType::BF16, FloatDType::F16] {
        for key in keys() {
            // So many rows as in the last ones are multiplied in wider parts, where a type has no kernel of its own.
            let many = [[200, 130, 300], [193, 290, 129]];
            for sizes in [[3, 1000, 1030], [129, 130, 258], [160, 99, 131]]
                .into_iter()
                .chain(many)
            {
                compare(sizes, key, dtype);
            }
        }
    }
}

/// Without rows, inputs or outputs there is nothing to multiply: results are the bias, and gradients zeros.
#[test]
fn empty_operands() {
    let few = [[0, 3, 4], [3, 0, 4], [9, 0, 4], [3, 4, 0], [0, 0, 0]];
    // So many rows are multiplied in tiles where the machine has them.
    let many = [[40, 0, 4], [200, 0, 130], [40, 3, 0], [0, 64, 64]];
    for dtype in [
        FloatDType::F32,
        FloatDType::F64,
        FloatDType::BF16,
        FloatDType::F16,
    ] {
        for key in keys() {
            for sizes in few.into_iter().chain(many) {
                compare(sizes, key, dtype);
            }
        }
    }
}

/// The terms are added as in Burn's product: in f64, and in f32 where the crate has no product of its own for large
/// matrices. Threads share the last sizes.
#[test]
fn bits_are_burns() {
    let with_own_product = has_avx2_alone() || linear::multiplies_in_tiles();
    for dtype in [FloatDType::F32, FloatDType::F64] {
        for shift in SHIFTS {
            let key = LinearKey {
                layout: OutputLayout::InputMajor,
                shift,
            };
            let small = [[8, 5, 7], [40, 64, 96]];
            let large = [[200, 200, 200], [640, 300, 257]];
            let large = large
                .into_iter()
                .filter(|_| dtype == FloatDType::F64 || !with_own_product);
            for sizes in small.into_iter().chain(large) {
                let numbers = Numbers::new(sizes, key, dtype);
                let ours = numbers.run(key, fused(key));
                let burns =
                    |inputs: Inputs<3>| module::linear(inputs.x, inputs.weight, inputs.bias);
                let theirs = numbers.run(key, burns);
                // The gradient of the bias is summed in another order.
                assert_eq!(ours[..3], theirs[..3], "{key}, {sizes:?}");
            }
        }
    }
}

/// Returns whether this machine has the instructions of the product of large matrices, and none that are faster.
fn has_avx2_alone() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && !is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Operands that are views: transposed, sliced, broadcast.
#[test]
fn views() {
    for dtype in [FloatDType::F32, FloatDType::BF16, FloatDType::F16] {
        for rows in [3, 20] {
            let key = LinearKey::PROJECTION;
            let device = Device::flex();
            let random = |shape: [usize; 2]| -> Tensor<2> {
                Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &device).cast(dtype)
            };
            let plain = (random([rows, 24]), random([24, 40]));
            let turned = |tensor: &Tensor<2>| {
                let [first, second] = tensor.dims();
                let turned = tensor.clone().swap_dims(0, 1).reshape([second, first]);
                turned.swap_dims(0, 1)
            };
            let within = |tensor: &Tensor<2>, axis| {
                let around = Tensor::cat(vec![tensor.clone(); 3], axis);
                let length = tensor.dims()[axis];
                around.narrow(axis, length, length)
            };
            let run = |x: Tensor<2>, weight: Tensor<2>| {
                let inputs = Inputs {
                    x,
                    weight,
                    bias: None,
                };
                values(linear::fused(inputs, key).expect("a kernel"))
            };
            let expected = run(plain.0.clone(), plain.1.clone());
            let near = |found: Vec<f64>| {
                // Another layout may be multiplied in another order.
                for (found, expected) in found.iter().zip(&expected) {
                    assert!((found - expected).abs() <= expected.abs() / 128.0 + 1e-5);
                }
            };
            for axis in [0, 1] {
                near(run(within(&plain.0, axis), plain.1.clone()));
                near(run(plain.0.clone(), within(&plain.1, axis)));
            }
            near(run(turned(&plain.0), plain.1.clone()));
            near(run(plain.0.clone(), turned(&plain.1)));
            let row: Tensor<2> = random([1, 24]).expand([rows, 24]);
            let found = run(row.clone(), plain.1.clone());
            let first = found[..40].to_vec();
            assert!(found.chunks(40).all(|row| row == first));
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    // Of the last sizes, thirds that are rounded up would leave a part of one feature.
    for dtype in [FloatDType::F32, FloatDType::BF16, FloatDType::F16] {
        for sizes in [
            [2, 600, 1100],
            [150, 150, 150],
            [300, 700, 400],
            [300, 200, 385],
            [90, 300, 389],
        ] {
            for key in keys() {
                let on = |threads| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                    let pool = pool.build().expect("a pool");
                    pool.install(|| Numbers::new(sizes, key, dtype).run(key, fused(key)))
                };
                assert!(on(1) == on(3), "{key}, {dtype:?}, {sizes:?}");
            }
        }
    }
}

/// Each gradient is computed alone and with the others.
#[test]
fn only_tracked_operands_have_gradients() {
    let device = Device::flex().autodiff();
    let key = LinearKey::BURN;
    for tracked in 1..8_usize {
        let is_tracked = |number: usize| tracked & (1 << number) != 0;
        let mut x = Tensor::<2>::ones([9, 4], &device);
        let mut weight = Tensor::<2>::ones([4, 5], &device);
        let mut bias = Tensor::<1>::ones([5], &device);
        if is_tracked(0) {
            x = x.require_grad();
        }
        if is_tracked(1) {
            weight = weight.require_grad();
        }
        if is_tracked(2) {
            bias = bias.require_grad();
        }
        let inputs = Inputs {
            x: x.clone(),
            weight: weight.clone(),
            bias: Some(bias.clone()),
        };
        let y = linear::fused(inputs, key).expect("a kernel");
        let grads = y.sum().backward();
        let [of_x, of_weight] =
            [x.grad(&grads), weight.grad(&grads)].map(|found| found.map(values));
        assert_eq!(of_x, is_tracked(0).then(|| vec![5.0; 36]));
        assert_eq!(of_weight, is_tracked(1).then(|| vec![9.0; 20]));
        let of_bias = bias.grad(&grads).map(values);
        assert_eq!(of_bias, is_tracked(2).then(|| vec![9.0; 5]));
    }
}

/// A product of half types that is rounded to a half type before the bias is added would differ here.
#[test]
fn the_bias_is_added_before_the_rounding() {
    let device = Device::flex();
    // 256 + 1 is between two numbers of bf16, and rounds down; with the bias it is 258.
    let x = Tensor::<2>::from_floats([[256.0, 1.0]], &device).cast(FloatDType::BF16);
    for rows in [1, 12] {
        let x = x.clone().expand([rows, 2]);
        let weight = Tensor::<2>::ones([2, 3], &device).cast(FloatDType::BF16);
        let bias = Tensor::<1>::ones([3], &device).cast(FloatDType::BF16);
        let inputs = Inputs {
            x,
            weight,
            bias: Some(bias),
        };
        let y = linear::fused(inputs, LinearKey::BURN).expect("a kernel");
        assert_eq!(y.dtype(), DType::BF16);
        assert_eq!(values(y), vec![258.0; 3 * rows]);
    }
}

#[track_caller]
fn mismatched(x: [usize; 2], weight: [usize; 2], bias: Option<usize>, key: LinearKey, words: &str) {
    let device = Device::flex();
    let inputs = Inputs {
        x: Tensor::<2>::ones(x, &device),
        weight: Tensor::<2>::ones(weight, &device),
        bias: bias.map(|length| Tensor::<1>::ones([length], &device)),
    };
    let call = std::panic::AssertUnwindSafe(|| linear::fused(inputs, key));
    let panic = std::panic::catch_unwind(call).expect_err("it does not fit");
    let sentence = panic.downcast_ref::<String>().expect("a sentence");
    assert!(sentence.contains(words), "{sentence}");
}

#[test]
fn operands_that_do_not_fit() {
    let (with, without) = (LinearKey::BURN, LinearKey::PROJECTION);
    let turned = LinearKey {
        layout: OutputLayout::OutputMajor,
        ..without
    };
    mismatched([3, 4], [5, 6], None, without, "takes 5 elements");
    mismatched([3, 4], [4, 6], None, turned, "takes 6 elements");
    mismatched([3, 4], [4, 6], None, with, "a bias is missing");
    mismatched([3, 4], [4, 6], Some(6), without, "a bias is given");
    mismatched([3, 4], [4, 6], Some(5), with, "the bias has 5 elements");
}
