use super::{Inputs, Settings};
use crate::ops::define::operands;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::ops::rope;
use crate::registry::Implementation;
use crate::semantics::{HeadLayout, QkNorm, QkNormRopeKey, RopeKey};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

const OP: &str = "QkNormRoPE";

operation! {
    /// The norm and rotation of one tensor.
    QkNormRope {
        name: "qk_norm_rope",
        title: "QkNormRoPE",
        kernel: "npu_fused_qk_norm_rope",
        saved: 0,
        dtypes: dtypes,
        room_backward: room_backward,
    }
    /// The checked operands of the norm and rotation of one tensor.
    Operands<T> {
        /// The tensor, `[b, s, heads, d]`.
        x: One "x",
        /// The weight of its norm, `[d]` for a norm of heads and `[heads · d]` for one of rows.
        weight: Maybe "the weight" if |of| of.key.norm != QkNorm::None,
        /// The cosines, `[1 or b, s, w]`.
        cos: One "the cosines",
        /// The sines, `[1 or b, s, w]`.
        sin: One "the sines",
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The variant to compute.
        key: QkNormRopeKey,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        let tables = [&self.cos, &self.sin];
        let (weight, settings) = (self.weight.as_ref(), self.settings);
        fits("x", &self.x, weight, tables, settings, self.key)
    }

    fn results(&self) -> [Like; 1] {
        [self.result()]
    }

    fn saved(&self) -> [Saved; 0] {
        []
    }

    /// Returns the shape and dtype of the result.
    pub(crate) fn result(&self) -> Like {
        let [b, s, heads, d] = self.x.shape().dims();
        let shape = match self.key.layout {
            HeadLayout::Bnsd => [b, heads, s, d],
            HeadLayout::Bsnd => [b, s, heads, d],
        };
        (Shape::new(shape), self.x.dtype())
    }
}

/// The tables have the dtype of `x` and the weight, or the one that `x` is computed in.
fn dtypes<T: Described>(operands: &Operands<T>) -> Result<DType, Mismatch> {
    let weight = operands.weight.iter().map(|weight| ("the weight", weight));
    let dtype = operands::one_dtype(OP, std::iter::once(("x", &operands.x)).chain(weight))?;
    let tables = rope::table_dtype(dtype, &operands.cos, &operands.sin);
    tables.map_err(|mismatch| mismatch.of(OP))?;
    Ok(dtype)
}

fn room_backward<T: Described>(operands: &Operands<T>, wanted: &Each<bool>) -> usize {
    match wanted.cos || wanted.sin {
        true => rope::room_of_tables(&operands.x.shape(), operands.cos.dtype()),
        false => 0,
    }
}

impl<T> Each<Option<T>> {
    /// The gradients of `x` and of the weight.
    pub(super) fn of_heads(x: Option<T>, weight: Option<T>) -> Self {
        Self {
            x,
            weight,
            cos: None,
            sin: None,
        }
    }
}

operands! {
    /// Checked queries and keys with the weights of their norms and the tables that rotate both.
    Pair<T> {
        /// Returns the queries.
        q: One,
        /// Returns the keys.
        k: One,
        /// Returns the weight of the queries' norm.
        q_weight: Maybe,
        /// Returns the weight of the keys' norm.
        k_weight: Maybe,
        /// Returns the cosines.
        cos: One,
        /// Returns the sines.
        sin: One,
    }
    numbers {
        /// Returns the numbers of the call.
        settings: Settings,
        /// Returns the variant to compute.
        key: QkNormRopeKey,
    }
}

impl<T: Described> Pair<T> {
    /// Makes the operands. Checks as [`Operands::new`] does, for two tensors that may differ only in their number of
    /// heads.
    ///
    /// # Errors
    /// Returns the same errors, and an error if queries and keys differ otherwise.
    pub fn new(
        [q, k]: [T; 2],
        [q_weight, k_weight]: [Option<T>; 2],
        [cos, sin]: [T; 2],
        settings: Settings,
        key: QkNormRopeKey,
    ) -> Result<Self, Mismatch> {
        let tables = [&cos, &sin];
        fits("q", &q, q_weight.as_ref(), tables, settings, key)?;
        fits("k", &k, k_weight.as_ref(), tables, settings, key)?;
        let (q_shape, k_shape) = (q.shape(), k.shape());
        require!(
            [0, 1, 3]
                .iter()
                .all(|axis| q_shape[*axis] == k_shape[*axis]),
            "{OP}: q is {:?} and k is {:?}; only their numbers of heads (axis 2) may differ",
            q_shape.as_slice(),
            k_shape.as_slice()
        );
        Ok(Self {
            q,
            k,
            q_weight,
            k_weight,
            cos,
            sin,
            settings,
            key,
        })
    }
}

impl<T> Pair<T> {
    /// Returns the operands of queries and of keys.
    pub fn split(self) -> [Operands<T>; 2]
    where
        T: Clone,
    {
        let Self {
            cos,
            sin,
            settings,
            key,
            ..
        } = self;
        let both = [(self.q, self.q_weight), (self.k, self.k_weight)];
        both.map(|(x, weight)| Operands {
            x,
            weight,
            cos: cos.clone(),
            sin: sin.clone(),
            settings,
            key,
        })
    }
}

impl Pair<DispatchTensor> {
    /// # Panics
    /// Panics if [`Pair::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(inputs: Inputs, settings: Settings, key: QkNormRopeKey) -> Self {
        let weights = [inputs.q_weight, inputs.k_weight];
        checked(Self::new(
            [inputs.q, inputs.k].map(Tensor::into_dispatch),
            weights.map(|weight| weight.map(Tensor::into_dispatch)),
            [inputs.cos, inputs.sin].map(Tensor::into_dispatch),
            settings,
            key,
        ))
    }

    /// Runs an implementation that dispatch chose. Returns the queries and the keys.
    pub(crate) fn run(self, implementation: &Implementation) -> (Tensor<4>, Tensor<4>) {
        let prepare = |of| Tensor::from_dispatch(QkNormRope::run(of, implementation).y);
        self.split().map(prepare).into()
    }

    pub(crate) fn into_inputs(self) -> Inputs {
        Inputs {
            q: Tensor::from_dispatch(self.q),
            k: Tensor::from_dispatch(self.k),
            q_weight: self.q_weight.map(Tensor::from_dispatch),
            k_weight: self.k_weight.map(Tensor::from_dispatch),
            cos: Tensor::from_dispatch(self.cos),
            sin: Tensor::from_dispatch(self.sin),
        }
    }
}

/// Panics if [`Pair::new`] would return an error.
#[track_caller]
pub(super) fn check(inputs: &Inputs, settings: Settings, key: QkNormRopeKey) {
    let weights = [&inputs.q_weight, &inputs.k_weight];
    checked(Pair::<Facts>::new(
        [&inputs.q, &inputs.k].map(Facts::from),
        weights.map(|weight| weight.as_ref().map(Facts::from)),
        [&inputs.cos, &inputs.sin].map(Facts::from),
        settings,
        key,
    ));
}

/// Checks that one tensor, its weight and the tables fit together and match the key.
fn fits<T: Described>(
    name: &str,
    x: &T,
    weight: Option<&T>,
    [cos, sin]: [&T; 2],
    settings: Settings,
    key: QkNormRopeKey,
) -> Result<(), Mismatch> {
    if let Some(eps) = settings.eps {
        crate::ops::operands::epsilon(OP, eps)?;
    }
    // The operand itself is in the layout of the projections.
    let rope = RopeKey {
        layout: HeadLayout::Bsnd,
        ..key.rope()
    };
    rope::fits(name, x, cos, sin, rope).map_err(|mismatch| mismatch.of(OP))?;
    let has_norm = key.norm != QkNorm::None;
    let given = [
        ("weight", weight.is_some()),
        ("epsilon", settings.eps.is_some()),
    ];
    for (what, is_there) in given {
        let is = if is_there { "one" } else { "none" };
        require!(
            is_there == has_norm,
            "{OP}: the semantics are {key}, so the norm of {name} must have its {what} exactly if there is a norm; \
             there is {is}"
        );
    }
    let [.., heads, d] = operands::dims::<4>(OP, name, x)?;
    let Some(weight) = weight else {
        return Ok(());
    };
    let [elements] = operands::dims(OP, "the weight", weight)?;
    let (expected, of) = match key.norm {
        QkNorm::Row => (heads.saturating_mul(d), "all heads of a token have"),
        QkNorm::Head | QkNorm::None => (d, "a head has"),
    };
    require!(
        elements == expected,
        "{OP}: the weight for {name} has {elements} elements, but {of} {expected}"
    );
    Ok(())
}
