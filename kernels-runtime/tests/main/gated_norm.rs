//! Compares gated and grouped norms with plain loops that share no code with the library, and their gradients with
//! central differences of those loops.

use crate::comparison::difference;
use burn::tensor::{Device, Tensor, TensorData, bf16};
use kernels_runtime::ops::rms_norm::{Inputs, Settings, fused, reference};
use kernels_runtime::semantics::*;

const ROWS: usize = 3;
const N: usize = 12;
const EPS: f64 = 1e-5;

/// A norm on fixed numbers.
#[derive(Clone, Copy, Debug)]
struct Norm {
    key: RmsNormKey,
    group: usize,
}

fn norms() -> impl Iterator<Item = Norm> {
    let gatings = [Gating::None, Gating::AfterNorm, Gating::BeforeNorm];
    gatings.into_iter().flat_map(|gating| {
        [
            (Scale::Weight, Offset::Zero),
            (Scale::Weight, Offset::One),
            (Scale::None, Offset::Zero),
        ]
        .into_iter()
        .flat_map(move |(scale, offset)| {
            [(Groups::One, N), (Groups::Many, 4)].map(move |(groups, group)| Norm {
                key: RmsNormKey {
                    offset,
                    scale,
                    gating,
                    groups,
                    ..RmsNormKey::LLAMA
                },
                group,
            })
        })
    })
}

/// Returns smooth numbers around zero, without a pattern.
fn numbers(count: usize, seed: f64) -> Vec<f64> {
    (0..count)
        .map(|i| ((i as f64 + seed) * 12.9898).sin() * 2.0)
        .collect()
}

fn silu(z: f64) -> f64 {
    z / (1.0 + (-z).exp())
}

impl Norm {
    /// Computes the formulas element by element. `step` rounds the values between the norm and the result.
    fn by_hand(
        self,
        x: &[f64],
        weight: &[f64],
        gate: &[f64],
        step: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let mut y = Vec::new();
        for start in (0..x.len()).step_by(self.group) {
            let group = start..start + self.group;
            let v: Vec<f64> = group
                .clone()
                .map(|i| match self.key.gating {
                    Gating::BeforeNorm => x[i] * silu(gate[i]),
                    _ => x[i],
                })
                .collect();
            let mean = v.iter().map(|v| v * v).sum::<f64>() / self.group as f64;
            for (i, v) in group.zip(v) {
                let mut value = step(v / (mean + EPS).sqrt());
                if self.key.scale == Scale::Weight {
                    value = step(value * (self.key.offset.value() + weight[i % N]));
                }
                if self.key.gating == Gating::AfterNorm {
                    value *= silu(gate[i]);
                }
                y.push(value);
            }
        }
        y
    }

    fn settings(self) -> Settings {
        Settings {
            eps: EPS,
            group_size: (self.key.groups == Groups::Many).then_some(self.group),
        }
    }

    fn inputs(self, x: &Tensor<2>, weight: &Tensor<1>, gate: &Tensor<2>) -> Inputs<2> {
        Inputs {
            x: x.clone(),
            weight: (self.key.scale == Scale::Weight).then(|| weight.clone()),
            gate: (self.key.gating != Gating::None).then(|| gate.clone()),
        }
    }
}

fn tensor<const D: usize>(
    values: &[f64],
    shape: [usize; D],
    dtype: burn::tensor::DType,
) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape).convert_dtype(dtype);
    Tensor::from_data(data, (&Device::flex().autodiff(), dtype))
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

#[test]
fn results_and_gradients_are_those_of_the_formulas() {
    let f64 = burn::tensor::DType::F64;
    let (x, gate) = (numbers(ROWS * N, 0.3), numbers(ROWS * N, 40.7));
    let (weight, dy) = (numbers(N, 90.1), numbers(ROWS * N, 7.9));
    for norm in norms() {
        let loss = |x: &[f64], weight: &[f64], gate: &[f64]| -> f64 {
            let y = norm.by_hand(x, weight, gate, |v| v);
            y.iter().zip(&dy).map(|(y, dy)| y * dy).sum()
        };
        let slopes = |values: &[f64], loss: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            let step = 1e-6;
            (0..values.len())
                .map(|i| {
                    let at = |change: f64| {
                        let mut values = values.to_vec();
                        values[i] += change;
                        loss(&values)
                    };
                    (at(step) - at(-step)) / (2.0 * step)
                })
                .collect()
        };
        for by_kernel in [true, false] {
            let x_leaf = tensor(&x, [ROWS, N], f64).require_grad();
            let gate_leaf = tensor(&gate, [ROWS, N], f64).require_grad();
            let weight_leaf = tensor(&weight, [N], f64).require_grad();
            let inputs = norm.inputs(&x_leaf, &weight_leaf, &gate_leaf);
            let y = if by_kernel {
                fused(inputs, norm.settings(), norm.key).unwrap()
            } else {
                reference(inputs, norm.settings(), norm.key)
            };
            let grads = (y.clone() * tensor(&dy, [ROWS, N], f64)).sum().backward();
            let by_hand = norm.by_hand(&x, &weight, &gate, |v| v);
            assert!(difference(&values(y), &by_hand) < 1e-13, "{norm:?}");

            let mut compared = vec![(
                "x",
                values(x_leaf.grad(&grads).unwrap()),
                slopes(&x, &|x| loss(x, &weight, &gate)),
            )];
            if norm.key.scale == Scale::Weight {
                let slopes = slopes(&weight, &|weight| loss(&x, weight, &gate));
                compared.push(("weight", values(weight_leaf.grad(&grads).unwrap()), slopes));
            }
            if norm.key.gating != Gating::None {
                let slopes = slopes(&gate, &|gate| loss(&x, &weight, gate));
                compared.push(("gate", values(gate_leaf.grad(&grads).unwrap()), slopes));
            }
            for (name, gradient, slopes) in compared {
                let difference = difference(&gradient, &slopes);
                assert!(difference < 1e-7, "{norm:?} d_{name}: {difference:e}");
            }
        }
    }
}

/// With Llama's order, results in bf16 are rounded as in transformers' gated norms. `x̂` and its product with the
/// weight are rounded, and a gate after them multiplies without rounding. Before the norm, the gated input is not
/// rounded. The loops compute in f64, so a few values very close to a rounding boundary may fall on its other side.
#[test]
fn gated_norms_round_where_the_models_do() {
    let dtype = burn::tensor::DType::BF16;
    let rounded = |values: Vec<f64>| -> Vec<f64> {
        values
            .into_iter()
            .map(|v| bf16::from_f64(v).to_f64())
            .collect()
    };
    let (rows, n) = (64, N);
    let (x, gate) = (
        rounded(numbers(rows * n, 0.3)),
        rounded(numbers(rows * n, 40.7)),
    );
    let weight = rounded(numbers(n, 90.1));
    for norm in norms().filter(|norm| norm.key.gating != Gating::None) {
        let inputs = norm.inputs(
            &tensor(&x, [rows, n], dtype),
            &tensor(&weight, [n], dtype),
            &tensor(&gate, [rows, n], dtype),
        );
        let kernel = values(fused(inputs.clone(), norm.settings(), norm.key).unwrap());
        let plain = values(reference(inputs, norm.settings(), norm.key));
        let step = |v: f64| bf16::from_f64(v).to_f64();
        let expected = rounded(norm.by_hand(&x, &weight, &gate, step));
        let once = rounded(norm.by_hand(&x, &weight, &gate, |v| v));
        let different = |a: &[f64], b: &[f64]| {
            a.iter().zip(b).filter(|(a, b)| a != b).count() as f64 / a.len() as f64
        };
        assert!(different(&kernel, &expected) < 0.005, "{norm:?}");
        assert!(different(&plain, &expected) < 0.005, "{norm:?}");
        let steps = norm.key.scale == Scale::Weight || norm.key.gating == Gating::AfterNorm;
        if steps {
            assert!(different(&kernel, &once) > 0.05, "{norm:?}");
        }
    }
}
