//! The operands of a short convolution as live verification checks them.

use super::{CausalConv1d, Inputs, Operands, both, reference};
use crate::kernel::{self, Rows, Tensors, Visitor, prefix};
use crate::ops::sequences;
use crate::registry::Implementation;
use crate::semantics::{CausalConv1dKey, SequenceLengths};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The number of rows and of tokens of a sample.
const ROWS: usize = 2;
const TOKENS: usize = 24;

/// The operands of a short convolution.
#[derive(Clone)]
pub(super) struct Convolved {
    pub(super) inputs: Inputs,
    key: CausalConv1dKey,
}

/// The result, and the last inputs if the site returns them.
#[derive(Clone)]
pub(super) struct Output {
    pub(super) y: Tensor<3>,
    pub(super) state: Option<Tensor<3>>,
}

impl Convolved {
    pub(super) fn new(inputs: Inputs, key: CausalConv1dKey) -> Self {
        Self { inputs, key }
    }

    fn output(&self, (y, state): (Tensor<3>, Tensor<3>)) -> Output {
        let state = sequences::has_state(self.key.state).then_some(state);
        Output { y, state }
    }
}

impl From<&Convolved> for Operands<DispatchTensor> {
    fn from(of: &Convolved) -> Self {
        Self::of(of.inputs.clone(), of.key)
    }
}

impl Tensors for Convolved {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        let Inputs {
            x,
            weight,
            bias,
            state,
            ..
        } = &mut self.inputs;
        visitor.tensor("x", x);
        visitor.tensor("weight", weight);
        if let Some(bias) = bias {
            visitor.tensor("bias", bias);
        }
        if let Some(state) = state {
            visitor.tensor("state", state);
        }
    }
}

impl Tensors for Output {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("y", &mut self.y);
        if let Some(state) = &mut self.state {
            visitor.tensor("last_state", state);
        }
    }
}

impl kernel::Operands for Convolved {
    type Output = Output;

    /// Calls of one token are often computed in a way of their own.
    fn variant(&self) -> u64 {
        u64::from(self.inputs.x.dims()[1] == 1)
    }

    fn reference(self) -> Output {
        let found = reference(self.inputs.clone(), self.key);
        self.output(found)
    }

    fn launch(self, implementation: &'static Implementation) -> Output {
        let found = CausalConv1d::run(Operands::from(&self), implementation);
        self.output(both(found))
    }

    /// Takes the first tokens of the first rows. All channels stay, because a body knows its weight. It also knows
    /// the lengths of packed sequences, which are compared as a whole.
    fn sample(&self, _: Rows) -> Option<Self> {
        if self.key.lengths == SequenceLengths::Packed {
            return None;
        }
        let Inputs { x, state, .. } = &self.inputs;
        let rows = prefix(x.clone().detach(), 0, ROWS);
        let inputs = Inputs {
            x: prefix(rows, 1, TOKENS),
            state: state
                .as_ref()
                .map(|state| prefix(state.clone().detach(), 0, ROWS)),
            ..self.inputs.clone()
        };
        Some(Self::new(inputs, self.key))
    }

    fn samples_prefix(&self) -> bool {
        true
    }

    /// The last inputs of some tokens are not those of all.
    fn samples_apart(&self) -> bool {
        sequences::has_state(self.key.state)
    }
}
