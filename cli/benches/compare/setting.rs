//! The setting of a row, and the tensors of that setting.

use super::seed::seed;
use burn::module::Param;
use burn::tensor::{DType, Device, Distribution, Int, Tensor};
use std::hint::black_box;

/// The standard deviation of initial weights.
const WEIGHT: f64 = 0.02;

/// The part of training that a run computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The forward pass, without autodiff.
    Forward,
    /// The forward pass with autodiff, and the backward pass.
    Training,
    /// A step of an optimiser.
    Step,
}

impl Pass {
    /// Returns the name in keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Training => "forward+backward",
            Self::Step => "step",
        }
    }
}

/// The setting of a row.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The number of tokens; of an optimiser, that of the parameter's rows and columns.
    pub size: usize,
    /// The dtype of all tensors.
    pub dtype: DType,
    /// The part that is measured.
    pub pass: Pass,
}

impl Setting {
    /// Returns numbers that need no gradient.
    pub fn constant<const D: usize>(&self, shape: [usize; D]) -> Tensor<D> {
        self.random(shape, 1.0)
    }

    /// Returns numbers that need a gradient in training.
    pub fn input<const D: usize>(&self, shape: [usize; D]) -> Tensor<D> {
        match self.pass {
            Pass::Training => self.constant(shape).require_grad(),
            Pass::Forward | Pass::Step => self.constant(shape),
        }
    }

    /// Returns a model's parameter.
    pub fn parameter<const D: usize>(&self, shape: [usize; D]) -> Param<Tensor<D>> {
        Param::from_tensor(self.random(shape, WEIGHT))
    }

    /// Returns one of `classes` for each token.
    pub fn targets(&self, classes: usize) -> Tensor<1, Int> {
        let classes = Distribution::Uniform(0.0, classes as f64);
        Tensor::random([self.size], classes, &self.device())
    }

    /// Returns the gradient that the backward pass begins with.
    pub fn slope<const D: usize>(&self, shape: [usize; D]) -> Slope<D> {
        let dy = || self.constant(shape);
        Slope((self.pass == Pass::Training).then(dy))
    }

    /// Returns the device of the tensors.
    pub fn device(&self) -> Device {
        match self.pass {
            Pass::Training => Device::flex().autodiff(),
            Pass::Forward | Pass::Step => Device::flex(),
        }
    }

    fn random<const D: usize>(&self, shape: [usize; D], deviation: f64) -> Tensor<D> {
        let normal = Distribution::Normal(0.0, deviation);
        Tensor::random(shape, normal, (&self.device(), self.dtype))
    }
}

/// The given gradient `dy` of a result `y`, or nothing where only the forward pass is measured.
pub struct Slope<const D: usize>(Option<Tensor<D>>);

impl<const D: usize> Slope<D> {
    /// Returns a tensor whose backward pass begins with `dy`, or nothing where only the forward pass is measured.
    pub fn seed(&self, y: Tensor<D>) -> Option<Tensor<1>> {
        match &self.0 {
            Some(dy) => Some(seed(y, dy.clone())),
            None => {
                black_box(y);
                None
            }
        }
    }
}

/// Computes the gradients of the sum of these losses.
pub fn backward(losses: impl IntoIterator<Item = Option<Tensor<1>>>) {
    let total = losses.into_iter().flatten().reduce(|sum, loss| sum + loss);
    if let Some(total) = total {
        black_box(total.backward());
    }
}
