use super::{Decays, Inputs, Settings, fused, reference};
use crate::ops::attention::Lengths;
use crate::ops::sequences;
use crate::reason::Reason;
use crate::registry::{FloatType, KernelSpec};
use crate::semantics::{
    Decay, GatedDeltaRuleKey, InitialState, KeyNorm, SemanticsKey, SequenceLengths, compute_dtype,
};
use crate::verify::case::{Case, Computation, Computed, Variant, largest, vary};
use burn::tensor::{FloatDType, Tensor};

/// A gated delta rule. The axes of a case are the batch, the heads, the tokens and the width of a value.
#[derive(Clone, Copy)]
struct Rule {
    key: GatedDeltaRuleKey,
}

/// Each setting alone, and all together, for both kinds of decays.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let (head, channel) = (GatedDeltaRuleKey::GATED_DELTA_NET, GatedDeltaRuleKey::KIMI);
    let all = |key| GatedDeltaRuleKey {
        norm: KeyNorm::None,
        state: InitialState::Given,
        lengths: SequenceLengths::Packed,
        ..key
    };
    let keys = [
        head,
        vary(head, |key| key.norm = KeyNorm::None),
        vary(head, |key| key.state = InitialState::Given),
        vary(head, |key| key.lengths = SequenceLengths::Packed),
        all(head),
        channel,
        all(channel),
    ];
    keys.into_iter()
        .flat_map(move |key| Case::on_every_shape(Rule { key }, key == head))
}

/// Roundings of this many of the largest element are allowed besides. A state sums the terms of all tokens, in chunks
/// whose triangles are inverted, so an error of one token reaches all behind it.
const ALONG_TOKENS: f64 = 32.0;

impl Variant for Rule {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let [batch, heads, tokens, value_width] = shape;
        // A normalised row of one element is 1 or -1, and its gradient is what rounding leaves.
        let key_width = value_width.clamp(2, 48);
        // All heads share one of the keys.
        let keys = [batch, tokens, heads.min(1), key_width];
        let values = [batch, tokens, heads, value_width];
        let [(q, q_seen), (k, k_seen), (v, v_seen)] =
            [at.leaf("q", keys), at.leaf("k", keys), at.leaf("v", values)];
        let wide = FloatDType::from(compute_dtype(at.dtype.dtype()));
        let each = [batch, tokens, heads];
        let beta: Tensor<3> = at.plain("beta", each).abs().clamp_max(1.0);
        let beta = beta.detach().require_grad();
        let logs = |g: Tensor<4>| (-g.abs()).cast(wide).detach().require_grad();
        let g = match self.key.decay {
            Decay::Head => logs(at.plain("g", [batch, tokens, heads, 1])),
            Decay::Channel => logs(at.plain("g", [batch, tokens, heads, key_width])),
        };
        let lengths = match self.key.lengths {
            SequenceLengths::Packed => {
                // One sequence of each row has no tokens, and another has one.
                let few = tokens.min(1);
                Lengths::new(&[few, 0, tokens - few].repeat(batch))
            }
            _ => Lengths::default(),
        };
        let states = [
            sequences::count(&lengths, batch),
            heads,
            key_width,
            value_width,
        ];
        let has_state = sequences::has_state(self.key.state);
        let state: Tensor<4> = at.plain("state", states).cast(wide);
        let state = state.detach().require_grad();
        // Keys that are not normalised and longer than 1 would let states grow from token to token.
        let scale_of_keys = match self.key.norm {
            KeyNorm::L2 => 1.0,
            KeyNorm::None => 1.0 / (2 * key_width.next_power_of_two()) as f64,
        };
        let inputs = Inputs {
            q: q_seen,
            k: k_seen * scale_of_keys,
            v: v_seen,
            g: match self.key.decay {
                Decay::Head => Decays::Heads(crate::ops::reshape(g.clone(), each)),
                Decay::Channel => Decays::Channels(g.clone()),
            },
            beta: beta.clone(),
            state: has_state.then(|| state.clone()),
            lengths,
        };
        let settings = Settings {
            scale: (self.key.norm == KeyNorm::None).then_some(0.75),
        };
        let (y, last) = match at.fused {
            true => fused(inputs, settings, self.key)?,
            false => reference(inputs, settings, self.key),
        };
        let dy: Tensor<4> = at.plain("dy", values);
        let dlast: Tensor<4> = at.plain("dlast", states).cast(wide);
        let loss = (y.clone() * dy).sum().cast(wide) + (last.clone() * dlast).sum();
        let grads = loss.backward();
        let y = Computed::new("y", Some(y)).rounded(1);
        let last = wide_result("last_state", Some(last), at);
        // The gradient of a decay is the difference of sums of such products, and zero where the state before is.
        let of_states = largest(&last.values) * at.largest("dlast", states);
        let products = largest(&y.values) * at.largest("dy", values) + of_states * key_width as f64;
        let of_decays = products * value_width as f64;
        let mut results = vec![
            y,
            last,
            Computed::new("d_q", q.grad(&grads)),
            Computed::new("d_k", k.grad(&grads)),
            Computed::new("d_v", v.grad(&grads)),
            wide_result("d_g", g.grad(&grads), at),
            Computed::new("d_beta", beta.grad(&grads)),
        ];
        if has_state {
            results.push(wide_result("d_state", state.grad(&grads), at));
        }
        let with_terms = |result: Computed| {
            let terms = ALONG_TOKENS * largest(&result.values);
            let terms = if result.name == "d_g" {
                terms + of_decays
            } else {
                terms
            };
            result.sum_of(terms)
        };
        Ok(results.into_iter().map(with_terms).collect())
    }
}

/// Returns a result in the type of the computation, which is not rounded to a half type.
fn wide_result<const D: usize>(
    name: &'static str,
    tensor: Option<Tensor<D>>,
    at: &Computation<'_>,
) -> Computed {
    let rounded = match at.exact_in {
        FloatType::Bf16 | FloatType::F16 => 0,
        FloatType::F32 | FloatType::F64 => 2,
    };
    Computed::new(name, tensor).rounded(rounded)
}
