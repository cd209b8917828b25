use super::live::Norm;
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::rms_norm::{self, Inputs, Operands, Settings};
use crate::semantics::RmsNormKey;
use burn::tensor::Tensor;

/// Runs the RMSNorm of a site without a gate.
///
/// `weight` is called at most once, and only if the kernel may run: reading a parameter costs as much
/// as a small operation.
#[track_caller]
pub fn rms_norm<const D: usize>(
    at: At,
    x: Tensor<D>,
    weight: &dyn Fn() -> Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let settings = Settings { eps, group_size };
    either(&at, (x, None), weight, settings, &mut |(x, _)| reference(x))
}

/// Runs the gated RMSNorm of a site.
#[track_caller]
pub fn rms_norm_gated<const D: usize>(
    at: At,
    x: Tensor<D>,
    gate: Tensor<D>,
    weight: &dyn Fn() -> Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    reference: &mut dyn FnMut((Tensor<D>, Tensor<D>)) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let settings = Settings { eps, group_size };
    let mut reference = |(x, gate): Flowing<D>| reference((x, gate.expect("a gate went in")));
    either(&at, (x, Some(gate)), weight, settings, &mut reference)
}

/// The tensors that a body takes: x and the gate.
type Flowing<const D: usize> = (Tensor<D>, Option<Tensor<D>>);

#[track_caller]
fn either<const D: usize>(
    at: &At,
    (x, gate): Flowing<D>,
    weight: &dyn Fn() -> Option<Tensor<1>>,
    settings: Settings,
    reference: &mut dyn FnMut(Flowing<D>) -> Tensor<D>,
) -> Tensor<D> {
    let x = x.into_dispatch();
    if !at.peek([&x]).is_fused() {
        at.decide([&x]);
        return reference((Tensor::from_dispatch(x), gate));
    }
    let inputs = Inputs {
        x: Tensor::from_dispatch(x),
        weight: weight(),
        gate,
    };
    let operands = Operands::of(inputs, settings, at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&["weight"]);
    live::decided(at, route, Norm::from(operands), captured, |norm| {
        reference((norm.inputs.x, norm.inputs.gate))
    })
}

/// Runs [`rms_norm::reference`] without a gate.
#[track_caller]
pub fn rms_norm_reference<const D: usize>(
    x: Tensor<D>,
    weight: Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    key: RmsNormKey,
) -> Tensor<D> {
    let inputs = Inputs {
        x,
        weight,
        gate: None,
    };
    rms_norm::reference(inputs, Settings { eps, group_size }, key)
}

/// Runs [`rms_norm::reference`] with a gate.
#[track_caller]
pub fn rms_norm_gated_reference<const D: usize>(
    x: Tensor<D>,
    gate: Tensor<D>,
    weight: Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    key: RmsNormKey,
) -> Tensor<D> {
    let inputs = Inputs {
        x,
        weight,
        gate: Some(gate),
    };
    rms_norm::reference(inputs, Settings { eps, group_size }, key)
}
