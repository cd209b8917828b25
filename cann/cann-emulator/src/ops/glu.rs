//! SwiGLU, `silu(a) · b`, and GEGLU, `gelu(a) · b` or `a · gelu(b)`, for the halves of an axis.

use crate::ops::arithmetic::Float;
use crate::tensor::rounded;
use crate::threads::{self, rows_of};
use cann_sys::meta::aclDataType;

/// Returns `outer` blocks of two halves of `inner` values each: the gate, then the gated values.
fn halves(x: &[f32], inner: usize) -> impl Iterator<Item = (&[f32], &[f32])> {
    x.chunks_exact(2 * inner)
        .map(move |block| block.split_at(inner))
}

/// The nanoseconds of a value, about: those of an exponential.
const NANOSECONDS: usize = 5;

/// Computes SwiGLU. For f32 the operator computes `σ(a)·a·b`, for half types `a / (1 + exp(−a)) · b`.
pub(crate) fn swiglu(x: &[f32], inner: usize, single: bool) -> Vec<f32> {
    let unit = |a: f32, b: f32| {
        let one_and_exp = 1.0 + (-a).exp();
        if single {
            1.0 / one_and_exp * a * b
        } else {
            a / one_and_exp * b
        }
    };
    let mut y = vec![0.0; x.len() / 2];
    let length = rows_of(inner) * inner;
    let parts = y.chunks_mut(length).zip(x.chunks(2 * length));
    threads::each(parts, NANOSECONDS * x.len() / 2, |(y, x)| {
        for (y, (a, b)) in y.chunks_exact_mut(inner).zip(halves(x, inner)) {
            for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
                *y = unit(*a, *b);
            }
        }
    });
    y
}

/// Computes the gradient: `dA = dy·(σ(A) + σ(A)(1 − σ(A))·A)·B`, then `dB = dy·σ(A)·A`.
pub(crate) fn swiglu_grad(dy: &[f32], x: &[f32], inner: usize) -> Vec<f32> {
    let mut dx = vec![0.0; x.len()];
    let length = rows_of(inner) * inner;
    let inputs = dy.chunks(length).zip(x.chunks(2 * length));
    let parts = dx.chunks_mut(2 * length).zip(inputs);
    threads::each(parts, NANOSECONDS * dy.len(), |(dx, (dy, x))| {
        let inputs = dy.chunks_exact(inner).zip(halves(x, inner));
        for (dx, (dy, (a, b))) in dx.chunks_exact_mut(2 * inner).zip(inputs) {
            let (da, db) = dx.split_at_mut(inner);
            let outputs = da.iter_mut().zip(db);
            for ((da, db), (dy, (a, b))) in outputs.zip(dy.iter().zip(a.iter().zip(b))) {
                let one_and_exp = 1.0 + (-a).exp();
                let sigmoid = 1.0 / one_and_exp;
                *da = dy * (sigmoid + sigmoid * (1.0 - sigmoid) * a) * b;
                *db = dy * (a / one_and_exp);
            }
        }
    });
    dx
}

/// The arguments of GEGLU besides the tensors.
#[derive(Clone, Copy)]
pub(crate) struct GeGlu {
    /// The number of values of a half in a block.
    pub(crate) inner: usize,
    /// True for the approximation with tanh.
    pub(crate) approximate: bool,
    /// True if the first half is activated.
    pub(crate) gate_first: bool,
}

impl GeGlu {
    /// Returns the activated half of each block, and the other one.
    fn parts(self, x: &[f32]) -> impl Iterator<Item = (&[f32], &[f32])> {
        halves(x, self.inner).map(move |(first, second)| match self.gate_first {
            true => (first, second),
            false => (second, first),
        })
    }

    fn gelu(self, x: f32) -> f32 {
        match self.approximate {
            true => Float::gelu_tanh(x),
            false => Float::gelu(x),
        }
    }

    /// Returns the derivative of [`gelu`](Self::gelu).
    fn slope(self, x: f32) -> f32 {
        if !self.approximate {
            let density = (-0.5 * x * x).exp() / (2.0 * std::f32::consts::PI).sqrt();
            let area = if x == 0.0 { 0.5 } else { Float::gelu(x) / x };
            return area + x * density;
        }
        let factor = (2.0 / std::f32::consts::PI).sqrt();
        let tanh = (factor * (x + 0.044715 * x.powi(3))).tanh();
        let inner = factor * (1.0 + 3.0 * 0.044715 * x * x);
        0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner
    }

    /// Computes the result and the activated half. The result is a product with the activation before it is rounded.
    pub(crate) fn forward(self, x: &[f32]) -> [Vec<f32>; 2] {
        let activated = self.parts(x).flat_map(|(gate, _)| gate);
        let gelu: Vec<f32> = activated.map(|gate| self.gelu(*gate)).collect();
        let others = self.parts(x).flat_map(|(_, other)| other);
        let output = gelu.iter().zip(others).map(|(gelu, other)| gelu * other);
        [output.collect(), gelu]
    }

    /// Computes the gradient from the activated half of the forward pass. For f16, `dy · other` is rounded before it is
    /// multiplied with the slope; other types are computed in f32.
    pub(crate) fn backward(
        self,
        dy: &[f32],
        x: &[f32],
        gelu: &[f32],
        half: Option<aclDataType>,
    ) -> Vec<f32> {
        let round = |value: f32| half.map_or(value, |half| rounded(half, value));
        let mut dx = Vec::with_capacity(x.len());
        let blocks = dy
            .chunks_exact(self.inner)
            .zip(gelu.chunks_exact(self.inner));
        for ((dy, gelu), (gate, other)) in blocks.zip(self.parts(x)) {
            let units = dy.iter().zip(gate.iter().zip(other));
            let d_gate = units.map(|(dy, (gate, other))| round(dy * other) * self.slope(*gate));
            let d_other = dy.iter().zip(gelu).map(|(dy, gelu)| dy * gelu);
            match self.gate_first {
                true => dx.extend(d_gate.chain(d_other)),
                false => dx.extend(d_other.chain(d_gate)),
            }
        }
        dx
    }
}
