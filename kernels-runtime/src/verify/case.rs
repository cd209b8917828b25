//! The cases: each operation with every variant and shape class.

use super::budget::Exact;
use super::data::{elements, tensor, values};
use crate::dispatch::Reason;
use crate::ops::{rms_norm, rope, swiglu};
use crate::registry::{FloatType, KernelSpec};
use crate::semantics::{GluKey, Offset, RmsNormKey, RopeKey, Rounding, SemanticsKey};
use burn::tensor::{Device, Tensor};

/// One kernel with one key on one shape and layout.
pub(super) struct Case {
    pub(super) kernel: &'static KernelSpec,
    pub(super) key: SemanticsKey,
    shape: [usize; 4],
    layout: Layout,
}

/// How the inputs of rank 4 lie in memory.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Contiguous,
    /// Axes 1 and 2 were swapped, as attention does with heads: rows are apart.
    Swapped,
    /// The last two axes were swapped: elements of a row are apart.
    Transposed,
    /// A part of a wider tensor.
    Sliced,
}

/// A result of a case, as f64.
pub(super) struct Computed {
    pub(super) name: &'static str,
    pub(super) values: Vec<f64>,
    /// See [`Exact`]; `None` where the largest value says it well enough.
    terms: Option<f64>,
    rounded_terms: bool,
}

impl Computed {
    pub(super) fn exact(&self) -> Exact<'_> {
        Exact {
            values: &self.values,
            terms: self.terms.unwrap_or_else(|| largest(&self.values)),
            rounded_terms: self.rounded_terms,
        }
    }

    fn sum_of(mut self, terms: f64) -> Self {
        self.terms = Some(terms);
        self
    }

    fn sum_of_rounded(mut self, terms: f64) -> Self {
        self.rounded_terms = true;
        self.sum_of(terms)
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |max, value| max.max(value.abs()))
}

const EPS: f64 = 1e-6;

/// Odd and even widths around the SIMD width, one row and many, enough to be split over threads,
/// one element, none at all.
const SHAPES: [[usize; 4]; 8] = [
    [1, 1, 5, 64],
    [2, 3, 17, 16],
    [1, 1, 3, 33],
    [1, 1, 2, 1000],
    [1, 1, 1, 4096],
    [2, 4, 160, 128],
    [1, 1, 1, 1],
    [2, 0, 3, 8],
];

const STRIDED: [usize; 4] = [2, 3, 5, 24];

pub(super) fn cases() -> impl Iterator<Item = Case> {
    let rms_norm = [Offset::Zero, Offset::One].into_iter().flat_map(|offset| {
        [Rounding::Llama, Rounding::Gemma].map(|rounding| {
            SemanticsKey::RmsNorm(RmsNormKey {
                offset,
                rounding,
                ..RmsNormKey::LLAMA
            })
        })
    });
    let glu = [SemanticsKey::Glu(GluKey::SWIGLU)];
    let rope = [SemanticsKey::Rope(RopeKey::LLAMA)];
    rms_norm.chain(glu).chain(rope).flat_map(cases_of)
}

fn cases_of(key: SemanticsKey) -> impl Iterator<Item = Case> {
    let kernel = match key {
        SemanticsKey::RmsNorm(_) => rms_norm::KERNEL,
        SemanticsKey::Glu(_) => swiglu::KERNEL,
        SemanticsKey::Rope(_) => rope::KERNEL,
        SemanticsKey::Moe(_) | SemanticsKey::Custom(_) => unreachable!("no case has one"),
    };
    let even_only = matches!(key, SemanticsKey::Rope(_));
    let contiguous = SHAPES
        .into_iter()
        .filter(move |shape| !even_only || shape[3].is_multiple_of(2))
        .map(|shape| (shape, Layout::Contiguous));
    let strided = [Layout::Swapped, Layout::Transposed, Layout::Sliced]
        .into_iter()
        .map(|layout| (STRIDED, layout));
    contiguous.chain(strided).map(move |(shape, layout)| Case {
        kernel,
        key,
        shape,
        layout,
    })
}

/// The flat inputs of a case, exact in its dtype.
pub(super) struct Inputs {
    first: Vec<f64>,
    second: Vec<f64>,
    tables: [Vec<f64>; 2],
    d_first: Vec<f64>,
    d_second: Vec<f64>,
}

impl Case {
    pub(super) fn describe(&self) -> String {
        let layout = match self.layout {
            Layout::Contiguous => "",
            Layout::Swapped => " swapped",
            Layout::Transposed => " transposed",
            Layout::Sliced => " sliced",
        };
        format!("{:?}{layout}", self.shape)
    }

    /// The second tensor of rank 4: keys have one head, gates and ups are alike.
    fn second_shape(&self) -> [usize; 4] {
        let [b, h, s, d] = self.shape;
        match self.key {
            SemanticsKey::Rope(_) => [b, h.min(1), s, d],
            _ => self.shape,
        }
    }

    pub(super) fn inputs(&self, dtype: FloatType) -> Inputs {
        let [b, _, s, d] = self.shape;
        let count = |shape: [usize; 4]| shape.iter().product();
        let make = |name, count| values(name, count, dtype);
        let (first, second) = (count(self.shape), count(self.second_shape()));
        Inputs {
            first: make("first", first),
            second: match self.key {
                SemanticsKey::RmsNorm(_) => make("weight", d),
                _ => make("second", second),
            },
            tables: [make("cos", b * s * d), make("sin", b * s * d)],
            d_first: make("d_first", first),
            d_second: make("d_second", second),
        }
    }

    /// Runs the kernel in `dtype`.
    pub(super) fn fused(
        &self,
        inputs: &Inputs,
        dtype: FloatType,
        device: &Device,
    ) -> Result<Vec<Computed>, Reason> {
        self.compute(inputs, dtype, device, true)
    }

    /// Runs the reference in f64.
    pub(super) fn reference(&self, inputs: &Inputs, device: &Device) -> Vec<Computed> {
        self.compute(inputs, FloatType::F64, device, false)
            .expect("the reference runs everywhere")
    }

    fn compute(
        &self,
        inputs: &Inputs,
        dtype: FloatType,
        device: &Device,
        fused: bool,
    ) -> Result<Vec<Computed>, Reason> {
        let device = &device.clone().autodiff();
        let rank4 = |values: &[f64], shape| self.lay_out(tensor(values, shape, dtype, device));
        let plain = |values: &[f64], shape| tensor(values, shape, dtype, device);
        let x = rank4(&inputs.first, self.shape).require_grad();
        match self.key {
            SemanticsKey::RmsNorm(key) => {
                let [.., d] = self.shape;
                let w: Tensor<1> = tensor(&inputs.second, [d], dtype, device).require_grad();
                let y = if fused {
                    rms_norm::fused(self.view(&x), w.clone(), EPS, key)?
                } else {
                    rms_norm::reference(self.view(&x), w.clone(), EPS, key)
                };
                let loss = (y.clone() * plain(&inputs.d_first, self.shape)).sum();
                let grads = loss.backward();
                Ok(vec![
                    computed("y", Some(y)),
                    // Two terms of this size, which cancel in rows of few elements.
                    computed("d_x", x.grad(&grads)).sum_of(self.norm_terms(inputs)),
                    computed("d_weight", w.grad(&grads)),
                ])
            }
            SemanticsKey::Glu(key) => {
                let up = rank4(&inputs.second, self.shape).require_grad();
                let y = if fused {
                    swiglu::fused(self.view(&x), self.view(&up), key)?
                } else {
                    swiglu::reference(self.view(&x), self.view(&up), key)
                };
                let loss = (y.clone() * plain(&inputs.d_first, self.shape)).sum();
                let grads = loss.backward();
                Ok(vec![
                    computed("y", Some(y)),
                    computed("d_gate", x.grad(&grads)),
                    computed("d_up", up.grad(&grads)),
                ])
            }
            SemanticsKey::Moe(_) | SemanticsKey::Custom(_) => unreachable!("no case has one"),
            SemanticsKey::Rope(key) => {
                let [b, _, s, d] = self.shape;
                let k = rank4(&inputs.second, self.second_shape()).require_grad();
                let table = |values: &[f64]| -> Tensor<3> {
                    tensor(values, [b, s, d], dtype, device).require_grad()
                };
                let (cos, sin) = (table(&inputs.tables[0]), table(&inputs.tables[1]));
                let (q_in, k_in) = (self.view(&x), self.view(&k));
                let (q_out, k_out) = if fused {
                    rope::fused(q_in, k_in, &cos, &sin, key)?
                } else {
                    rope::reference(q_in, k_in, &cos, &sin, key)
                };
                let d_q = plain(&inputs.d_first, self.shape);
                let d_k = plain(&inputs.d_second, self.second_shape());
                let loss = (q_out.clone() * d_q).sum() + (k_out.clone() * d_k).sum();
                let grads = loss.backward();
                Ok(vec![
                    computed("q", Some(q_out)),
                    computed("k", Some(k_out)),
                    computed("d_q", x.grad(&grads)),
                    computed("d_k", k.grad(&grads)),
                    computed("d_cos", cos.grad(&grads)).sum_of_rounded(self.table_terms(inputs)),
                    computed("d_sin", sin.grad(&grads)).sum_of_rounded(self.table_terms(inputs)),
                ])
            }
        }
    }

    /// The largest `rstd · g · dy` of a row of RMSNorm.
    fn norm_terms(&self, inputs: &Inputs) -> f64 {
        let d = self.shape[3];
        let rows = inputs
            .first
            .chunks_exact(d)
            .zip(inputs.d_first.chunks_exact(d));
        rows.map(|(x, dy)| {
            let mean_square = x.iter().map(|x| x * x).sum::<f64>() / d as f64;
            largest(dy) * (1.0 + largest(&inputs.second)) / (mean_square + EPS).sqrt()
        })
        .fold(0.0, f64::max)
    }

    /// What a table's gradient adds up at most: a product for every head of q and k.
    fn table_terms(&self, inputs: &Inputs) -> f64 {
        let q = largest(&inputs.first) * largest(&inputs.d_first) * self.shape[1] as f64;
        q + largest(&inputs.second) * largest(&inputs.d_second)
    }

    /// A tensor from which [`Case::view`] makes the layout; its gradient is compared as it lies.
    fn lay_out(&self, x: Tensor<4>) -> Tensor<4> {
        match self.layout {
            Layout::Contiguous => x,
            Layout::Swapped => x.swap_dims(1, 2) * 1,
            Layout::Transposed => x.swap_dims(2, 3) * 1,
            Layout::Sliced => {
                let edge = Tensor::zeros_like(&x);
                Tensor::cat(vec![edge.clone(), x, edge], 3)
            }
        }
        .detach()
    }

    fn view(&self, x: &Tensor<4>) -> Tensor<4> {
        let d = self.shape[3];
        match self.layout {
            Layout::Contiguous => x.clone(),
            Layout::Swapped => x.clone().swap_dims(1, 2),
            Layout::Transposed => x.clone().swap_dims(2, 3),
            Layout::Sliced => x.clone().narrow(3, d, d),
        }
    }
}

fn computed<const D: usize>(name: &'static str, tensor: Option<Tensor<D>>) -> Computed {
    // A tensor without a gradient compares as empty, which differs in size from one that has it.
    Computed {
        name,
        values: tensor.map_or_else(Vec::new, elements),
        terms: None,
        rounded_terms: false,
    }
}
