use burn::module::{LoraAdapter, Module, Param, Reparameterization};
use burn::tensor::{Distribution, Tensor};

/// A low-rank adapter of a frozen weight (LoRA, Hu et al., arXiv:2106.09685), with dropout: [`Linear`](super::Linear)
/// computes `x · W + scale · (drop(x) · a) · b`.
///
/// Attach it with Burn's [`Module::apply_reparameterization`]. It is Burn's [`LoraAdapter`] but for the dropout, which no
/// weight alone can express: [`Param::val`] is `W + scale · a · b`, as after training.
#[derive(Module, Debug)]
pub struct LowRank {
    /// The first factor, `[inputs, rank]`.
    pub a: Param<Tensor<2>>,
    /// The second factor, `[rank, outputs]`.
    pub b: Param<Tensor<2>>,
    /// The factor of their product.
    pub scale: f64,
    /// The probability with which an input is left out in training, in `0..1`.
    pub dropout: f64,
}

impl Reparameterization for LowRank {
    const NAME: &'static str = "lora";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        self.as_burns().apply(base)
    }
}

impl LowRank {
    /// Returns the adapter of a weight: one of this type, or Burn's.
    pub(super) fn of(weight: &Param<Tensor<2>>) -> Option<Self> {
        let burns = weight.adapter().map(|adapter| Self {
            a: adapter.a.clone(),
            b: adapter.b.clone(),
            scale: adapter.scale,
            dropout: 0.0,
        });
        burns.or_else(|| weight.reparameterization::<Self>().cloned())
    }

    fn as_burns(&self) -> LoraAdapter {
        LoraAdapter {
            a: self.a.clone(),
            b: self.b.clone(),
            scale: self.scale,
        }
    }

    /// Leaves inputs out, on a device with autodiff.
    pub(super) fn dropped<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if self.dropout == 0.0 || !x.device().is_autodiff() {
            return x;
        }
        let kept = 1.0 - self.dropout;
        let mask = x.random_like(Distribution::Bernoulli(kept));
        x * mask * (1.0 / kept)
    }
}
