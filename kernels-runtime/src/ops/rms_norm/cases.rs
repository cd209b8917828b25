use crate::ops::rms_norm::{Inputs, Settings, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{Gating, Groups, Offset, RmsNormKey, Rounding, Scale, SemanticsKey};
use crate::verify::case::{Case, Computation, Computed, Variant, largest, vary};
use burn::tensor::Tensor;

const EPS: f64 = 1e-6;

/// An RMSNorm.
#[derive(Clone, Copy)]
struct Norm {
    key: RmsNormKey,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    keys().flat_map(|(key, large)| Case::on_every_shape(Norm { key }, large))
}

/// Returns the keys. The flag is true if large shapes are worth testing.
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
        let y = if at.fused {
            fused(inputs, settings, self.key)?
        } else {
            reference(inputs, settings, self.key)
        };
        let grads = (y.clone() * at.plain("dy", shape)).sum().backward();
        let terms = terms(self.key, &at.values("x", shape), shape, at);
        let roundings = if self.key.gating == Gating::AfterNorm {
            3
        } else {
            2
        };
        let mut results = vec![
            Computed::new("y", Some(y)).rounded(roundings),
            // The sum of two terms of this size, which cancel in rows of few elements.
            Computed::new("d_x", x.grad(&grads)).sum_of(terms),
        ];
        if weighted {
            results.push(Computed::new("d_weight", weight.grad(&grads)));
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
