use super::{OwnedWeight, reference};
use crate::kernel::{self, Rows, Tensors, Visitor};
use crate::registry::Implementation;
use burn::tensor::{Int, Tensor};

/// The operands of a call.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The ids, each of which is a row of the table.
    pub ids: Tensor<1, Int>,
    /// The table, `[rows, width]`.
    pub weight: OwnedWeight,
    /// A number without autodiff, whose device and dtype are those of the result.
    pub like: Tensor<1>,
}

impl Tensors for Operands {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("like", &mut self.like);
    }
}

impl kernel::Operands for Operands {
    type Output = Tensor<2>;

    fn reference(self) -> Tensor<2> {
        reference(&self.ids, &self.weight, &self.like)
    }

    #[cfg(feature = "cpu")]
    fn launch(self, _: &'static Implementation) -> Tensor<2> {
        let rows = super::rows(&self.ids, &self.weight);
        let data = super::cpu::of_table(&self.weight, &rows, self.like.dtype());
        Tensor::from_data(data, (&self.like.device(), self.like.dtype()))
    }

    /// Without the CPU's kernels there is no implementation.
    #[cfg(not(feature = "cpu"))]
    fn launch(self, _: &'static Implementation) -> Tensor<2> {
        self.reference()
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            ids: rows.of_indices(&self.ids),
            ..self.clone()
        })
    }
}
