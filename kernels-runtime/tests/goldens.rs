//! The operations beside Hugging Face transformers' modules, on numbers that those computed.
//!
//! The fixtures hold inputs rounded to a dtype, exact results (`ref.*`, f64) and what the module
//! computed in the dtype. A path passes if its error against the exact result, in the L2 norm of
//! the tensor, is no larger than the module's own, with 10 % for the order of additions and one
//! f32 rounding (6e-8) where the module happens to be exact.

#![cfg(feature = "cpu")]

use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_runtime::ops::{glu, rms_norm, rope};
use kernels_runtime::semantics::*;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeSet;

const F32_ROUNDING: f64 = 6e-8;

struct Fixture(Vec<u8>);

impl Fixture {
    fn open(name: &str) -> Self {
        let path = format!(
            "{}/../tests/fixtures/ops/{name}.safetensors",
            env!("CARGO_MANIFEST_DIR")
        );
        Self(std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}")))
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).unwrap()
    }

    /// The cases that have an input of this name: `5x64.bf16` for the name `x`.
    fn cases(&self, input: &str) -> Vec<String> {
        let suffix = format!(".{input}");
        let names: BTreeSet<String> = self
            .tensors()
            .names()
            .into_iter()
            .filter_map(|name| name.strip_suffix(&suffix).map(str::to_owned))
            .filter(|case| case.ends_with("32") || case.ends_with("16"))
            .collect();
        assert!(!names.is_empty());
        names.into_iter().collect()
    }

    fn data(&self, name: &str) -> TensorData {
        let tensors = self.tensors();
        let view = tensors
            .tensor(name)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let dtype = match view.dtype() {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            other => panic!("{name}: {other:?}"),
        };
        TensorData::from_bytes_vec(view.data().to_vec(), view.shape().to_vec(), dtype)
    }

    fn exact(&self, name: &str) -> Vec<f64> {
        self.data(name).iter::<f64>().collect()
    }

    /// The tensor as `[rows, n]`.
    fn rows(&self, name: &str, device: &Device) -> Tensor<2> {
        let data = self.data(name);
        let n = *data.shape().last().unwrap();
        let rows = data.num_elements() / n;
        let dtype = data.dtype();
        let data = TensorData::from_bytes_vec(data.as_bytes().to_vec(), [rows, n], dtype);
        Tensor::from_data(data, (device, dtype))
    }

    fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        let data = self.data(name);
        let dtype = data.dtype();
        Tensor::from_data(data, (device, dtype))
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn relative_error(got: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(got.len(), exact.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(exact).map(|(a, b)| a - b));
    let size = norm(&mut exact.iter().copied());
    assert!(error.is_finite());
    error / size.max(f64::MIN_POSITIVE)
}

/// Asserts that `got` is as near to the exact result as what transformers computed.
fn as_near_as_the_module(fixture: &Fixture, what: &str, got: Vec<f64>, exact: &str, module: &str) {
    let exact = fixture.exact(exact);
    let ours = relative_error(&got, &exact);
    let theirs = relative_error(&fixture.exact(module), &exact);
    assert!(
        ours <= SLACK * theirs + F32_ROUNDING,
        "{what}: {ours:.2e} from the exact result, transformers {theirs:.2e}"
    );
}

/// Both paths of an operation.
const PATHS: [(&str, bool); 2] = [("fused", true), ("reference", false)];

/// The order of additions is not the module's.
const SLACK: f64 = 1.1;

#[test]
fn rms_norm_matches_transformers() {
    let fixture = Fixture::open("rmsnorm");
    let device = Device::flex().autodiff();
    let modules = [
        ("llama", "weight", "w", Offset::Zero, Rounding::Llama),
        ("gemma3n", "weight", "w", Offset::Zero, Rounding::Gemma),
        ("gemma2", "one_plus", "w0", Offset::One, Rounding::Gemma),
    ];
    let cases = fixture.cases("x");
    assert_eq!(cases.len(), 15);
    for case in cases {
        let eps = if case.starts_with("3x33") || case.starts_with("1x4096") {
            1e-5
        } else {
            1e-6
        };
        for (module, exact, weight, offset, rounding) in modules {
            for (path, fused) in PATHS {
                let x = fixture.rows(&format!("{case}.x"), &device).require_grad();
                let w: Tensor<1> = fixture
                    .tensor(&format!("{case}.{weight}"), &device)
                    .require_grad();
                let key = RmsNormKey {
                    offset,
                    rounding,
                    ..RmsNormKey::LLAMA
                };
                let inputs = rms_norm::Inputs {
                    x: x.clone(),
                    weight: Some(w.clone()),
                    gate: None,
                };
                let settings = rms_norm::Settings {
                    eps,
                    group_size: None,
                };
                let y = if fused {
                    rms_norm::fused(inputs, settings, key).unwrap()
                } else {
                    rms_norm::reference(inputs, settings, key)
                };
                let dy = fixture.rows(&format!("{case}.dy"), &device);
                let grads = (y.clone() * dy).sum().backward();
                for (result, got) in [
                    ("y", values(y)),
                    ("dx", values(x.grad(&grads).unwrap())),
                    ("dw", values(w.grad(&grads).unwrap())),
                ] {
                    as_near_as_the_module(
                        &fixture,
                        &format!("{path} {module} {case} {result}"),
                        got,
                        &format!("{case}.ref.{exact}.{result}"),
                        &format!("{case}.{module}.{result}"),
                    );
                }
            }
        }
    }
}

/// The place of the rounding is part of the semantics: with Llama's, results in half types are
/// those of transformers' Llama bit for bit, but for the few where rstd falls on another f32.
#[test]
fn the_rounding_order_is_that_of_the_model() {
    let fixture = Fixture::open("rmsnorm");
    let device = Device::flex();
    for case in ["2x17x64.bf16", "2x17x64.f16", "2x1000.bf16", "2x1000.f16"] {
        let different = |rounding, module: &str| {
            let key = RmsNormKey {
                rounding,
                ..RmsNormKey::LLAMA
            };
            let x = fixture.rows(&format!("{case}.x"), &device);
            let w = fixture.tensor(&format!("{case}.w"), &device);
            let inputs = rms_norm::Inputs {
                x,
                weight: Some(w),
                gate: None,
            };
            let settings = rms_norm::Settings {
                eps: 1e-6,
                group_size: None,
            };
            let y = values(rms_norm::fused(inputs, settings, key).unwrap());
            let theirs = fixture.exact(&format!("{case}.{module}.y"));
            let count = y.iter().zip(&theirs).filter(|(a, b)| a != b).count();
            count as f64 / y.len() as f64
        };
        assert!(different(Rounding::Llama, "llama") < 0.005, "{case}");
        assert!(different(Rounding::Gemma, "gemma3n") < 0.005, "{case}");
        assert!(different(Rounding::Gemma, "llama") > 0.05, "{case}");
    }
}

#[test]
fn swiglu_matches_transformers() {
    let fixture = Fixture::open("glu");
    let device = Device::flex().autodiff();
    let key = GluKey::SWIGLU;
    let cases = fixture.cases("a");
    assert_eq!(cases.len(), 15);
    for case in cases {
        for (path, fused) in PATHS {
            let gate = fixture.rows(&format!("{case}.a"), &device).require_grad();
            let up = fixture.rows(&format!("{case}.b"), &device).require_grad();
            let inputs = glu::Inputs::Separate {
                gate: gate.clone(),
                up: up.clone(),
            };
            let y = if fused {
                glu::fused(inputs, glu::Settings::default(), key).unwrap()
            } else {
                glu::reference(inputs, glu::Settings::default(), key)
            };
            let dy = fixture.rows(&format!("{case}.dy"), &device);
            let grads = (y.clone() * dy).sum().backward();
            for (result, got) in [
                ("y", values(y)),
                ("da", values(gate.grad(&grads).unwrap())),
                ("db", values(up.grad(&grads).unwrap())),
            ] {
                as_near_as_the_module(
                    &fixture,
                    &format!("{path} {case} {result}"),
                    got,
                    &format!("{case}.ref.silu.{result}"),
                    &format!("{case}.silu.{result}"),
                );
            }
        }
    }
}

#[test]
fn rope_matches_transformers() {
    let fixture = Fixture::open("rope");
    let device = Device::flex().autodiff();
    let key = RopeKey::LLAMA;
    let cases = fixture.cases("q");
    assert_eq!(cases.len(), 9);
    for case in cases {
        for (path, fused) in PATHS {
            let input =
                |name: &str| -> Tensor<4> { fixture.tensor(&format!("{case}.{name}"), &device) };
            let table =
                |name: &str| -> Tensor<3> { fixture.tensor(&format!("{case}.{name}"), &device) };
            let (q, k) = (input("q").require_grad(), input("k").require_grad());
            let (cos, sin) = (table("cos"), table("sin"));
            let (q_out, k_out) = if fused {
                rope::fused(q.clone(), k.clone(), cos, sin, key).unwrap()
            } else {
                rope::reference(q.clone(), k.clone(), cos, sin, key)
            };
            let loss =
                (q_out.clone() * input("d_q_out")).sum() + (k_out.clone() * input("d_k_out")).sum();
            let grads = loss.backward();
            for (result, got) in [
                ("q_out", values(q_out)),
                ("k_out", values(k_out)),
                ("d_q", values(q.grad(&grads).unwrap())),
                ("d_k", values(k.grad(&grads).unwrap())),
            ] {
                as_near_as_the_module(
                    &fixture,
                    &format!("{path} {case} {result}"),
                    got,
                    &format!("{case}.ref.{result}"),
                    &format!("{case}.hf.{result}"),
                );
            }
        }
    }
}
