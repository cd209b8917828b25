use super::{OwnedWeight, QuantizedLinearInt8Backend, of_rounded};
use crate::kernel::{self, Rows, Tensors, Visitor};
use crate::ops::quantized_linear::check;
use crate::registry::Implementation;
use burn::backend::Dispatch;
use burn::tensor::Tensor;

/// The operands of a call.
#[derive(Clone, Debug)]
pub struct Operands<const D: usize> {
    /// The rows to round and to multiply, `[.., inputs]`.
    pub x: Tensor<D>,
    /// The weight, `[outputs, inputs]`.
    pub weight: OwnedWeight,
}

impl<const D: usize> Tensors for Operands<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.x);
    }
}

impl<const D: usize> kernel::Operands for Operands<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        of_rounded(self.x, &self.weight)
    }

    fn launch(self, _: &'static Implementation) -> Tensor<D> {
        check(&self.x.dims(), &self.weight);
        // Dispatch does not see weights.
        assert!(
            super::takes(&self.weight),
            "QuantizedLinearInt8: a weight of {} is not multiplied with 8-bit integers; ask `takes` first, or call \
             quantized_linear",
            self.weight.view().encoding()
        );
        let x = self.x.into_dispatch();
        Tensor::from_dispatch(
            <Dispatch as QuantizedLinearInt8Backend>::quantized_linear_int8(x, self.weight),
        )
    }

    /// Rows along the axes but the last, which is multiplied.
    fn sample(&self, rows: Rows) -> Option<Self> {
        (D > 1).then(|| Self {
            x: rows.of(&self.x),
            weight: self.weight.clone(),
        })
    }
}
