//! The built-in operations, as operands of a checked call.

use crate::kernel::{Operands, Tensors, Visitor};
use crate::ops::{glu, rms_norm, rope};
use crate::registry::Implementation;
use crate::semantics::{GluKey, RmsNormKey, RopeKey};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// An RMSNorm.
#[derive(Clone)]
pub(crate) struct Norm<const D: usize> {
    pub(crate) inputs: rms_norm::Inputs<D>,
    settings: rms_norm::Settings,
    key: RmsNormKey,
}

impl<const D: usize> From<rms_norm::Operands<DispatchTensor>> for Norm<D> {
    fn from(operands: rms_norm::Operands<DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl<const D: usize> Tensors for Norm<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.inputs.x);
        if let Some(weight) = &mut self.inputs.weight {
            visitor.tensor("weight", weight);
        }
        if let Some(gate) = &mut self.inputs.gate {
            visitor.tensor("gate", gate);
        }
    }
}

impl<const D: usize> Operands for Norm<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        rms_norm::reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<D> {
        let operands = rms_norm::Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(operands.run(implementation))
    }
}

/// A gated linear unit.
#[derive(Clone)]
pub(crate) struct Gated<const D: usize> {
    pub(crate) inputs: glu::Inputs<D>,
    settings: glu::Settings,
    key: GluKey,
}

impl<const D: usize> From<glu::Operands<DispatchTensor>> for Gated<D> {
    fn from(operands: glu::Operands<DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl<const D: usize> Tensors for Gated<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        match &mut self.inputs {
            glu::Inputs::Separate { gate, up } => {
                visitor.tensor("gate", gate);
                visitor.tensor("up", up);
            }
            glu::Inputs::Packed(gate_up) => visitor.tensor("gate_up", gate_up),
        }
    }
}

impl<const D: usize> Operands for Gated<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        glu::reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<D> {
        let operands = glu::Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(operands.run(implementation))
    }
}

/// A rotary position embedding. Tables of three positions have been made one.
#[derive(Clone)]
pub(crate) struct Rotary {
    pub(crate) q: Tensor<4>,
    pub(crate) k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
    key: RopeKey,
}

impl From<rope::Pair<DispatchTensor>> for Rotary {
    fn from(pair: rope::Pair<DispatchTensor>) -> Self {
        let key = pair.key();
        let ([q, k], [cos, sin]) = pair.into_inputs();
        Self {
            q,
            k,
            cos,
            sin,
            key,
        }
    }
}

impl Tensors for Rotary {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("q", &mut self.q);
        visitor.tensor("k", &mut self.k);
        visitor.tensor("cos", &mut self.cos);
        visitor.tensor("sin", &mut self.sin);
    }
}

impl Operands for Rotary {
    type Output = (Tensor<4>, Tensor<4>);

    fn reference(self) -> Self::Output {
        rope::reference(self.q, self.k, self.cos, self.sin, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Self::Output {
        let pair = rope::Pair::of(self.q, self.k, self.cos, self.sin, self.key);
        let (q, k) = pair.run(implementation);
        (Tensor::from_dispatch(q), Tensor::from_dispatch(k))
    }
}
