use super::Routing;
use crate::ops::define::operands;
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{Correction, RouterWeights};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, IntDType, Tensor};

const OP: &str = "router";

operands! {
    /// The checked operands of a router.
    Operands<T> {
        /// Returns the logits, `[tokens, experts]`.
        logits: One,
        /// Returns the correction of the choice, `[experts]`.
        bias: Maybe,
    }
    numbers {
        /// Returns the variant to compute, with its numbers.
        routing: Routing,
        /// Returns the type of the experts' indices.
        ints: IntDType,
    }
}

impl<T: Described> Operands<T> {
    /// Makes the operands. `logits` is `[tokens, experts]`. `bias`, the correction of the choice, is `[experts]`, and
    /// must be present exactly if the key has a correction. The chosen experts are returned as `ints`.
    ///
    /// # Errors
    /// Returns an error if the shapes don't fit together, if `bias` is not present exactly when the key has a
    /// correction, or if `ints` can't hold the indices.
    pub fn new(
        logits: T,
        bias: Option<T>,
        routing: Routing,
        ints: IntDType,
    ) -> Result<Self, Mismatch> {
        fits(&logits, &routing)?;
        let experts = routing.num_experts();
        operands::holds(OP, "the indices of experts", ints, experts - 1)?;
        match (routing.key().correction, &bias) {
            (Correction::None, None) => {}
            (Correction::Bias, Some(bias)) => {
                let [length] = operands::dims(OP, "the bias", bias)?;
                require!(
                    length == experts,
                    "router: the bias has {length} elements, but there are {experts} experts"
                );
            }
            (Correction::None, Some(_)) => {
                return Err(Mismatch::new(format_args!(
                    "router: there is a bias, but {} has no correction; add a bias of the logits \
                     to them",
                    routing.key()
                )));
            }
            (Correction::Bias, None) => {
                let key = routing.key();
                return Err(Mismatch::new(format_args!("router: {key} needs a bias")));
            }
        }
        Ok(Self {
            logits,
            bias,
            routing,
            ints,
        })
    }

    /// Returns the dtype of the logits. The bias has the dtype that scores are computed in.
    ///
    /// # Errors
    /// Returns an error if the bias has another dtype, or if kernels don't take the dtype of the logits.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        let dtype = operands::float(OP, "the logits", self.logits.dtype())?;
        if let Some(bias) = &self.bias {
            require!(
                bias.dtype() == compute_dtype(dtype),
                "router: the bias is {:?}, but scores are computed in {:?}",
                bias.dtype(),
                compute_dtype(dtype)
            );
        }
        Ok(dtype)
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(logits: Tensor<2>, bias: Option<Tensor<1>>, routing: &Routing) -> Self {
        let (compute, device) = (compute_dtype(logits.dtype()), logits.device());
        let bias = bias.map(|bias| same_dtype_as(bias.detach(), compute).into_dispatch());
        let ints = device.settings().int_dtype;
        checked(Self::new(logits.into_dispatch(), bias, *routing, ints))
    }
}

operands! {
    /// The operands of the backward pass.
    Backward<F, I>
    floats {
        /// Returns the gradient of the weights.
        dw: One,
        /// Returns the logits, `[tokens, experts]`.
        logits: One,
    }
    ints {
        /// Returns the experts that were chosen.
        indices,
    }
    numbers {
        /// Returns the variant that was computed.
        routing: Routing,
    }
}

impl<F: Described, I: Described> Backward<F, I> {
    /// Makes the operands. `dw`, the gradient of the weights, and `indices`, the chosen experts, are
    /// `[tokens, top_k]`.
    ///
    /// # Errors
    /// Returns an error if the shapes don't fit together, or if the dtypes are not those of the forward pass.
    pub fn new(dw: F, logits: F, indices: I, routing: Routing) -> Result<Self, Mismatch> {
        let tokens = fits(&logits, &routing)?;
        let dtype = operands::float(OP, "the logits", logits.dtype())?;
        let shape = Shape::new([tokens, routing.top_k()]);
        let weights = weights_dtype(dtype, &routing);
        operands::like(OP, ("dw", &dw), ("the weights", &shape, weights))?;
        require!(
            indices.shape() == shape,
            "router: the indices are {:?}, but {:?} were chosen",
            indices.shape().as_slice(),
            shape.as_slice()
        );
        operands::integers(OP, "the indices", indices.dtype())?;
        Ok(Self {
            dw,
            logits,
            indices,
            routing,
        })
    }
}

/// Returns the dtype of the weights for logits of `dtype`.
pub(crate) fn weights_dtype(dtype: DType, routing: &Routing) -> DType {
    match routing.key().weights {
        RouterWeights::Logits => dtype,
        RouterWeights::Wide => compute_dtype(dtype),
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(crate) fn check(logits: &Tensor<2>, bias: Option<&Tensor<1>>, routing: &Routing) {
    let bias = bias.map(Facts::from);
    checked(Operands::new(logits.into(), bias, *routing, IntDType::I64));
}

/// Checks that the logits fit the routing, and returns the number of tokens.
fn fits(logits: &impl Described, routing: &Routing) -> Result<usize, Mismatch> {
    let experts = routing.num_experts();
    let [tokens, width] = operands::dims(OP, "the logits", logits)?;
    require!(
        width == experts,
        "router: logits are [{tokens}, {width}], but there are {experts} experts"
    );
    Ok(tokens)
}
