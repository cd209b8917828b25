use super::{Settings, Weights};
use crate::device::DeviceKind;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{Clamp, ExpertBias, ExpertLayout, MoeExpertsKey, Projections};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Int, Tensor};

pub(super) use kernels_simd::moe::experts::{BIASES, DOWN, GATE, UP};

const OP: &str = "experts";

operation! {
    /// The experts of a mixture.
    Experts {
        name: "experts",
        title: "experts",
        kernel: "npu_fused_moe",
        saved: 1,
        dtypes: Operands::float_dtype,
    }
    /// The checked operands of the experts of a mixture. `F` is the type of float tensors, `I` that of integer
    /// tensors.
    Operands<F, I>
    floats {
        /// The tokens, `[T, H]`.
        x: One "x",
        /// The routing weights, `[T, k]`.
        routing: One "the routing weights",
        /// The weights in six groups: gate (with up, if packed), up, down, and their biases. Each group is one stacked tensor,
        /// one tensor for each expert, or empty; see the [module](super) for the shapes.
        weights: Lists "a weight",
    }
    ints {
        /// The experts of each token, `[T, k]`.
        indices,
    }
    numbers {
        /// The variant to compute, with its limit.
        settings: Settings,
    }
}

impl<F: Described, I: Described> Operands<F, I> {
    fn check(&self) -> Result<(), Mismatch> {
        let key = self.settings.key;
        let [tokens, hidden] = operands::dims(OP, "x", &self.x)?;
        let chosen: [usize; 2] = operands::dims(OP, "the indices", &self.indices)?;
        operands::integers(OP, "the indices", self.indices.dtype())?;
        require!(
            chosen[0] == tokens && self.routing.shape().as_slice() == chosen,
            "experts: x has {tokens} tokens, the indices are {chosen:?} and the routing weights {:?}; \
             both must be [{tokens}, k]",
            self.routing.shape().as_slice()
        );
        require!(
            self.settings.limit.is_some() == (key.clamp == Clamp::Limit),
            "experts: {key} {}",
            if self.settings.limit.is_some() {
                "has no clamp, but a limit is given"
            } else {
                "needs the limit"
            }
        );
        if let Some(limit) = self.settings.limit {
            require!(
                limit >= 0.0,
                "experts: the limit of the clamp is {limit}; it must be a number that is not negative"
            );
        }
        check_weights(&self.weights, hidden, key)
    }

    fn results(&self) -> [Like; 1] {
        [(self.x.shape(), self.x.dtype())]
    }

    /// Slots without an expert have no row, so a backend may keep fewer.
    fn saved(&self) -> [Saved; 1] {
        let rows = self.indices.shape().num_elements();
        let shape = Shape::new([rows, 2 * self.width()]);
        [Saved::at_most("what forward kept", (shape, self.x.dtype()))]
    }

    /// Returns the dtype of `x` and the weights. The routing weights have the same dtype, or f32.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
    fn float_dtype(&self) -> Result<DType, Mismatch> {
        let weights = self.weights.iter().flatten();
        let weights = weights.map(|weight| ("a weight", weight));
        let dtype = operands::one_dtype(OP, std::iter::once(("x", &self.x)).chain(weights))?;
        require!(
            [dtype, DType::F32].contains(&self.routing.dtype()),
            "experts: the routing weights are {:?}, but x, {dtype:?}, takes {dtype:?} or F32",
            self.routing.dtype()
        );
        Ok(dtype)
    }

    /// Returns the number of experts.
    pub(super) fn experts(&self) -> usize {
        let down = &self.weights[DOWN];
        let first = down[0].shape();
        match first.num_dims() {
            3 => first[0],
            _ => down.len(),
        }
    }

    /// Returns the width of an expert, `I`.
    pub fn width(&self) -> usize {
        let down = self.weights[DOWN][0].shape();
        let last = down.num_dims() - 1;
        match self.settings.key.layout {
            ExpertLayout::Linear => down[last],
            ExpertLayout::Matmul => down[last - 1],
        }
    }
}

impl Operands<DispatchTensor, DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(
        x: Tensor<2>,
        indices: Tensor<2, Int>,
        routing: Tensor<2>,
        weights: Weights,
        settings: Settings,
    ) -> Self {
        checked(Self::new(
            x.into_dispatch(),
            routing.into_dispatch(),
            weights.into_dispatch(),
            indices.into_dispatch(),
            settings,
        ))
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(crate) fn check(
    x: &Tensor<2>,
    indices: &Tensor<2, Int>,
    routing: &Tensor<2>,
    weights: &Weights,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Operands<Facts, Facts> {
    let kind = || DeviceKind::of(&indices.device());
    checked(operands::integers_on(
        OP,
        "the indices",
        indices.dtype(),
        kind,
    ));
    let [x, routing] = [x, routing].map(Facts::from);
    let settings = Settings { key, limit };
    let indices = Facts::from(indices);
    let operands = checked(Operands::new(
        x,
        routing,
        weights.facts(),
        indices,
        settings,
    ));
    for projection in weights.each() {
        if let Some(adapter) = &projection.adapter {
            let sizes = projection.weight.of_one();
            adapter.check(weights.experts(), sizes, key.layout);
        }
    }
    operands
}

/// Checks that the weights are those of the key's experts, for tokens of `hidden` elements.
fn check_weights<T: Described>(
    weights: &[Vec<T>],
    hidden: usize,
    key: MoeExpertsKey,
) -> Result<(), Mismatch> {
    require!(
        weights.len() == 2 * BIASES,
        "experts: there are {} groups of weights and biases, not {}",
        weights.len(),
        2 * BIASES
    );
    let (experts, sizes) = stack::<3, 2, T>("down", &weights[DOWN])?;
    require!(experts > 0, "experts: there are none");
    let width = match key.layout {
        ExpertLayout::Linear => sizes[1],
        ExpertLayout::Matmul => sizes[0],
    };
    let projection = |what, group: usize, inputs, features| {
        let (weight, bias) = (&weights[group], &weights[BIASES + group]);
        check_projection(what, weight, bias, [experts, inputs, features], key)
    };
    projection("down", DOWN, width, hidden)?;
    match key.projections {
        Projections::Chunked | Projections::Interleaved => {
            require!(
                weights[UP].is_empty() && weights[BIASES + UP].is_empty(),
                "experts: {key}, but gate and up are two tensors"
            );
            projection("gate and up", GATE, hidden, 2 * width)
        }
        Projections::Separate => {
            require!(
                !weights[UP].is_empty(),
                "experts: {key}, but gate and up are one tensor"
            );
            projection("gate", GATE, hidden, width)?;
            projection("up", UP, hidden, width)
        }
    }
}

fn stack<const STACKED: usize, const SINGLE: usize, T: Described>(
    what: &str,
    tensors: &[T],
) -> Result<(usize, [usize; SINGLE]), Mismatch> {
    operands::stack::<STACKED, SINGLE, T>(what, tensors).map_err(|mismatch| mismatch.of(OP))
}

/// Checks that there are `experts` projections of `inputs` to `features`.
fn check_projection<T: Described>(
    what: &str,
    weight: &[T],
    bias: &[T],
    [experts, inputs, features]: [usize; 3],
    key: MoeExpertsKey,
) -> Result<(), Mismatch> {
    let expected = match key.layout {
        ExpertLayout::Linear => [features, inputs],
        ExpertLayout::Matmul => [inputs, features],
    };
    let (count, sizes) = stack::<3, 2, T>(what, weight)?;
    require!(
        (count, sizes) == (experts, expected),
        "experts: the {what} weights are {count} of {sizes:?}, but {experts} of {expected:?} are \
         needed for {key}"
    );
    let has_bias = !bias.is_empty();
    require!(
        has_bias == (key.bias == ExpertBias::All),
        "experts: {key}, but the {what} projection has {} bias",
        if has_bias { "a" } else { "no" }
    );
    if has_bias {
        let (count, sizes) = stack::<2, 1, T>(what, bias)?;
        require!(
            (count, sizes) == (experts, [features]),
            "experts: the {what} biases are {count} of {sizes:?}, but {experts} of [{features}] are \
             needed"
        );
    }
    Ok(())
}
