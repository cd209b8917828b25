use super::live::Linear;
use crate::__private::first_use;
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::linear::{self, Inputs, Operands};
use crate::semantics::LinearKey;
use burn::module::Param;
use burn::tensor::Tensor;

/// The weight or the bias of a linear layer or a short convolution, as a field of the user's struct or a parameter of
/// a function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a parameter of a linear layer with {D} axes",
    label = "expected `Param<Tensor<2>>` or `Tensor<2>` for the weight, `Param<Tensor<1>>` or `Tensor<1>` for the bias"
)]
pub trait LinearParameter<const D: usize> {
    /// Returns the tensor.
    fn linear_parameter(&self) -> Tensor<D>;
}

impl<const D: usize> LinearParameter<D> for Param<Tensor<D>> {
    fn linear_parameter(&self) -> Tensor<D> {
        self.val()
    }
}

impl<const D: usize> LinearParameter<D> for Tensor<D> {
    fn linear_parameter(&self) -> Tensor<D> {
        self.clone()
    }
}

impl<const D: usize, T: LinearParameter<D> + ?Sized> LinearParameter<D> for &T {
    fn linear_parameter(&self) -> Tensor<D> {
        T::linear_parameter(self)
    }
}

/// The weight and the bias of a linear layer or a short convolution. They are read only when a kernel or the
/// reference takes them.
#[derive(Clone, Copy)]
pub struct LinearParameters<'a> {
    weight: &'a dyn LinearParameter<2>,
    bias: Option<&'a dyn LinearParameter<1>>,
    bias_first: bool,
}

impl<'a> LinearParameters<'a> {
    /// Makes the parameters of a layer without a bias.
    pub const fn new(weight: &'a dyn LinearParameter<2>) -> Self {
        Self {
            weight,
            bias: None,
            bias_first: false,
        }
    }

    /// Adds a bias.
    #[must_use]
    pub const fn bias(mut self, bias: &'a dyn LinearParameter<1>) -> Self {
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
    pub(in crate::ops) fn read(self) -> (Tensor<2>, Option<Tensor<1>>) {
        let bias = || self.bias.map(LinearParameter::linear_parameter);
        let early = if self.bias_first { bias() } else { None };
        let weight = self.weight.linear_parameter();
        (weight, early.or_else(bias))
    }

    fn with<const D: usize>(self, x: Tensor<D>) -> Inputs<D> {
        let (weight, bias) = self.read();
        Inputs { x, weight, bias }
    }
}

/// Runs the linear layer of a site.
#[track_caller]
pub fn linear<const D: usize>(
    at: At,
    x: Tensor<D>,
    parameters: LinearParameters<'_>,
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
    let operands = Operands::of(parameters.with(x), at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&["weight", "bias"]);
    live::decided(&at, route, Linear::from(operands), captured, |linear| {
        linear.of_body(reference)
    })
}

/// Runs [`linear::reference`].
#[track_caller]
pub fn linear_reference<const D: usize>(
    x: Tensor<D>,
    parameters: LinearParameters<'_>,
    key: LinearKey,
) -> Tensor<D> {
    linear::reference(parameters.with(x), key)
}
