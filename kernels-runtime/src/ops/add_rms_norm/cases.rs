use super::{Inputs, Settings, fused, reference};
use crate::ops::rms_norm::cases::{group_size, keys, terms};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{AddRmsNormKey, Gating, Scale, SemanticsKey};
use crate::verify::case::{Case, Computation, Computed, Variant};
use burn::tensor::Tensor;

const EPS: f64 = 1e-6;

/// A sum and its RMSNorm.
#[derive(Clone, Copy)]
struct SumNorm {
    key: AddRmsNormKey,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    keys().flat_map(|(norm, large)| {
        let key = AddRmsNormKey::of_norm(norm);
        Case::on_every_shape(SumNorm { key }, large)
    })
}

impl Variant for SumNorm {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    /// Gives all exact results except the sum the reference's own error in the dtype as tolerance: rounding the sum
    /// changes them by an amount that depends on the numbers.
    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let results = self.run(shape, at)?;
        if at.fused {
            return Ok(results);
        }
        let dtype = at.exact_in;
        let plain = self.run(shape, &Computation { dtype, ..*at })?;
        let pairs = results.into_iter().zip(&plain);
        Ok(pairs
            .map(|(exact, plain)| match exact.name {
                "sum" => exact,
                _ => exact.with_noise_of(plain),
            })
            .collect())
    }
}

impl SumNorm {
    fn run(self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let (x, x_seen) = at.leaf("x", shape);
        let (residual, residual_seen) = at.leaf("residual", shape);
        let (gate, gate_seen) = at.leaf("gate", shape);
        let weight: Tensor<1> = at.plain("weight", [shape[3]]).require_grad();
        let weighted = self.key.scale == Scale::Weight;
        let gated = self.key.gating != Gating::None;
        let inputs = Inputs {
            x: x_seen,
            residual: residual_seen,
            weight: weighted.then(|| weight.clone()),
            gate: gated.then_some(gate_seen),
        };
        let settings = Settings {
            eps: EPS,
            group_size: group_size(self.key.norm(), shape[3]),
        };
        let (y, sum) = if at.fused {
            fused(inputs, settings, self.key)?
        } else {
            reference(inputs, settings, self.key)
        };
        let d_y = (y.clone() * at.plain("dy", shape)).sum();
        let d_sum = (sum.clone() * at.plain("d_sum", shape)).sum();
        let grads = (d_y + d_sum).backward();
        let terms = self.terms(shape, at);
        let of_sum = |name, tensor: &Tensor<4>| Computed::new(name, tensor.grad(&grads));
        let mut results = vec![
            Computed::new("y", Some(y)),
            Computed::new("sum", Some(sum)).rounded(1),
            of_sum("d_x", &x).sum_of(terms),
            of_sum("d_residual", &residual).sum_of(terms),
        ];
        if weighted {
            results.push(Computed::new("d_weight", weight.grad(&grads)));
        }
        if gated {
            results.push(of_sum("d_gate", &gate).sum_of(terms));
        }
        Ok(results)
    }

    /// Returns the largest term of a gradient: that of the norm or that of the sum.
    fn terms(self, shape: [usize; 4], at: &Computation<'_>) -> f64 {
        let [x, residual] = ["x", "residual"].map(|name| at.values(name, shape));
        let sum: Vec<f64> = x.iter().zip(residual).map(|(x, r)| x + r).collect();
        terms(self.key.norm(), &sum, shape, at).max(at.largest("d_sum", shape))
    }
}
