use crate::ops::attention::{Inputs, Lengths, Settings, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{
    AttentionBias, AttentionKey, AttentionMask, AttentionWindow, HeadLayout, ScoreCap,
    SemanticsKey, SequenceLengths, Sinks,
};
use crate::verify::case::{Case, Computation, Computed, Variant, vary};
use burn::tensor::Tensor;

/// Attention.
#[derive(Clone, Copy)]
struct Attention {
    key: AttentionKey,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    keys().flat_map(|key| Case::on_every_shape(Attention { key }, false))
}

/// Returns the keys: each setting alone, and all together.
pub(in crate::ops) fn keys() -> impl Iterator<Item = AttentionKey> {
    let causal = AttentionKey::CAUSAL;
    let all_keys = vary(causal, |key| key.mask = AttentionMask::None);
    let chunked = vary(causal, |key| key.window = AttentionWindow::Chunked);
    let sliding = vary(causal, |key| key.window = AttentionWindow::Sliding);
    let sinks = vary(sliding, |key| key.sink = Sinks::Learned);
    let all = AttentionKey {
        bias: AttentionBias::Additive,
        cap: ScoreCap::Tanh,
        layout: HeadLayout::Bsnd,
        ..sinks
    };
    [
        causal,
        all_keys,
        vary(causal, |key| key.layout = HeadLayout::Bsnd),
        vary(causal, |key| key.mask = AttentionMask::Prefix),
        sliding,
        vary(sliding, |key| key.mask = AttentionMask::None),
        chunked,
        vary(causal, |key| key.bias = AttentionBias::Additive),
        vary(causal, |key| key.cap = ScoreCap::Tanh),
        vary(causal, |key| key.lengths = SequenceLengths::Packed),
        vary(chunked, |key| key.lengths = SequenceLengths::Packed),
        vary(all_keys, |key| key.lengths = SequenceLengths::Padded),
        vary(sliding, |key| key.lengths = SequenceLengths::LeftPadded),
        sinks,
        all,
    ]
    .into_iter()
}

impl Variant for Attention {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let shapes = Shapes::new(self.key.layout, shape);
        let [(q, q_seen), (k, k_seen), (v, v_seen)] = [
            at.leaf("q", shape),
            at.leaf("k", shapes.keys),
            at.leaf("v", shapes.keys),
        ];
        let bias: Tensor<4> = at.plain("bias", shapes.bias).require_grad();
        let sinks: Tensor<1> = at.plain("sinks", [shapes.heads]).require_grad();
        let has_bias = self.key.bias == AttentionBias::Additive;
        let has_sinks = self.key.sink == Sinks::Learned;
        let inputs = Inputs {
            q: q_seen,
            k: k_seen,
            v: v_seen,
            bias: has_bias.then(|| bias.clone()),
            sinks: has_sinks.then(|| sinks.clone()),
            lengths: shapes.lengths(self.key.lengths),
        };
        let settings = Settings {
            scale: None,
            prefix: (self.key.mask == AttentionMask::Prefix).then_some(2),
            window: (self.key.window != AttentionWindow::None).then_some(3),
            // Its inverse is not a number of f32: Burn rounds the gradient of some operations with a number to f32.
            cap: (self.key.cap == ScoreCap::Tanh).then_some(2.3),
            offset: None,
        };
        let y = if at.fused {
            fused(inputs, settings, self.key)?
        } else {
            reference(inputs, settings, self.key)
        };
        let grads = (y.clone() * at.plain("dy", shape)).sum().backward();
        let terms = Terms::new(&shapes, shape, at);
        let mut results = vec![
            Computed::new("y", Some(y)).sum_of(terms.values),
            Computed::new("d_q", q.grad(&grads)).sum_of(terms.gradient),
            Computed::new("d_k", k.grad(&grads)).sum_of(terms.gradient),
            Computed::new("d_v", v.grad(&grads)).sum_of(terms.d_values),
        ];
        if has_bias {
            let gradient = Computed::new("d_bias", bias.grad(&grads));
            results.push(gradient.sum_of(terms.gradient));
        }
        if has_sinks {
            let gradient = Computed::new("d_sinks", sinks.grad(&grads));
            results.push(gradient.sum_of(terms.gradient));
        }
        Ok(results)
    }
}

/// The shapes of a case, whose queries have the shape of the case. All heads share one head of keys.
struct Shapes {
    keys: [usize; 4],
    bias: [usize; 4],
    batch: usize,
    heads: usize,
    queries: usize,
}

impl Shapes {
    fn new(layout: HeadLayout, [b, x, y, d]: [usize; 4]) -> Self {
        let (keys, heads, queries) = match layout {
            HeadLayout::Bnsd => ([b, x.min(1), y, d], x, y),
            HeadLayout::Bsnd => ([b, x, y.min(1), d], y, x),
        };
        Self {
            keys,
            bias: [1, heads, 1, queries],
            batch: b,
            heads,
            queries,
        }
    }

    /// Returns lengths for the key: less padding from one sequence to the next, or two documents a sequence, the first
    /// one shorter.
    fn lengths(&self, key: SequenceLengths) -> Lengths {
        let Self { batch, queries, .. } = *self;
        match key {
            SequenceLengths::None => Lengths::default(),
            SequenceLengths::Padded | SequenceLengths::LeftPadded => {
                let lengths = (1..=batch).map(|sequence| queries * sequence / batch);
                Lengths::new(&lengths.collect::<Vec<_>>())
            }
            SequenceLengths::Packed => {
                Lengths::new(&[queries / 3, queries - queries / 3].repeat(batch))
            }
        }
    }
}

/// Bounds on the terms that the results are sums of. Weights of a softmax are at most 1 and their sum is.
struct Terms {
    values: f64,
    gradient: f64,
    d_values: f64,
}

impl Terms {
    fn new(shapes: &Shapes, shape: [usize; 4], at: &Computation<'_>) -> Self {
        let [q, k, v, dy] = [
            at.largest("q", shape),
            at.largest("k", shapes.keys),
            at.largest("v", shapes.keys),
            at.largest("dy", shape),
        ];
        let width = shape[3].max(1) as f64;
        // Errors of scores, sums of products, are errors of their exponentials, too.
        let scores = 1.0 + q * k * width.sqrt();
        let rows = (shapes.heads * shapes.queries).max(1) as f64;
        let products = 2.0 * dy * v * width;
        Self {
            values: v * scores,
            gradient: products * scores * (q + k + 1.0) * rows.sqrt(),
            d_values: dy * rows.sqrt() * scores,
        }
    }
}
