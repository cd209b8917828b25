//! Gradients of a tensor that several kernels and operations of Burn take, beside the references' in f64.

use crate::comparison::relative;
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use kernels_runtime::ops::{add_rms_norm, linear, rms_norm};
use kernels_runtime::semantics::{
    AddRmsNormKey, Gating, LinearKey, OutputLayout, RmsNormKey, Shift,
};

const EPS: f64 = 1e-6;

/// Returns numbers between -1 and 1.
fn numbers<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<D> {
    let count: usize = shape.iter().product();
    let values = (0..count as u64).map(|i| {
        let mixed = (i + 1_000_003 * seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((mixed ^ mixed >> 32) % 2001) as f32 / 1000.0 - 1.0
    });
    let data = TensorData::new(values.collect::<Vec<_>>(), shape);
    Tensor::from_data(data, &Device::flex().autodiff())
}

/// The operations of a test: kernels, or the references.
#[derive(Clone, Copy)]
struct Operations {
    fused: bool,
    dtype: FloatDType,
}

impl Operations {
    fn numbers<const D: usize>(self, shape: [usize; D], seed: u64) -> Tensor<D> {
        // Every dtype but f16 holds those of bf16, and f16 nearly.
        let rounded = numbers(shape, seed).cast(FloatDType::BF16);
        rounded.cast(self.dtype)
    }

    /// Returns `x` times a weight of its own.
    fn linear(self, x: Tensor<2>, outputs: usize, seed: u64) -> Tensor<2> {
        let key = LinearKey {
            layout: OutputLayout::InputMajor,
            shift: Shift::None,
        };
        let inputs = linear::Inputs {
            weight: self.numbers([x.dims()[1], outputs], seed),
            bias: None,
            x,
        };
        match self.fused {
            true => linear::fused(inputs, key).expect("a kernel"),
            false => linear::reference(inputs, key),
        }
    }

    fn norm(self, x: Tensor<2>) -> Tensor<2> {
        self.gated_norm(x, None, Gating::None)
    }

    fn gated_norm(self, x: Tensor<2>, gate: Option<Tensor<2>>, gating: Gating) -> Tensor<2> {
        let inputs = rms_norm::Inputs {
            weight: Some(self.numbers([x.dims()[1]], 5)),
            gate,
            x,
        };
        let key = RmsNormKey {
            gating,
            ..RmsNormKey::LLAMA
        };
        let settings = rms_norm::Settings {
            eps: EPS,
            group_size: None,
        };
        match self.fused {
            true => rms_norm::fused(inputs, settings, key).expect("a kernel"),
            false => rms_norm::reference(inputs, settings, key),
        }
    }

    /// Returns the norm of a sum, and the sum.
    fn sum_norm(self, x: Tensor<2>, residual: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let inputs = add_rms_norm::Inputs {
            weight: Some(self.numbers([x.dims()[1]], 6)),
            gate: None,
            x,
            residual,
        };
        let settings = add_rms_norm::Settings {
            eps: EPS,
            group_size: None,
        };
        let key = AddRmsNormKey::of_norm(RmsNormKey::LLAMA);
        match self.fused {
            true => add_rms_norm::fused(inputs, settings, key).expect("a kernel"),
            false => add_rms_norm::reference(inputs, settings, key),
        }
    }

    /// Returns the gradient of `leaf` of a loss of several results, which all take `function(leaf)`.
    fn gradient(
        self,
        shape: [usize; 2],
        function: impl Fn(Tensor<2>) -> Tensor<2>,
        results: impl Fn(Self, Tensor<2>) -> Vec<Tensor<2>>,
    ) -> Vec<f64> {
        let leaf = self.numbers(shape, 1).detach().require_grad();
        let losses = results(self, function(leaf.clone()));
        let losses = losses.into_iter().enumerate().map(|(i, y)| {
            let dy = self.numbers(y.dims(), 50 + i as u64);
            (y * dy).cast(FloatDType::F64).sum()
        });
        let loss = losses.reduce(|sum, loss| sum + loss).expect("results");
        let gradient = leaf.grad(&loss.backward()).expect("a gradient");
        let gradient = gradient.cast(FloatDType::F64).into_data();
        gradient.try_to_vec().expect("numbers in f64")
    }
}

/// Compares kernels in each dtype with the references in f64.
fn compare(
    shape: [usize; 2],
    function: impl Fn(Tensor<2>) -> Tensor<2> + Copy,
    results: impl Fn(Operations, Tensor<2>) -> Vec<Tensor<2>> + Copy,
) {
    let expected = Operations {
        fused: false,
        dtype: FloatDType::F64,
    };
    let expected = expected.gradient(shape, function, results);
    for (dtype, tolerance) in [
        (FloatDType::F64, 1e-12),
        // Sums of up to 310 products, rounded at 2^-24 each, in any order.
        (FloatDType::F32, 4e-6),
        // Each of up to six gradients is rounded, and so is their sum after each of them.
        (FloatDType::BF16, 3e-2),
        (FloatDType::F16, 4e-3),
    ] {
        let kernels = Operations { fused: true, dtype };
        // A pass remembers nothing that the next one would take for its own.
        for pass in 0..2 {
            let found = kernels.gradient(shape, function, results);
            let error = relative(&found, &expected);
            assert!(
                error <= tolerance,
                "{dtype:?}, {shape:?}, pass {pass}: {error:e}"
            );
        }
    }
}

const SHAPES: [[usize; 2]; 5] = [[1, 1], [3, 5], [40, 33], [600, 200], [1024, 128]];

/// Returns a tensor that is not a leaf.
fn twice(x: Tensor<2>) -> Tensor<2> {
    x * 2.0
}

#[test]
fn linear_layers_that_share_their_input() {
    for shape in SHAPES {
        compare(shape, twice, |all, x| {
            let widths = [(310, 2), (64, 3), (1, 4)].into_iter();
            let layers = widths.map(|(outputs, seed)| all.linear(x.clone(), outputs, seed));
            layers.collect()
        });
    }
}

#[test]
fn norms_and_sums_of_a_residual_stream() {
    for shape in SHAPES {
        compare(shape, twice, |all, x| {
            let normalised = all.norm(x.clone());
            let first = all.linear(normalised.clone(), shape[1], 2);
            let second = all.linear(normalised, shape[1], 3);
            let (normalised, sum) = all.sum_norm(first, x);
            let third = all.linear(normalised, shape[1], 4);
            let (normalised, sum) = all.sum_norm(third, sum);
            vec![second, normalised, sum]
        });
    }
}

#[test]
fn gated_norms_that_share_their_input() {
    for shape in SHAPES {
        compare(shape, twice, |all, x| {
            let gate = all.linear(x.clone(), shape[1], 2);
            let gated = [Gating::AfterNorm, Gating::BeforeNorm]
                .map(|gating| all.gated_norm(x.clone(), Some(gate.clone()), gating));
            let [after, before] = gated;
            vec![after, before, all.norm(x)]
        });
    }
}

/// Operations of Burn register gradients of the tensor before kernels, between them and after them.
#[test]
fn kernels_and_operations_of_burn_share_an_input() {
    for shape in SHAPES {
        compare(shape, twice, |all, x| {
            let first = all.linear(x.clone(), 7, 2);
            let deep = (x.clone() * 3.0).tanh() * x.clone();
            let norm = all.norm(x.clone());
            let second = all.linear(x.clone() + norm.clone(), 9, 3);
            vec![first, deep, norm, second, x.clone(), all.linear(x, 5, 4)]
        });
    }
}

/// The gradient of a leaf stays in Burn's container when it is consumed.
#[test]
fn leaves_are_shared() {
    for shape in SHAPES {
        compare(
            shape,
            |leaf| leaf,
            |all, x| {
                let norm = all.norm(x.clone());
                let (normalised, sum) = all.sum_norm(x.clone(), x.clone());
                vec![
                    all.linear(x.clone(), 7, 2),
                    norm,
                    normalised,
                    sum,
                    all.linear(x, 5, 3),
                ]
            },
        );
    }
}
