use super::live::Norm;
use crate::__private::first_use;
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
    let parameters = || (weight(), None);
    either(&at, (x, None), &parameters, settings, &mut |(x, _)| {
        reference(x)
    })
}

/// Runs the RMSNorm of a site with a bias, which is read as the weight is: after it, unless `bias_first` states that the body
/// first uses the bias.
#[track_caller]
#[allow(clippy::too_many_arguments)] // They are what the operation has.
pub fn rms_norm_biased<const D: usize>(
    at: At,
    x: Tensor<D>,
    weight: &dyn Fn() -> Option<Tensor<1>>,
    bias: &dyn Fn() -> Option<Tensor<1>>,
    bias_first: bool,
    eps: f64,
    group_size: Option<usize>,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let settings = Settings { eps, group_size };
    let parameters = || in_order(weight, bias, bias_first);
    either(&at, (x, None), &parameters, settings, &mut |(x, _)| {
        reference(x)
    })
}

/// Reads the weight and the bias in the order of their first use.
fn in_order(
    weight: &dyn Fn() -> Option<Tensor<1>>,
    bias: &dyn Fn() -> Option<Tensor<1>>,
    bias_first: bool,
) -> Parameters {
    if bias_first {
        let bias = bias();
        return (weight(), bias);
    }
    (weight(), bias())
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
    let parameters = || (weight(), None);
    either(&at, (x, Some(gate)), &parameters, settings, &mut reference)
}

/// The tensors that a body takes: x and the gate.
type Flowing<const D: usize> = (Tensor<D>, Option<Tensor<D>>);

/// The weight and the bias, of which either may be missing.
type Parameters = (Option<Tensor<1>>, Option<Tensor<1>>);

#[track_caller]
fn either<const D: usize>(
    at: &At,
    (x, gate): Flowing<D>,
    parameters: &dyn Fn() -> Parameters,
    settings: Settings,
    reference: &mut dyn FnMut(Flowing<D>) -> Tensor<D>,
) -> Tensor<D> {
    let x = x.into_dispatch();
    if !at.peek([&x]).is_fused() {
        at.decide([&x]);
        return reference((Tensor::from_dispatch(x), gate));
    }
    let x = Tensor::from_dispatch(x);
    if at.runs_body_first() {
        let gate = gate.clone().map(Tensor::detach);
        first_use::run(reference, (x.clone().detach(), gate));
    }
    let (weight, bias) = parameters();
    let inputs = Inputs { x, weight, gate };
    let operands = Operands::of_all(inputs, bias, settings, at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&["weight", "bias"]);
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

/// Runs [`rms_norm::reference_with_bias`], with parameters that are read in the order of their first use.
#[track_caller]
pub fn rms_norm_biased_reference<const D: usize>(
    x: Tensor<D>,
    weight: &dyn Fn() -> Option<Tensor<1>>,
    bias: &dyn Fn() -> Option<Tensor<1>>,
    bias_first: bool,
    eps: f64,
    group_size: Option<usize>,
    key: RmsNormKey,
) -> Tensor<D> {
    let (weight, bias) = in_order(weight, bias, bias_first);
    let inputs = Inputs {
        x,
        weight,
        gate: None,
    };
    rms_norm::of_all(inputs, bias, Settings { eps, group_size }, key)
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
