use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Mismatch, require};
use crate::semantics::ExpertLayout;
use burn::backend::Shape;
use burn::tensor::DType;

const OP: &str = "grouped matmul";

operands! {
    /// The checked operands of grouped products. `F` is the type of float tensors, `I` that of integer tensors.
    Operands<F, I>
    floats {
        /// Returns the rows, `[R, K]`.
        x: One,
        /// Returns the weights, one stacked tensor or one for each expert.
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
    /// Makes the operands. `x` is `[R, K]`, `counts` has one integer for each expert, and `weights` is one stacked
    /// tensor, `[E, K, N]` or `[E, N, K]` as the layout states, or a list of `E` tensors without the first axis.
    ///
    /// # Errors
    /// Returns an error if the shapes don't fit together, if the counts are not integers, or if there are no experts.
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

    /// Returns the number of experts.
    pub fn experts(&self) -> usize {
        self.counts.shape()[0]
    }

    /// Returns the shape of the result, `[R, N]`.
    pub fn result(&self) -> Shape {
        let weight = self.weights[0].shape();
        let last = weight.num_dims() - 1;
        let features = match self.layout {
            ExpertLayout::Linear => weight[last - 1],
            ExpertLayout::Matmul => weight[last],
        };
        Shape::new([self.x.shape()[0], features])
    }

    /// Returns the common dtype of `x` and the weights.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        let weights = self.weights.iter().map(|weight| ("a weight", weight));
        operands::one_dtype(OP, std::iter::once(("x", &self.x)).chain(weights))
    }

    /// Adds the gradient of the result and the flags of the wanted gradients: one for `x` and one for each weight
    /// tensor.
    ///
    /// # Errors
    /// Returns an error if `dy` does not have the shape and dtype of the result, if there is not one flag for each
    /// tensor, or if dtypes differ.
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

/// The flags of the wanted gradients.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// True if the gradient of the rows is wanted.
    pub x: bool,
    /// One flag for each weight tensor, true if its gradient is wanted.
    pub weights: Vec<bool>,
}

backward! {
    /// The operands of the backward pass.
    Backward<F, I> of Operands<F, I> {
        /// Returns the gradient of the result.
        dy: F,
    }
    wanted {
        /// Returns the flags of the wanted gradients.
        wanted: Wanted
    }
}

/// Checks that the shapes fit together. `sizes` is the shape of one expert's weight.
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
