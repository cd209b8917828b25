use super::{Inputs, Settings, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{
    HeadLayout, QkNorm, QkNormRopeKey, RopeStyle, RotaryWidth, SemanticsKey, TableLayout,
};
use crate::verify::case::{Case, Computation, Computed, Layout, Variant, vary};
use burn::tensor::Tensor;

const EPS: f64 = 1e-6;

/// A norm and rotation of tensors whose projections have this shape.
#[derive(Clone, Copy)]
struct NormRope {
    key: QkNormRopeKey,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    keys().into_iter().flat_map(|(key, large)| {
        let is_rotated = move |case: &Case| {
            let d = case.shape()[3];
            match key.width {
                RotaryWidth::Full => d.is_multiple_of(2),
                RotaryWidth::Partial => d >= 4,
            }
        };
        Case::on_every_shape(NormRope { key }, large).filter(is_rotated)
    })
}

/// Returns the keys. The flag is true if large shapes are worth testing.
fn keys() -> [(QkNormRopeKey, bool); 8] {
    let qwen = QkNormRopeKey::QWEN3;
    let in_place = vary(qwen, |key| key.layout = HeadLayout::Bsnd);
    let partial = vary(qwen, |key| key.width = RotaryWidth::Partial);
    let interleaved = vary(QkNormRopeKey::OLMO2, |key| {
        key.style = RopeStyle::Interleaved;
        key.table = TableLayout::Neighbours;
        key.layout = HeadLayout::Bsnd;
    });
    let to_half = vary(qwen, |key| {
        key.style = RopeStyle::InterleavedToHalf;
        key.table = TableLayout::Pairs;
    });
    [
        (qwen, true),
        (QkNormRopeKey::GEMMA3, false),
        (QkNormRopeKey::OLMO2, true),
        (QkNormRopeKey::LLAMA, false),
        (in_place, false),
        (partial, false),
        (interleaved, false),
        (to_half, false),
    ]
}

impl Variant for NormRope {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    /// Gives all exact results the reference's own error in the dtype as tolerance: the norm's rounding changes them by
    /// an amount that depends on the numbers.
    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let results = self.run(shape, at)?;
        if at.fused {
            return Ok(results);
        }
        let dtype = at.exact_in;
        let plain = self.run(shape, &Computation { dtype, ..*at })?;
        let pairs = results.into_iter().zip(&plain);
        Ok(pairs
            .map(|(exact, plain)| exact.with_noise_of(plain))
            .collect())
    }
}

impl NormRope {
    fn run(self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let (key, [b, s, heads, d]) = (self.key, shape);
        let key_shape = [b, s, heads.min(1), d];
        let (q, q_seen) = at.leaf("q", shape);
        let (k, k_seen) = at.leaf("k", key_shape);
        let has_norm = key.norm != QkNorm::None;
        let weight = |name, heads| -> Option<Tensor<1>> {
            let elements = match key.norm {
                QkNorm::None => return None,
                QkNorm::Head => d,
                QkNorm::Row => heads * d,
            };
            Some(at.plain(name, [elements]).require_grad())
        };
        let q_weight = weight("q_weight", heads);
        let k_weight = weight("k_weight", key_shape[2]);
        let tables = [
            if at.layout == Layout::Swapped { 1 } else { b },
            s,
            self.columns(d),
        ];
        let inputs = Inputs {
            q: q_seen,
            k: k_seen,
            q_weight: q_weight.clone(),
            k_weight: k_weight.clone(),
            cos: at.plain("cos", tables),
            sin: at.plain("sin", tables),
        };
        let settings = Settings {
            eps: has_norm.then_some(EPS),
        };
        let (q_out, k_out) = match at.fused {
            true => fused(inputs, settings, key)?,
            false => reference(inputs, settings, key),
        };
        let loss = |y: &Tensor<4>, name| (y.clone() * at.plain(name, y.dims())).sum();
        let grads = (loss(&q_out, "d_q") + loss(&k_out, "d_k")).backward();
        let mut results = vec![
            Computed::new("q", Some(q_out)),
            Computed::new("k", Some(k_out)),
            Computed::new("d_q", q.grad(&grads)),
            Computed::new("d_k", k.grad(&grads)),
        ];
        for (name, weight) in [("d_q_weight", q_weight), ("d_k_weight", k_weight)] {
            if let Some(weight) = weight {
                results.push(Computed::new(name, weight.grad(&grads)));
            }
        }
        Ok(results)
    }

    /// Returns the width of a table.
    fn columns(self, d: usize) -> usize {
        let rotated = match self.key.width {
            RotaryWidth::Full => d,
            RotaryWidth::Partial => d / 4 * 2,
        };
        match self.key.table {
            TableLayout::Pairs => rotated / 2,
            TableLayout::Halves | TableLayout::Neighbours => rotated,
        }
    }
}
