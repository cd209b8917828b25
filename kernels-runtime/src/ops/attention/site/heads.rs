//! Attention of projected heads.

use super::super::live::Attended;
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::attention::{self, Inputs, Lengths, Operands};
use crate::semantics::AttentionKey;
use burn::tensor::Tensor;

use super::AttentionSettings;

/// Runs the attention of a site without a bias.
///
/// `sinks` is called at most once, and only if the kernel may run: reading a parameter costs as much as a small
/// operation.
#[track_caller]
pub fn attention(
    at: At,
    [q, k, v]: [Tensor<4>; 3],
    sinks: &dyn Fn() -> Option<Tensor<1>>,
    lengths: Option<&[usize]>,
    settings: AttentionSettings,
    reference: &mut dyn FnMut((Tensor<4>, Tensor<4>, Tensor<4>)) -> Tensor<4>,
) -> Tensor<4> {
    let _span = at.enter();
    let mut reference = |([q, k, v], _): Flowing| reference((q, k, v));
    either(
        &at,
        ([q, k, v], None),
        sinks,
        lengths,
        settings,
        &mut reference,
    )
}

/// Runs the attention of a site with a bias, the last of the tensors.
#[track_caller]
pub fn attention_biased(
    at: At,
    [q, k, v, bias]: [Tensor<4>; 4],
    sinks: &dyn Fn() -> Option<Tensor<1>>,
    lengths: Option<&[usize]>,
    settings: AttentionSettings,
    reference: &mut dyn FnMut((Tensor<4>, Tensor<4>, Tensor<4>, Tensor<4>)) -> Tensor<4>,
) -> Tensor<4> {
    let _span = at.enter();
    let mut reference =
        |([q, k, v], bias): Flowing| reference((q, k, v, bias.expect("a bias went in")));
    let flowing = ([q, k, v], Some(bias));
    either(&at, flowing, sinks, lengths, settings, &mut reference)
}

/// The tensors that a body takes: queries, keys and values, and the bias.
type Flowing = ([Tensor<4>; 3], Option<Tensor<4>>);

#[track_caller]
fn either(
    at: &At,
    ([q, k, v], bias): Flowing,
    sinks: &dyn Fn() -> Option<Tensor<1>>,
    lengths: Option<&[usize]>,
    settings: AttentionSettings,
    reference: &mut dyn FnMut(Flowing) -> Tensor<4>,
) -> Tensor<4> {
    let q = q.into_dispatch();
    if !at.peek([&q]).is_fused() {
        at.decide([&q]);
        return reference(([Tensor::from_dispatch(q), k, v], bias));
    }
    let inputs = Inputs {
        q: Tensor::from_dispatch(q),
        k,
        v,
        bias,
        sinks: sinks(),
        lengths: lengths.map_or_else(Lengths::default, Lengths::new),
    };
    let captured = Captured::These(&["sinks"]);
    decided(at, inputs, settings, captured, |inputs| {
        let Inputs { q, k, v, bias, .. } = inputs;
        reference(([q, k, v], bias))
    })
}

/// Decides on a call with these operands, and runs the kernel or the reference.
#[track_caller]
pub(super) fn decided(
    at: &At,
    inputs: Inputs,
    settings: AttentionSettings,
    captured: Captured,
    reference: impl FnOnce(Inputs) -> Tensor<4>,
) -> Tensor<4> {
    let operands = Operands::of(inputs, settings, at.key());
    let route = at.decide(operands.all());
    let operands = Attended::from(operands);
    live::decided(at, route, operands, captured, |attended| {
        reference(attended.inputs)
    })
}

/// Runs [`attention::reference`] without a bias.
#[track_caller]
pub fn attention_reference(
    [q, k, v]: [Tensor<4>; 3],
    sinks: Option<Tensor<1>>,
    lengths: Option<&[usize]>,
    settings: AttentionSettings,
    key: AttentionKey,
) -> Tensor<4> {
    let inputs = Inputs {
        q,
        k,
        v,
        bias: None,
        sinks,
        lengths: lengths.map_or_else(Lengths::default, Lengths::new),
    };
    attention::reference(inputs, settings, key)
}

/// Runs [`attention::reference`] with a bias, the last of the tensors.
#[track_caller]
pub fn attention_biased_reference(
    [q, k, v, bias]: [Tensor<4>; 4],
    sinks: Option<Tensor<1>>,
    lengths: Option<&[usize]>,
    settings: AttentionSettings,
    key: AttentionKey,
) -> Tensor<4> {
    let inputs = Inputs {
        q,
        k,
        v,
        bias: Some(bias),
        sinks,
        lengths: lengths.map_or_else(Lengths::default, Lengths::new),
    };
    attention::reference(inputs, settings, key)
}
