use crate::ops::rms_norm::{Inputs, Settings, fused, fused_with_bias, of_all};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{Gating, Groups, Offset, RmsNormKey, Rounding, Scale, SemanticsKey, Shift};
use crate::verify::case::{Case, Computation, Computed, Variant, largest, vary};
use burn::tensor::Tensor;

const EPS: f64 = 1e-6;

/// An RMSNorm.
#[derive(Clone, Copy)]
struct Norm {
    key: RmsNormKey,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let shifted = [
        RmsNormKey::LLAMA,
        RmsNormKey::GEMMA,
        vary(RmsNormKey::LLAMA, |key| {
            (key.scale, key.groups) = (Scale::None, Groups::Many);
        }),
    ];
    let shifted = shifted.map(|key| (vary(key, |key| key.shift = Shift::Bias), false));
    let all = keys().chain(shifted);
    all.flat_map(|(key, large)| Case::on_every_shape(Norm { key }, large))
}

/// Returns the keys without a bias. The flag is true if large shapes are worth testing.
pub(in crate::ops) fn keys() -> impl Iterator<Item = (RmsNormKey, bool)> {
    let orders = [Rounding::Llama, Rounding::Gemma];
    let plain = orders.into_iter().flat_map(|rounding| {
        let key = vary(RmsNormKey::LLAMA, |key| key.rounding = rounding);
        let offset = vary(key, |key| key.offset = Offset::One);
        let bare = vary(key, |key| key.scale = Scale::None);
        [(key, true), (offset, false), (bare, false)]
    });
    let gated = orders.into_iter().flat_map(|rounding| {
        [Gating::AfterNorm, Gating::BeforeNorm]
            .into_iter()
            .flat_map(move |gating| {
                let key = RmsNormKey {
                    rounding,
                    gating,
                    ..RmsNormKey::LLAMA
                };
                let bare = vary(key, |key| key.scale = Scale::None);
                [(key, true), (bare, false)]
            })
    });
    let grouped = [Gating::None, Gating::AfterNorm, Gating::BeforeNorm]
        .into_iter()
        .flat_map(|gating| {
            let key = RmsNormKey {
                gating,
                groups: Groups::Many,
                ..RmsNormKey::LLAMA
            };
            let bare = vary(key, |key| key.scale = Scale::None);
            let gemma = RmsNormKey {
                groups: Groups::Many,
                gating,
                ..RmsNormKey::GEMMA
            };
            [(key, true), (bare, false), (gemma, false)]
        });
    plain.chain(gated).chain(grouped)
}

impl Variant for Norm {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let (x, x_seen) = at.leaf("x", shape);
        let (gate, gate_seen) = at.leaf("gate", shape);
        let weight: Tensor<1> = at.plain("weight", [shape[3]]).require_grad();
        let bias: Tensor<1> = at.plain("bias", [shape[3]]).require_grad();
        let shifted = self.key.shift == Shift::Bias;
        let weighted = self.key.scale == Scale::Weight;
        let gated = self.key.gating != Gating::None;
        let inputs = Inputs {
            x: x_seen,
            weight: weighted.then(|| weight.clone()),
            gate: gated.then_some(gate_seen),
        };
        let settings = Settings {
            eps: EPS,
            group_size: group_size(self.key, shape[3]),
        };
        let added = shifted.then(|| bias.clone());
        let y = match (at.fused, added) {
            (true, Some(bias)) => fused_with_bias(inputs, bias, settings, self.key)?,
            (true, None) => fused(inputs, settings, self.key)?,
            (false, bias) => of_all(inputs, bias, settings, self.key),
        };
        let grads = (y.clone() * at.plain("dy", shape)).sum().backward();
        let terms = terms(self.key, &at.values("x", shape), shape, at);
        let roundings = if self.key.gating == Gating::AfterNorm || shifted {
            3
        } else {
            2
        };
        let y = Computed::new("y", Some(y)).rounded(roundings);
        let mut results = vec![
            match shifted {
                // The scaled element, which Llama's rounding rounds, and the bias may cancel.
                true => y.sum_of_rounded(summands(self.key, shape, at)),
                false => y,
            },
            // The sum of two terms of this size, which cancel in rows of few elements.
            Computed::new("d_x", x.grad(&grads)).sum_of(terms),
        ];
        if weighted {
            results.push(Computed::new("d_weight", weight.grad(&grads)));
        }
        if shifted {
            results.push(Computed::new("d_bias", bias.grad(&grads)));
        }
        if gated {
            let gradient = Computed::new("d_gate", gate.grad(&grads));
            // With a gate before the norm, the gradient is computed from the gradient of the gated input.
            results.push(match self.key.gating {
                Gating::BeforeNorm => gradient.sum_of(terms),
                _ => gradient,
            });
        }
        Ok(results)
    }
}

/// Returns the largest proper divisor of the width: two groups, or three of an odd one.
pub(in crate::ops) fn group_size(key: RmsNormKey, width: usize) -> Option<usize> {
    (key.groups == Groups::Many).then(|| {
        (1..width)
            .rev()
            .find(|size| width.is_multiple_of(*size))
            .unwrap_or(1)
    })
}

/// Returns the largest sum of the magnitudes of a scaled element and the bias, without a gate.
fn summands(key: RmsNormKey, shape: [usize; 4], at: &Computation<'_>) -> f64 {
    let row = group_size(key, shape[3]).unwrap_or(shape[3]);
    let gain = match key.scale {
        Scale::Weight => 1.0 + at.largest("weight", [shape[3]]),
        Scale::None => 1.0,
    };
    let x = at.values("x", shape);
    let normalised = x.chunks_exact(row).map(|x| {
        let mean_square = x.iter().map(|x| x * x).sum::<f64>() / row as f64;
        largest(x) / (mean_square + EPS).sqrt()
    });
    normalised.fold(0.0, f64::max) * gain + at.largest("bias", [shape[3]])
}

/// Returns the largest `rstd · g · dy` of a row of `x`, times a bound on the gate's factor.
pub(in crate::ops) fn terms(
    key: RmsNormKey,
    x: &[f64],
    shape: [usize; 4],
    at: &Computation<'_>,
) -> f64 {
    let row = group_size(key, shape[3]).unwrap_or(shape[3]);
    let [gate, dy] = ["gate", "dy"].map(|name| at.values(name, shape));
    let silu = |z: f64| z / (1.0 + (-z).exp());
    let normalised: Vec<f64> = match key.gating {
        Gating::BeforeNorm => x.iter().zip(&gate).map(|(x, z)| x * silu(*z)).collect(),
        _ => x.to_vec(),
    };
    let gain = match key.scale {
        Scale::Weight => 1.0 + at.largest("weight", [shape[3]]),
        Scale::None => 1.0,
    };
    let through_gate = match key.gating {
        Gating::None => 1.0,
        Gating::AfterNorm => 1.0 + largest(&gate),
        // The slope of silu is at most 1.1.
        Gating::BeforeNorm => 1.0 + largest(&gate) + 1.1 * largest(x),
    };
    normalised
        .chunks_exact(row)
        .zip(dy.chunks_exact(row))
        .map(|(v, dy)| {
            let mean_square = v.iter().map(|v| v * v).sum::<f64>() / row as f64;
            largest(dy) * gain * through_gate / (mean_square + EPS).sqrt()
        })
        .fold(0.0, f64::max)
}
