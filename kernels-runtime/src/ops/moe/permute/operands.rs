//! The checked operands of the functions that move tokens. `F` is the type of float tensors, `I` that of integer
//! tensors.
//!
//! A row map is `[tokens, k]`. Its entries are not checked here: an entry that is not the number of a
//! row belongs to no row.

use super::super::sort::few_experts;
use crate::ops::compute_dtype;
use crate::ops::define::operands;
use crate::ops::operands::{self, Described, Mismatch, require};
use burn::backend::Shape;
use burn::tensor::{DType, IntDType};

const OP: &str = "moe_permute";

operands! {
    /// The operands of sorting slots by expert.
    Sort<F, I>
    floats {}
    ints {
        /// Returns the experts of each token, `[tokens, k]`.
        indices,
    }
    numbers {
        /// Returns the number of experts.
        num_experts: usize,
        /// Returns the number of rows that are kept, at most one for each slot.
        rows: usize,
        /// Returns the type of the row map and of the counts.
        integers: IntDType,
    }
    without floats: kind
}

operands! {
    /// The operands of copying tokens to rows.
    Spread<F, I>
    floats {
        /// Returns the tokens, `[tokens, H]`.
        tokens: One,
    }
    ints {
        /// Returns the rows of each token's slots, `[tokens, k]`.
        row_map,
    }
    numbers {
        /// Returns the number of rows. Those of no slot are zero.
        rows: usize,
    }
}

operands! {
    /// The operands of adding rows by token.
    Sum<F, I>
    floats {
        /// Returns the rows, `[R, H]`.
        rows: One,
    }
    ints {
        /// Returns the rows of each token's slots, `[tokens, k]`.
        row_map,
    }
    numbers {}
}

operands! {
    /// The operands of adding rows by token, multiplied by their slots' probabilities.
    Weigh<F, I>
    floats {
        /// Returns the rows, `[R, H]`.
        rows: One,
        /// Returns the probabilities, `[tokens, k]`, in the dtype of the rows or in their compute dtype.
        probs: One,
    }
    ints {
        /// Returns the rows of each token's slots, `[tokens, k]`.
        row_map,
    }
    numbers {}
}

operands! {
    /// The operands of the gradient of the rows of [`Weigh`].
    SpreadWeighed<F, I>
    floats {
        /// Returns the gradient of the tokens, `[tokens, H]`.
        dy: One,
        /// Returns the probabilities, `[tokens, k]`, in the dtype of the rows or in their compute dtype.
        probs: One,
    }
    ints {
        /// Returns the rows of each token's slots, `[tokens, k]`.
        row_map,
    }
    numbers {
        /// Returns the number of rows. Those of no slot are zero.
        rows: usize,
    }
}

operands! {
    /// The operands of both gradients of [`Weigh`].
    WeighBackward<F, I>
    floats {
        /// Returns the gradient of the tokens, `[tokens, H]`.
        dy: One,
        /// Returns the rows, `[R, H]`.
        rows: One,
        /// Returns the probabilities, `[tokens, k]`, in the dtype of the rows or in their compute dtype.
        probs: One,
    }
    ints {
        /// Returns the rows of each token's slots, `[tokens, k]`.
        row_map,
    }
    numbers {}
}

impl<F, I: Described> Sort<F, I> {
    /// Makes the operands.
    ///
    /// # Errors
    /// Returns an error if `indices` does not have two axes of integers, if there is no expert or more than a million,
    /// if there are more rows than slots, or if the type of integers is too small.
    pub fn new(
        indices: I,
        num_experts: usize,
        rows: usize,
        integers: IntDType,
    ) -> Result<Self, Mismatch> {
        let [tokens, k] = operands::dims(OP, "the indices", &indices)?;
        operands::integers(OP, "the indices", indices.dtype())?;
        require!(num_experts > 0, "moe_permute: there is no expert");
        few_experts(OP, num_experts)?;
        slots(rows, [tokens, k])?;
        // The row map holds the numbers of rows, and the number of slots for "no row". No count is larger.
        operands::holds(OP, "the row map", integers, tokens * k)?;
        Ok(Self {
            indices,
            num_experts,
            rows,
            integers,
            kind: std::marker::PhantomData,
        })
    }
}

impl<F: Described, I: Described> Spread<F, I> {
    /// Makes the operands.
    ///
    /// # Errors
    /// Returns an error if the shapes don't fit together, or if there are more rows than slots.
    pub fn new(tokens: F, row_map: I, rows: usize) -> Result<Self, Mismatch> {
        let map = map_of_tokens("the tokens", &tokens, &row_map)?;
        slots(rows, map)?;
        Self::of_gradient(tokens, row_map, rows)
    }

    /// Makes the operands of the gradient of [`Sum`], whose rows may be more than the slots. Those of no slot have zero
    /// gradients.
    ///
    /// # Errors
    /// Returns an error if the shapes don't fit together.
    pub(super) fn of_gradient(tokens: F, row_map: I, rows: usize) -> Result<Self, Mismatch> {
        map_of_tokens("the tokens", &tokens, &row_map)?;
        Ok(Self {
            tokens,
            row_map,
            rows,
        })
    }

    /// Returns the shape of the result, `[rows, H]`.
    pub fn result(&self) -> Shape {
        Shape::new([self.rows, self.tokens.shape()[1]])
    }

    /// Returns the dtype of the tokens.
    ///
    /// # Errors
    /// Returns an error if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        operands::float(OP, "the tokens", self.tokens.dtype())
    }
}

impl<F: Described, I: Described> Sum<F, I> {
    /// Makes the operands.
    ///
    /// # Errors
    /// Returns an error if the rows or the map don't have two axes, or if the map does not hold integers.
    pub fn new(rows: F, row_map: I) -> Result<Self, Mismatch> {
        operands::dims::<2>(OP, "the rows", &rows)?;
        map(&row_map)?;
        Ok(Self { rows, row_map })
    }

    /// Returns the shape of the result, `[tokens, H]`.
    pub fn result(&self) -> Shape {
        Shape::new([self.row_map.shape()[0], self.rows.shape()[1]])
    }

    /// Returns the dtype of the rows.
    ///
    /// # Errors
    /// Returns an error if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        operands::float(OP, "the rows", self.rows.dtype())
    }
}

impl<F: Described, I: Described> Weigh<F, I> {
    /// Makes the operands.
    ///
    /// # Errors
    /// Returns an error if the rows or the map don't have two axes, if the map does not hold integers, or if the
    /// probabilities have another shape than the map.
    pub fn new(rows: F, row_map: I, probs: F) -> Result<Self, Mismatch> {
        operands::dims::<2>(OP, "the rows", &rows)?;
        map(&row_map)?;
        like_map(&probs, &row_map)?;
        Ok(Self {
            rows,
            probs,
            row_map,
        })
    }

    /// Returns the shape of the result, `[tokens, H]`.
    pub fn result(&self) -> Shape {
        Shape::new([self.row_map.shape()[0], self.rows.shape()[1]])
    }

    /// Returns the dtype of the rows.
    ///
    /// # Errors
    /// Returns an error if kernels don't take the dtype, or if the probabilities have neither this dtype nor its
    /// compute dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        weighed("the rows", &self.rows, &self.probs)
    }
}

impl<F: Described, I: Described> SpreadWeighed<F, I> {
    /// Makes the operands. There may be more rows than slots.
    ///
    /// # Errors
    /// Returns an error if the shapes don't fit together.
    pub fn new(dy: F, row_map: I, probs: F, rows: usize) -> Result<Self, Mismatch> {
        map_of_tokens("dy", &dy, &row_map)?;
        like_map(&probs, &row_map)?;
        Ok(Self {
            dy,
            probs,
            row_map,
            rows,
        })
    }

    /// Returns the shape of the result, `[rows, H]`.
    pub fn result(&self) -> Shape {
        Shape::new([self.rows, self.dy.shape()[1]])
    }

    /// Returns the dtype of `dy`.
    ///
    /// # Errors
    /// Returns an error as [`Weigh::dtype`] does.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        weighed("dy", &self.dy, &self.probs)
    }
}

impl<F: Described, I: Described> WeighBackward<F, I> {
    /// Makes the operands.
    ///
    /// # Errors
    /// Returns an error if the shapes don't fit together, or if `dy` and the rows have different dtypes.
    pub fn new(dy: F, rows: F, row_map: I, probs: F) -> Result<Self, Mismatch> {
        let [_, width] = operands::dims(OP, "the rows", &rows)?;
        let [tokens, _] = map(&row_map)?;
        like_map(&probs, &row_map)?;
        let expected = Shape::new([tokens, width]);
        operands::like(OP, ("dy", &dy), ("the tokens", &expected, rows.dtype()))?;
        Ok(Self {
            dy,
            rows,
            probs,
            row_map,
        })
    }

    /// Returns the dtype of the rows.
    ///
    /// # Errors
    /// Returns an error as [`Weigh::dtype`] does.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        weighed("the rows", &self.rows, &self.probs)
    }
}

fn map(row_map: &impl Described) -> Result<[usize; 2], Mismatch> {
    operands::integers(OP, "the row map's entries", row_map.dtype())?;
    operands::dims(OP, "the row map", row_map)
}

/// Returns the sizes of a map that has one line for each token.
fn map_of_tokens(
    name: &str,
    tokens: &impl Described,
    row_map: &impl Described,
) -> Result<[usize; 2], Mismatch> {
    let [count, width] = operands::dims(OP, name, tokens)?;
    let [mapped, k] = map(row_map)?;
    require!(
        mapped == count,
        "moe_permute: {name} are [{count}, {width}], but the row map is [{mapped}, {k}]; it needs \
         one line a token"
    );
    Ok([mapped, k])
}

/// Checks that there is at most one row for each slot.
fn slots(rows: usize, [tokens, k]: [usize; 2]) -> Result<(), Mismatch> {
    require!(
        rows <= tokens * k,
        "moe_permute: there are {rows} rows, but {tokens} tokens of {k} choices fill {} at most",
        tokens * k
    );
    Ok(())
}

fn like_map(probs: &impl Described, row_map: &impl Described) -> Result<(), Mismatch> {
    require!(
        probs.shape() == row_map.shape(),
        "moe_unpermute: probabilities are {:?}, but the row map is {:?}",
        probs.shape().as_slice(),
        row_map.shape().as_slice()
    );
    Ok(())
}

fn weighed(name: &str, rows: &impl Described, probs: &impl Described) -> Result<DType, Mismatch> {
    let dtype = operands::float(OP, name, rows.dtype())?;
    let wide = compute_dtype(dtype);
    require!(
        probs.dtype() == dtype || probs.dtype() == wide,
        "moe_unpermute: probabilities are {:?}, but {name}, {dtype:?}, take {dtype:?} or {wide:?}",
        probs.dtype()
    );
    Ok(dtype)
}
