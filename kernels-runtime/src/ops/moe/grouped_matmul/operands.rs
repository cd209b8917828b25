use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Mismatch, require};
use crate::semantics::ExpertLayout;
use burn::backend::Shape;

const OP: &str = "grouped matmul";

operation! {
    /// Products of rows grouped by expert, a part of the experts of a mixture.
    GroupedMatmul {
        name: "grouped_matmul",
        title: "grouped matmul",
        kernel: "npu_fused_moe",
        saved: 0,
        part: true,
    }
    /// The checked operands of grouped products. `F` is the type of float tensors, `I` that of integer tensors.
    Operands<F, I>
    floats {
        /// The rows, `[R, K]`.
        x: One "x",
        /// The weights: one stacked tensor, `[E, K, N]` or `[E, N, K]` as the layout states, or one for each expert, without
        /// the first axis.
        weights: List "a weight",
    }
    ints {
        /// The number of rows of each expert, `[E]`.
        counts,
    }
    numbers {
        /// The layout of the weights.
        layout: ExpertLayout,
        /// The counts, if the host knows them.
        known: Option<Vec<usize>>,
    }
}

impl<F: Described, I: Described> Operands<F, I> {
    fn check(&self) -> Result<(), Mismatch> {
        let (experts, sizes) = operands::stack::<3, 2, F>(OP, &self.weights)?;
        fits(&self.x, &self.counts, experts, sizes, self.layout)?;
        let (rows, Some(known)) = (self.x.shape()[0], &self.known) else {
            return Ok(());
        };
        require!(
            known.len() == experts,
            "grouped matmul: there are {} numbers of rows, but {experts} experts",
            known.len()
        );
        let sum = known
            .iter()
            .try_fold(0_usize, |sum, rows| sum.checked_add(*rows));
        require!(
            sum == Some(rows),
            "grouped matmul: the numbers of rows {known:?} don't add up to the {rows} rows of x"
        );
        Ok(())
    }

    fn results(&self) -> [Like; 1] {
        [(self.result(), self.x.dtype())]
    }

    fn saved(&self) -> [Saved; 0] {
        []
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
