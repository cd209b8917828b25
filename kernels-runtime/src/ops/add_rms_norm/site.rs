use super::live::SumNorm;
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::add_rms_norm::{self, Inputs, Operands, Settings};
use crate::semantics::AddRmsNormKey;
use burn::tensor::Tensor;

/// The normalised sum and the sum.
type Both<const D: usize> = (Tensor<D>, Tensor<D>);

/// Runs the sum and its RMSNorm of a site without a gate.
///
/// `weight` is called at most once, and only if the kernel may run: reading a parameter costs as much
/// as a small operation.
#[track_caller]
pub fn add_rms_norm<const D: usize>(
    at: At,
    x: Tensor<D>,
    residual: Tensor<D>,
    weight: &dyn Fn() -> Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    reference: &mut dyn FnMut((Tensor<D>, Tensor<D>)) -> Both<D>,
) -> Both<D> {
    let _span = at.enter();
    let flowing = (x, residual, None);
    let settings = Settings { eps, group_size };
    either(&at, flowing, weight, settings, &mut |(x, residual, _)| {
        reference((x, residual))
    })
}

/// Runs the sum and its gated RMSNorm of a site.
#[track_caller]
pub fn add_rms_norm_gated<const D: usize>(
    at: At,
    [x, residual, gate]: [Tensor<D>; 3],
    weight: &dyn Fn() -> Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    reference: &mut dyn FnMut((Tensor<D>, Tensor<D>, Tensor<D>)) -> Both<D>,
) -> Both<D> {
    let _span = at.enter();
    let flowing = (x, residual, Some(gate));
    let settings = Settings { eps, group_size };
    let mut reference =
        |(x, residual, gate): Flowing<D>| reference((x, residual, gate.expect("a gate went in")));
    either(&at, flowing, weight, settings, &mut reference)
}

/// The tensors that a body takes: x, the residual and the gate.
type Flowing<const D: usize> = (Tensor<D>, Tensor<D>, Option<Tensor<D>>);

#[track_caller]
fn either<const D: usize>(
    at: &At,
    (x, residual, gate): Flowing<D>,
    weight: &dyn Fn() -> Option<Tensor<1>>,
    settings: Settings,
    reference: &mut dyn FnMut(Flowing<D>) -> Both<D>,
) -> Both<D> {
    let (x, residual) = (x.into_dispatch(), residual.into_dispatch());
    if !at.peek([&x, &residual]).is_fused() {
        at.decide([&x, &residual]);
        let [x, residual] = [x, residual].map(Tensor::from_dispatch);
        return reference((x, residual, gate));
    }
    let inputs = Inputs {
        x: Tensor::from_dispatch(x),
        residual: Tensor::from_dispatch(residual),
        weight: weight(),
        gate,
    };
    let operands = Operands::of(inputs, settings, at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&["weight"]);
    live::decided(at, route, SumNorm::from(operands), captured, |operands| {
        reference(operands.into_flowing())
    })
}

/// Runs [`add_rms_norm::reference`] without a gate.
#[track_caller]
pub fn add_rms_norm_reference<const D: usize>(
    x: Tensor<D>,
    residual: Tensor<D>,
    weight: Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    key: AddRmsNormKey,
) -> Both<D> {
    let inputs = Inputs {
        x,
        residual,
        weight,
        gate: None,
    };
    add_rms_norm::reference(inputs, Settings { eps, group_size }, key)
}

/// Runs [`add_rms_norm::reference`] with a gate.
#[track_caller]
pub fn add_rms_norm_gated_reference<const D: usize>(
    [x, residual, gate]: [Tensor<D>; 3],
    weight: Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    key: AddRmsNormKey,
) -> Both<D> {
    let inputs = Inputs {
        x,
        residual,
        weight,
        gate: Some(gate),
    };
    add_rms_norm::reference(inputs, Settings { eps, group_size }, key)
}
