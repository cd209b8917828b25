use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Mismatch, require};
use crate::semantics::{LinearKey, OutputLayout, Shift};
use burn::backend::Shape;

const OP: &str = "Linear";

operation! {
    /// A linear layer.
    Linear {
        name: "linear",
        title: "Linear",
        kernel: "npu_fused_linear",
        saved: 0,
        adds: true,
    }
    inputs Inputs<D>
    /// The checked operands of a linear layer.
    Operands<T> {
        /// The rows to multiply, `[.., inputs]`.
        x: One<D> "x",
        /// The weight, `[inputs, outputs]` or `[outputs, inputs]`, as the key states.
        weight: One<2> "the weight",
        /// The bias, `[outputs]`. Present exactly if the key has a bias.
        bias: Maybe<1> "the bias" if |of| of.key.shift == Shift::Bias,
    }
    numbers {
        /// The variant to compute.
        key: LinearKey,
    }
}

/// The sizes of the product of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of rows: the product of all axes of `x` but the last.
    pub rows: usize,
    /// The number of elements of a row of `x`.
    pub inputs: usize,
    /// The number of elements of a row of the result.
    pub outputs: usize,
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        let (shape, key) = (self.x.shape(), self.key);
        let Some(width) = shape.last().copied() else {
            return Err(Mismatch::new("Linear: x has no axis to multiply"));
        };
        let axes: [usize; 2] = operands::dims(OP, "the weight", &self.weight)?;
        let [inputs, outputs] = in_order(axes, key.layout);
        require!(
            inputs == width,
            "{OP}: the weight, {axes:?}, takes {inputs} elements with {key}, but the last axis of x, {:?}, has {width}",
            shape.as_slice()
        );
        if let Some(bias) = &self.bias {
            let [elements] = operands::dims(OP, "the bias", bias)?;
            require!(
                elements == outputs,
                "{OP}: the bias has {elements} elements, but the weight, {axes:?}, has {outputs} outputs with {key}"
            );
        }
        Ok(())
    }

    fn results(&self) -> [Like; 1] {
        [(self.result(), self.x.dtype())]
    }

    fn saved(&self) -> [Saved; 0] {
        []
    }

    /// Returns the sizes of the product.
    pub fn sizes(&self) -> Sizes {
        let [inputs, outputs] = in_order(self.weight.shape().dims(), self.key.layout);
        let shape = self.x.shape();
        let lead = shape.iter().rev().skip(1);
        Sizes {
            // Empty tensors may have axes whose product is beyond all memory.
            rows: lead.fold(1, |rows, axis| rows.saturating_mul(*axis)),
            inputs,
            outputs,
        }
    }

    /// Returns the shape of the result.
    pub(crate) fn result(&self) -> Shape {
        let mut shape = self.x.shape();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            *last = self.sizes().outputs;
        }
        shape
    }
}

/// Returns the inputs and the outputs of a weight with these axes.
fn in_order([first, second]: [usize; 2], layout: OutputLayout) -> [usize; 2] {
    match layout {
        OutputLayout::InputMajor => [first, second],
        OutputLayout::OutputMajor => [second, first],
    }
}
