use super::table_gradient::room_of_tables;
use crate::ops::compute_dtype;
use crate::ops::define::operands;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Backward, Like, Saved};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::registry::Implementation;
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, RotaryWidth, TableLayout};
use burn::backend::DispatchTensor;
use burn::tensor::{DType, Tensor};

const OP: &str = "RoPE";

operation! {
    /// The rotation of one tensor.
    Rope {
        name: "rope",
        title: "RoPE",
        kernel: "npu_fused_rope",
        saved: 0,
        dtypes: dtypes,
        keeps: |place, wanted| place > 0 || wanted.cos || wanted.sin,
        room_backward: room_backward,
    }
    /// The checked operands of the rotation of one tensor.
    Operands<T> {
        /// The tensor to rotate, or the gradient to rotate back, `[b, h, s, d]` or `[b, s, h, d]` as the key states.
        x: One "x",
        /// The cosines, `[1 or b, s, w]`.
        cos: One "the cosines",
        /// The sines, `[1 or b, s, w]`.
        sin: One "the sines",
    }
    numbers {
        /// The variant to compute.
        key: RopeKey,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        fits("x", &self.x, &self.cos, &self.sin, self.key)
    }

    fn results(&self) -> [Like; 1] {
        [(self.x.shape(), self.x.dtype())]
    }

    fn saved(&self) -> [Saved; 0] {
        []
    }
}

/// The tables have the dtype of `x`, or the one that `x` is computed in.
fn dtypes<T: Described>(operands: &Operands<T>) -> Result<DType, Mismatch> {
    let dtype = operands::float(OP, "x", operands.x.dtype())?;
    table_dtype(dtype, &operands.cos, &operands.sin)?;
    Ok(dtype)
}

fn room_backward<T: Described>(operands: &Operands<T>, wanted: &Each<bool>) -> usize {
    match wanted.cos || wanted.sin {
        true => room_of_tables(&operands.x.shape(), operands.cos.dtype()),
        false => 0,
    }
}

impl<T> Each<Option<T>> {
    /// The gradient of `x` alone.
    pub(super) fn of_x(x: T) -> Self {
        Self {
            x: Some(x),
            cos: None,
            sin: None,
        }
    }
}

impl<T> Operands<T> {
    /// Returns the operands of the rotation back: those of the rotation, with the gradient of the result in place of `x`.
    pub(super) fn back<I>(backward: Backward<Rope, T, I>) -> Self {
        let (operands, dy, ..) = backward.into_parts();
        Self { x: dy, ..operands }
    }
}

operands! {
    /// Checked queries and keys with the tables that rotate both.
    Pair<T> {
        /// Returns the queries.
        q: One,
        /// Returns the keys.
        k: One,
        /// Returns the cosines.
        cos: One,
        /// Returns the sines.
        sin: One,
    }
    numbers {
        /// Returns the variant to compute.
        key: RopeKey,
    }
}

impl<T: Described> Pair<T> {
    /// Makes the operands. Checks as [`Operands::new`] does, for two tensors that may differ only in their number of
    /// heads.
    ///
    /// # Errors
    /// Returns the same errors, and an error if queries and keys differ otherwise.
    pub fn new(q: T, k: T, cos: T, sin: T, key: RopeKey) -> Result<Self, Mismatch> {
        let axis = match key.layout {
            HeadLayout::Bnsd => 1,
            HeadLayout::Bsnd => 2,
        };
        let of = |name, tensor| operands::dims::<4>(OP, name, tensor);
        let [q_shape, k_shape] = [of("q", &q)?, of("k", &k)?];
        require!(
            tokens(q_shape, key.layout) == tokens(k_shape, key.layout),
            "RoPE: q is {q_shape:?} and k is {k_shape:?}; only their numbers of heads (axis {axis}) \
             may differ"
        );
        fits("q", &q, &cos, &sin, key)?;
        Ok(Self {
            q,
            k,
            cos,
            sin,
            key,
        })
    }
}

impl<T> Pair<T> {
    /// Returns the rotations of queries and of keys.
    pub fn split(self) -> [Operands<T>; 2]
    where
        T: Clone,
    {
        let (cos, sin, key) = (self.cos, self.sin, self.key);
        let q = Operands {
            x: self.q,
            cos: cos.clone(),
            sin: sin.clone(),
            key,
        };
        let x = self.k;
        [q, Operands { x, cos, sin, key }]
    }
}

impl Pair<DispatchTensor> {
    /// # Panics
    /// Panics if [`Pair::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(
        q: Tensor<4>,
        k: Tensor<4>,
        cos: Tensor<3>,
        sin: Tensor<3>,
        key: RopeKey,
    ) -> Self {
        let [q, k] = [q, k].map(Tensor::into_dispatch);
        let [cos, sin] = [cos, sin].map(Tensor::into_dispatch);
        checked(Self::new(q, k, cos, sin, key))
    }

    /// Runs an implementation that dispatch chose. Returns the rotated queries and keys.
    pub(crate) fn run(self, implementation: &Implementation) -> (Tensor<4>, Tensor<4>) {
        let rotate = |of| Tensor::from_dispatch(Rope::run(of, implementation).y);
        self.split().map(rotate).into()
    }

    pub(crate) fn into_inputs(self) -> ([Tensor<4>; 2], [Tensor<3>; 2]) {
        (
            [self.q, self.k].map(Tensor::from_dispatch),
            [self.cos, self.sin].map(Tensor::from_dispatch),
        )
    }
}

/// Panics if [`Pair::new`] would return an error.
#[track_caller]
pub(super) fn check(q: &Tensor<4>, k: &Tensor<4>, cos: &Tensor<3>, sin: &Tensor<3>, key: RopeKey) {
    let [q, k] = [q, k].map(Facts::from);
    let [cos, sin] = [cos, sin].map(Facts::from);
    checked(Pair::new(q, k, cos, sin, key));
}

/// Checks that the shapes fit together and that the key's table layout exists for its style.
pub(in crate::ops) fn fits<T: Described>(
    name: &str,
    x: &T,
    cos: &T,
    sin: &T,
    key: RopeKey,
) -> Result<(), Mismatch> {
    let shape = operands::dims(OP, name, x)?;
    let [b, s, d] = tokens(shape, key.layout);
    require!(
        key.table != TableLayout::Neighbours || key.style == RopeStyle::Interleaved,
        "RoPE: a table of neighbours is for style=interleaved, but the semantics are {key}"
    );
    let [_, _, width] = operands::dims(OP, "the cos table", cos)?;
    for (table_name, table) in [("cos", cos), ("sin", sin)] {
        let table: [usize; 3] = operands::dims(OP, table_name, table)?;
        require!(
            table == [1, s, width] || (b != 1 && table == [b, s, width]),
            "RoPE: the {table_name} table is {table:?}, but {name}, {shape:?}, needs [1, {s}, {width}]{}",
            if b != 1 {
                format!(" or [{b}, {s}, {width}]")
            } else {
                String::new()
            }
        );
    }
    rotated(width, d, key)
}

/// Checks that the tables have the dtype of `x`, or the one that `x` is computed in. Returns their dtype.
pub(in crate::ops) fn table_dtype<T: Described>(
    dtype: DType,
    cos: &T,
    sin: &T,
) -> Result<DType, Mismatch> {
    let tables = operands::one_dtype(OP, [("cos", cos), ("sin", sin)])?;
    let wide = compute_dtype(dtype);
    require!(
        tables == dtype || tables == wide,
        "RoPE: the tables are {tables:?}, but x, {dtype:?}, takes {dtype:?} or {wide:?}"
    );
    Ok(tables)
}

/// Returns the batch size, the sequence length and the width of a head.
pub(super) fn tokens(shape: [usize; 4], layout: HeadLayout) -> [usize; 3] {
    match (shape, layout) {
        ([b, _, s, d], HeadLayout::Bnsd) | ([b, s, _, d], HeadLayout::Bsnd) => [b, s, d],
    }
}

/// Returns the number of elements of a head that a table of `width` rotates.
pub(in crate::ops) fn rotary_width(width: usize, table: TableLayout) -> usize {
    match table {
        TableLayout::Halves | TableLayout::Neighbours => width,
        TableLayout::Pairs => width.saturating_mul(2),
    }
}

fn rotated(width: usize, d: usize, key: RopeKey) -> Result<(), Mismatch> {
    let rotated = rotary_width(width, key.table);
    require!(
        rotated > 0,
        "RoPE: the tables have no elements; they rotate nothing"
    );
    require!(
        rotated.is_multiple_of(2),
        "RoPE: the tables rotate {rotated} elements of a head, which is odd; elements rotate in \
         pairs"
    );
    match key.width {
        RotaryWidth::Full => require!(
            rotated == d,
            "RoPE: the tables, {width} wide, rotate {rotated} elements, but a head has {d}; \
             `width = partial` rotates a part"
        ),
        RotaryWidth::Partial => require!(
            rotated <= d,
            "RoPE: the tables, {width} wide, rotate {rotated} elements, but a head has only {d}"
        ),
    }
    Ok(())
}
