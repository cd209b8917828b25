use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Mismatch, require};
use crate::semantics::ExpertLayout;
use burn::backend::Shape;
use burn::tensor::DType;

const OP: &str = "grouped matmul";

operands! {
    /// The operands of grouped products, which go together. `F` are tensors of floats, `I` of integers.
    Operands<F, I>
    floats {
        /// The rows, `[R, K]`.
        x: One,
        /// One stacked tensor, or one for each expert.
        weights: List,
    }
    ints {
        /// Returns the number of rows of each expert, `[E]`.
        counts,
    }
    numbers {
        /// Returns the layout of the weights.
        layout: ExpertLayout,
    }
}

impl<F: Described, I: Described> Operands<F, I> {
    /// `x` is `[R, K]`, `counts` has an integer for each expert, and `weights` are one stacked tensor,
    /// `[E, K, N]` or `[E, N, K]` as the layout says, or a list of `E` without the first axis.
    ///
    /// # Errors
    /// The shapes don't fit together, the counts are no integers, or there are no experts.
    pub fn new(x: F, counts: I, weights: Vec<F>, layout: ExpertLayout) -> Result<Self, Mismatch> {
        let (experts, sizes) = operands::stack::<3, 2, F>(OP, &weights)?;
        fits(&x, &counts, experts, sizes, layout)?;
        Ok(Self {
            x,
            counts,
            weights,
            layout,
        })
    }

    /// The number of experts.
    pub fn experts(&self) -> usize {
        self.counts.shape()[0]
    }

    /// The shape of the result, `[R, N]`.
    pub fn result(&self) -> Shape {
        let weight = self.weights[0].shape();
        let last = weight.num_dims() - 1;
        let features = match self.layout {
            ExpertLayout::Linear => weight[last - 1],
            ExpertLayout::Matmul => weight[last],
        };
        Shape::new([self.x.shape()[0], features])
    }

    /// The one dtype of `x` and the weights.
    ///
    /// # Errors
    /// They have different ones, or one that kernels don't take.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        let weights = self.weights.iter().map(|weight| ("a weight", weight));
        operands::one_dtype(OP, std::iter::once(("x", &self.x)).chain(weights))
    }

    /// Adds the gradient of the result, and the gradients that are wanted: that of `x`, and those of the
    /// weights, one flag each.
    ///
    /// # Errors
    /// `dy` is not like the result, there is not one flag a tensor, or dtypes differ.
    pub fn backward(self, dy: F, wanted: Wanted) -> Result<Backward<F, I>, Mismatch> {
        let dtype = self.dtype()?;
        operands::like(OP, ("dy", &dy), ("the result", &self.result(), dtype))?;
        require!(
            wanted.weights.len() == self.weights.len(),
            "grouped matmul: {} gradients of weights are wanted or not, but there are {} weights",
            wanted.weights.len(),
            self.weights.len()
        );
        Ok(Backward {
            operands: self,
            dy,
            wanted,
        })
    }
}

/// The gradients that are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whether the gradient of the rows is wanted.
    pub x: bool,
    /// Whether the gradient of each weight is wanted.
    pub weights: Vec<bool>,
}

backward! {
    /// The operands of the gradients.
    Backward<F, I> of Operands<F, I> {
        /// The gradient of the result.
        dy: F,
    }
    wanted {
        /// Returns the gradients that are wanted.
        wanted: Wanted
    }
}

/// Refuses shapes that don't go together. `sizes` are those of one expert's weight.
fn fits(
    x: &impl Described,
    counts: &impl Described,
    experts: usize,
    sizes: [usize; 2],
    layout: ExpertLayout,
) -> Result<(), Mismatch> {
    let inputs = match layout {
        ExpertLayout::Linear => sizes[1],
        ExpertLayout::Matmul => sizes[0],
    };
    require!(experts > 0, "grouped matmul: there are no experts");
    require!(
        counts.shape().as_slice() == [experts],
        "grouped matmul: there are {:?} counts, but {experts} experts",
        counts.shape().as_slice()
    );
    operands::integers(OP, "the counts", counts.dtype())?;
    let [_, width] = operands::dims(OP, "x", x)?;
    require!(
        width == inputs,
        "grouped matmul: rows have {width} elements, but the weights, {sizes:?} for each of \
         {experts} experts, take {inputs}"
    );
    Ok(())
}
