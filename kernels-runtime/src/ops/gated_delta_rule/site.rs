use super::live::Recurrence;
use super::{Decays, Inputs, Operands, Settings, reference};
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::attention::Lengths;
use crate::semantics::GatedDeltaRuleKey;
use burn::tensor::Tensor;

/// The logarithms of decays as a parameter: a tensor of three axes for those of heads, of four for those of channels.
pub trait DecayLogs: Sized {
    /// Returns them as an operand.
    fn into_decays(self) -> Decays;

    /// Returns the operand as the parameter.
    ///
    /// # Panics
    /// Panics if it is one of another rank.
    fn of_decays(decays: Decays) -> Self;
}

impl DecayLogs for Tensor<3> {
    fn into_decays(self) -> Decays {
        Decays::Heads(self)
    }

    fn of_decays(decays: Decays) -> Self {
        match decays {
            Decays::Heads(g) => g,
            Decays::Channels(_) => unreachable!("the key has decays of heads"),
        }
    }
}

impl DecayLogs for Tensor<4> {
    fn into_decays(self) -> Decays {
        Decays::Channels(self)
    }

    fn of_decays(decays: Decays) -> Self {
        match decays {
            Decays::Channels(g) => g,
            Decays::Heads(_) => unreachable!("the key has decays of channels"),
        }
    }
}

/// The result and the last states.
type Both = (Tensor<4>, Tensor<4>);

/// The tensors that a body takes: queries, keys and values, the logarithms of decays, and rates.
type Flowing<G> = (Tensor<4>, Tensor<4>, Tensor<4>, G, Tensor<3>);

/// The same and the states before the first tokens.
type FromState<G> = (Tensor<4>, Tensor<4>, Tensor<4>, G, Tensor<3>, Tensor<4>);

/// Runs the gated delta rule of a site whose states begin with zeros.
#[track_caller]
pub fn gated_delta_rule<G: DecayLogs>(
    at: At,
    (q, k, v, g, beta): Flowing<G>,
    lengths: Option<&[usize]>,
    scale: Option<f64>,
    reference: &mut dyn FnMut(Flowing<G>) -> Both,
) -> Both {
    let _span = at.enter();
    let inputs = inputs((q, k, v, g, beta), None, lengths);
    either(&at, inputs, scale, &mut |inputs| {
        reference(flowing(inputs).0)
    })
}

/// Runs the gated delta rule of a site with a state, the last of the tensors.
#[track_caller]
pub fn gated_delta_rule_from_state<G: DecayLogs>(
    at: At,
    (q, k, v, g, beta, state): FromState<G>,
    lengths: Option<&[usize]>,
    scale: Option<f64>,
    reference: &mut dyn FnMut(FromState<G>) -> Both,
) -> Both {
    let _span = at.enter();
    let inputs = inputs((q, k, v, g, beta), Some(state), lengths);
    either(&at, inputs, scale, &mut |inputs| {
        let ((q, k, v, g, beta), state) = flowing(inputs);
        reference((q, k, v, g, beta, state.expect("a state went in")))
    })
}

fn inputs<G: DecayLogs>(
    (q, k, v, g, beta): Flowing<G>,
    state: Option<Tensor<4>>,
    lengths: Option<&[usize]>,
) -> Inputs {
    Inputs {
        q,
        k,
        v,
        g: g.into_decays(),
        beta,
        state,
        lengths: lengths.map_or_else(Lengths::default, Lengths::new),
    }
}

fn flowing<G: DecayLogs>(inputs: Inputs) -> (Flowing<G>, Option<Tensor<4>>) {
    let Inputs {
        q, k, v, g, beta, ..
    } = inputs;
    ((q, k, v, G::of_decays(g), beta), inputs.state)
}

#[track_caller]
fn either(
    at: &At,
    inputs: Inputs,
    scale: Option<f64>,
    reference: &mut dyn FnMut(Inputs) -> Both,
) -> Both {
    let operands = Operands::of(inputs, Settings { scale }, at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&[]);
    live::decided(at, route, Recurrence::from(operands), captured, |of| {
        reference(of.inputs)
    })
}

/// Runs [`reference()`] from states of zeros.
#[track_caller]
pub fn gated_delta_rule_reference<G: DecayLogs>(
    flowing: Flowing<G>,
    lengths: Option<&[usize]>,
    scale: Option<f64>,
    key: GatedDeltaRuleKey,
) -> Both {
    reference(inputs(flowing, None, lengths), Settings { scale }, key)
}

/// Runs [`reference()`] from the states that are the last of the tensors.
#[track_caller]
pub fn gated_delta_rule_from_state_reference<G: DecayLogs>(
    (q, k, v, g, beta, state): FromState<G>,
    lengths: Option<&[usize]>,
    scale: Option<f64>,
    key: GatedDeltaRuleKey,
) -> Both {
    let inputs = inputs((q, k, v, g, beta), Some(state), lengths);
    reference(inputs, Settings { scale }, key)
}
