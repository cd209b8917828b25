//! Operands in their order, of which some were left out.

use crate::error::Outcome;
use crate::memory::Memory;
use crate::tensor::Tensor;

/// Gives operands one after the other. A call says which optional ones it has.
pub(crate) struct Present<'a>(std::slice::Iter<'a, Tensor>);

impl<'a> Present<'a> {
    pub(crate) fn of(operands: &'a [Tensor]) -> Self {
        Self(operands.iter())
    }

    /// Returns the next operand if it is there.
    pub(crate) fn next(&mut self, present: bool) -> Option<&'a Tensor> {
        if present { self.0.next() } else { None }
    }

    /// Returns the next operand, which every call has.
    pub(crate) fn needed(&mut self) -> &'a Tensor {
        let Some(operand) = self.0.next() else {
            unreachable!("taken in phase one")
        };
        operand
    }

    /// Returns the values of the next operand if it is there.
    pub(crate) fn floats(&mut self, memory: &Memory, present: bool) -> Outcome<Option<Vec<f32>>> {
        self.next(present)
            .map(|tensor| tensor.floats(memory))
            .transpose()
    }
}
