use super::live::Norm;
use crate::__private::{NormWeight, first_use};
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::layer_norm::{self, Inputs, Operands, Settings};
use crate::semantics::LayerNormKey;
use burn::tensor::Tensor;

/// The weight and the bias of a norm. They are fields or parameters, and are read only when a kernel or the reference
/// takes them: reading a parameter costs as much as a small operation.
#[derive(Clone, Copy)]
pub struct NormParameters<'a> {
    weight: &'a dyn NormWeight,
    bias: Option<&'a dyn NormWeight>,
    bias_first: bool,
}

impl<'a> NormParameters<'a> {
    /// Makes the parameters of a norm without a bias.
    pub const fn new(weight: &'a dyn NormWeight) -> Self {
        Self {
            weight,
            bias: None,
            bias_first: false,
        }
    }

    /// Adds a bias.
    #[must_use]
    pub const fn bias(mut self, bias: &'a dyn NormWeight) -> Self {
        self.bias = Some(bias);
        self
    }

    /// States that the body first uses the bias, and then the weight.
    #[must_use]
    pub const fn bias_first(mut self) -> Self {
        self.bias_first = true;
        self
    }

    /// Reads the parameters in the order of their first use.
    fn with<const D: usize>(self, x: Tensor<D>) -> Inputs<D> {
        let bias = || self.bias.map(NormWeight::norm_weight);
        let early = if self.bias_first { bias() } else { None };
        let weight = self.weight.norm_weight();
        Inputs {
            x,
            weight,
            bias: early.or_else(bias),
        }
    }
}

/// Runs the LayerNorm of a site.
#[track_caller]
pub fn layer_norm<const D: usize>(
    at: At,
    x: Tensor<D>,
    parameters: NormParameters<'_>,
    eps: f64,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let x = x.into_dispatch();
    if !at.peek([&x]).is_fused() {
        at.decide([&x]);
        return reference(Tensor::from_dispatch(x));
    }
    let x = Tensor::from_dispatch(x);
    if at.runs_body_first() {
        first_use::run(reference, x.clone().detach());
    }
    let operands = Operands::of(parameters.with(x), Settings { eps }, at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&["weight", "bias"]);
    live::decided(&at, route, Norm::from(operands), captured, |norm| {
        reference(norm.into_x())
    })
}

/// Runs [`layer_norm::reference`].
#[track_caller]
pub fn layer_norm_reference<const D: usize>(
    x: Tensor<D>,
    parameters: NormParameters<'_>,
    eps: f64,
    key: LayerNormKey,
) -> Tensor<D> {
    layer_norm::reference(parameters.with(x), Settings { eps }, key)
}
