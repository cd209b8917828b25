use super::{Inputs, Settings, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{LayerNormKey, SemanticsKey, Shift};
use crate::verify::case::{Case, Computation, Computed, Variant, largest};
use burn::tensor::Tensor;

const EPS: f64 = 1e-5;

/// A LayerNorm.
#[derive(Clone, Copy)]
struct Norm {
    key: LayerNormKey,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let keys = [LayerNormKey::GPT2, LayerNormKey::COHERE];
    keys.into_iter()
        .flat_map(|key| Case::on_every_shape(Norm { key }, true))
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
        let parameter = |name| -> Tensor<1> { at.plain(name, [shape[3]]).require_grad() };
        let (weight, bias) = (parameter("weight"), parameter("bias"));
        let shifted = self.key.shift == Shift::Bias;
        let inputs = Inputs {
            x: x_seen,
            weight: weight.clone(),
            bias: shifted.then(|| bias.clone()),
        };
        let settings = Settings { eps: EPS };
        let y = match at.fused {
            true => fused(inputs, settings, self.key)?,
            false => reference(inputs, settings, self.key),
        };
        let grads = (y.clone() * at.plain("dy", shape)).sum().backward();
        let rows = Rows::of(shape, at);
        let mut results = vec![
            Computed::new("y", Some(y)).rounded(1).sum_of(rows.terms),
            Computed::new("d_x", x.grad(&grads)).sum_of(rows.gradient_terms),
            Computed::new("d_weight", weight.grad(&grads)),
        ];
        if shifted {
            results.push(Computed::new("d_bias", bias.grad(&grads)));
        }
        Ok(results)
    }
}

/// The largest sums of terms of a result and of a gradient. The terms cancel where the elements of a row are equal, as
/// in a row of one.
struct Rows {
    terms: f64,
    gradient_terms: f64,
}

impl Rows {
    fn of(shape: [usize; 4], at: &Computation<'_>) -> Self {
        let n = shape[3];
        let [x, dy] = ["x", "dy"].map(|name| at.values(name, shape));
        let [weight, bias] = ["weight", "bias"].map(|name| at.largest(name, [n]));
        let mut found = Self {
            terms: bias,
            gradient_terms: 0.0,
        };
        for (x, dy) in x.chunks_exact(n).zip(dy.chunks_exact(n)) {
            let mean = x.iter().sum::<f64>() / n as f64;
            let squares = x.iter().map(|x| (x - mean) * (x - mean));
            let rstd = 1.0 / (squares.sum::<f64>() / n as f64 + EPS).sqrt();
            // The element and the mean.
            let normal = (largest(x) + mean.abs()) * rstd;
            found.terms = found.terms.max(normal * weight + bias);
            // The gradient of the normalised element, its mean, and what goes through the standard deviation.
            let gradient = largest(dy) * weight * rstd * (2.0 + normal * normal);
            found.gradient_terms = found.gradient_terms.max(gradient);
        }
        found
    }
}
