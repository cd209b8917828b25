//! The built-in operations, as operands of a checked call.

use super::probe::append_fixed;
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::ops::{glu, rms_norm, rope};
use crate::registry::Implementation;
use crate::semantics::{GluKey, HeadLayout, RmsNormKey, RopeKey, Rounding};
use burn::backend::DispatchTensor;
use burn::tensor::{DType, Tensor};

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

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            inputs: rms_norm::Inputs {
                x: rows.of(&self.inputs.x),
                weight: self.inputs.weight.clone(),
                gate: self.inputs.gate.as_ref().map(|gate| rows.of(gate)),
            },
            ..self.clone()
        })
    }

    /// A slice whose mean square is epsilon: beside others an epsilon may be any.
    fn with_probes(self) -> (Self, usize) {
        let Some(size) = self.probe_size() else {
            return (self, 0);
        };
        let inputs = rms_norm::Inputs {
            x: append_fixed("x", self.inputs.x, &[size]),
            weight: self.inputs.weight,
            gate: self
                .inputs
                .gate
                .map(|gate| append_fixed("gate", gate, &[1.0])),
        };
        (Self { inputs, ..self }, 1)
    }

    fn in_other_order(&self) -> Option<(Self, &'static str)> {
        let (rounding, name) = match self.key.rounding {
            Rounding::Llama => (Rounding::Gemma, "gemma"),
            Rounding::Gemma => (Rounding::Llama, "llama"),
        };
        let key = RmsNormKey {
            rounding,
            ..self.key
        };
        Some((
            Self {
                key,
                ..self.clone()
            },
            name,
        ))
    }
}

impl<const D: usize> Norm<D> {
    /// The root mean square of a probe. Squares in f16, which a body may compute, have to stay
    /// above its smallest numbers.
    fn probe_size(&self) -> Option<f64> {
        let least = match self.inputs.x.dtype() {
            DType::F16 => 1e-4,
            _ => 1e-20,
        };
        let has_rows = D > 1 && self.inputs.x.shape().num_elements() > 0;
        let shows = has_rows && self.settings.eps > 1e-20;
        shows.then(|| self.settings.eps.max(least).sqrt())
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

    fn sample(&self, rows: Rows) -> Option<Self> {
        let inputs = match &self.inputs {
            glu::Inputs::Separate { gate, up } => glu::Inputs::Separate {
                gate: rows.of(gate),
                up: rows.of(up),
            },
            glu::Inputs::Packed(gate_up) => glu::Inputs::Packed(rows.of(gate_up)),
        };
        Some(Self {
            inputs,
            ..self.clone()
        })
    }

    /// A slice of numbers where activations bend, and one beyond the limit of a clamp.
    fn with_probes(self) -> (Self, usize) {
        let (glu::Inputs::Separate { gate: any, .. } | glu::Inputs::Packed(any)) = &self.inputs;
        if D < 2 || any.shape().num_elements() == 0 {
            return (self, 0);
        }
        // In f16 a limit may be so large that products overflow.
        let limit = self.settings.limit.filter(|limit| *limit < 50.0);
        let beyond = limit.map(|limit| 1.5 * limit);
        let sizes: Vec<f64> = std::iter::once(1.5).chain(beyond).collect();
        let inputs = match self.inputs {
            glu::Inputs::Separate { gate, up } => glu::Inputs::Separate {
                gate: append_fixed("gate", gate, &sizes),
                up: append_fixed("up", up, &sizes),
            },
            glu::Inputs::Packed(gate_up) => {
                glu::Inputs::Packed(append_fixed("gate_up", gate_up, &sizes))
            }
        };
        (Self { inputs, ..self }, sizes.len())
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

    /// The first and the last head, and of a table that all share the first and the last of the
    /// batch. A body takes the table from where it was written, with all positions.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let heads = match self.key.layout {
            HeadLayout::Bnsd => 1,
            HeadLayout::Bsnd => 2,
        };
        let shared = self.cos.dims()[0] == 1 && self.sin.dims()[0] == 1;
        let some = |tensor: &Tensor<4>| {
            let tensor = rows.ends(tensor, heads);
            match shared {
                true => rows.ends(&tensor, 0),
                false => tensor,
            }
        };
        Some(Self {
            q: some(&self.q),
            k: some(&self.k),
            ..self.clone()
        })
    }
}
