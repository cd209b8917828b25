use super::{Inputs, fused, reference};
use crate::ops::attention::Lengths;
use crate::ops::sequences;
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{
    CausalConv1dKey, ConvActivation, InitialState, SemanticsKey, SequenceLengths, Shift,
};
use crate::verify::case::{Case, Computation, Computed, Variant, vary};
use burn::tensor::Tensor;

/// A short convolution with this many weights for a channel.
#[derive(Clone, Copy)]
struct Convolution {
    key: CausalConv1dKey,
    width: usize,
}

/// Each setting alone, and all together, with several numbers of weights.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let usual = CausalConv1dKey::GATED_DELTA_NET;
    let all = CausalConv1dKey {
        activation: ConvActivation::None,
        shift: Shift::Bias,
        state: InitialState::Given,
        lengths: SequenceLengths::Packed,
    };
    let cases = [
        (usual, 4),
        (vary(usual, |key| key.activation = ConvActivation::None), 2),
        (vary(usual, |key| key.shift = Shift::Bias), 3),
        (vary(usual, |key| key.state = InitialState::Given), 4),
        (vary(usual, |key| key.lengths = SequenceLengths::Packed), 8),
        (all, 4),
    ];
    cases.into_iter().flat_map(move |(key, width)| {
        Case::on_every_shape(Convolution { key, width }, key == usual)
    })
}

impl Variant for Convolution {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn describe(&self, shape: [usize; 4], layout: &str) -> String {
        format!("{shape:?}{layout} with {} weights", self.width)
    }

    /// The rows of the batch are those of the first two axes.
    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let [a, b, tokens, channels] = shape;
        let (batch, width) = (a * b, self.width);
        let (x, x_seen) = at.leaf("x", shape);
        let weight: Tensor<2> = at.plain("weight", [channels, width]).require_grad();
        let bias: Tensor<1> = at.plain("bias", [channels]).require_grad();
        let lengths = match self.key.lengths {
            SequenceLengths::Packed => {
                // One sequence of each row has no tokens, and another has fewer than weights.
                let few = tokens.min(1);
                Lengths::new(&[few, 0, tokens - few].repeat(batch))
            }
            _ => Lengths::default(),
        };
        let states = [sequences::count(&lengths, batch), width - 1, channels];
        let state: Tensor<3> = at.plain("state", states).require_grad();
        let has_bias = self.key.shift == Shift::Bias;
        let has_state = sequences::has_state(self.key.state);
        let inputs = Inputs {
            x: crate::ops::reshape(x_seen, [batch, tokens, channels]),
            weight: weight.clone(),
            bias: has_bias.then(|| bias.clone()),
            state: has_state.then(|| state.clone()),
            lengths,
        };
        let (y, last) = match at.fused {
            true => fused(inputs, self.key)?,
            false => reference(inputs, self.key),
        };
        let dy: Tensor<3> = at.plain("dy", [batch, tokens, channels]);
        let dlast: Tensor<3> = at.plain("dlast", states);
        let grads = ((y.clone() * dy).sum() + (last.clone() * dlast).sum()).backward();
        let of_dy = at.largest("dy", shape).max(at.largest("dlast", states));
        let of_x = at.largest("x", shape).max(at.largest("state", states));
        let of_weight = at.largest("weight", [channels, width]);
        let taps = width as f64;
        let sum = of_x * of_weight * taps + at.largest("bias", [channels]);
        // The slope of silu is at most 1.1, and an error of the sum is one of the slope, too.
        let of_sum = of_dy * (1.1 + sum);
        let rows = (batch * tokens).max(1) as f64;
        let mut results = vec![
            Computed::new("y", Some(y)).sum_of(sum),
            Computed::new("last_state", Some(last)),
            Computed::new("d_x", x.grad(&grads)).sum_of(of_sum * of_weight * taps),
            Computed::new("d_weight", weight.grad(&grads)).sum_of(of_sum * of_x * rows),
        ];
        if has_bias {
            results.push(Computed::new("d_bias", bias.grad(&grads)).sum_of(of_sum * rows));
        }
        if has_state {
            let gradient = Computed::new("d_state", state.grad(&grads));
            results.push(gradient.sum_of(of_sum * of_weight * taps));
        }
        Ok(results)
    }
}
