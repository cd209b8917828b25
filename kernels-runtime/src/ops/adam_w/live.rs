//! The operands of an AdamW step as live verification checks them.

use super::{Settings, State, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::registry::Implementation;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The operands of a step.
#[derive(Clone)]
pub(crate) struct Step<const D: usize> {
    pub(crate) state: State<Tensor<D>>,
    pub(crate) gradient: Tensor<D>,
    settings: Settings,
}

impl<const D: usize> From<super::Operands<DispatchTensor>> for Step<D> {
    fn from(operands: super::Operands<DispatchTensor>) -> Self {
        let settings = operands.settings();
        let (state, gradient) = operands.into_parts();
        Self {
            state: state.map(Tensor::from_dispatch),
            gradient: Tensor::from_dispatch(gradient),
            settings,
        }
    }
}

impl<const D: usize> Tensors for State<Tensor<D>> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("parameter", &mut self.parameter);
        visitor.tensor("moment_1", &mut self.moment_1);
        visitor.tensor("moment_2", &mut self.moment_2);
    }
}

impl<const D: usize> Tensors for Step<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        self.state.visit(visitor);
        visitor.tensor("gradient", &mut self.gradient);
    }
}

impl<const D: usize> Operands for Step<D> {
    type Output = State<Tensor<D>>;

    fn reference(self) -> State<Tensor<D>> {
        reference(self.state, self.gradient, self.settings)
    }

    fn launch(self, implementation: &'static Implementation) -> State<Tensor<D>> {
        let operands = super::Operands::of(self.state, self.gradient, self.settings);
        State::from(super::AdamW::run(operands, implementation)).map(Tensor::from_dispatch)
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            state: self.state.clone().map(|tensor| rows.of(&tensor)),
            gradient: rows.of(&self.gradient),
            settings: self.settings,
        })
    }
}
