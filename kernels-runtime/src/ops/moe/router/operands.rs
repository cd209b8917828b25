use super::Routing;
use crate::ops::define::operands;
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{Correction, RouterWeights};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, IntDType, Tensor};

const OP: &str = "router";

operands! {
    /// The operands of a router, which go together.
    Operands<T> {
        /// `[tokens, experts]`.
        logits: One,
        /// The correction of the choice, `[experts]`.
        bias: Maybe,
    }
    numbers {
        /// Returns the variant to compute, with its numbers.
        routing: Routing,
        /// The type of the experts' indices.
        ints: IntDType,
    }
}

impl<T: Described> Operands<T> {
    /// `logits` is `[tokens, experts]`. `bias`, the correction of the choice, is `[experts]`, and there
    /// exactly if the key says that there is one. The chosen experts are returned as `ints`.
    ///
    /// # Errors
    /// The shapes don't fit together, or there is a bias where the key has none or the reverse.
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

    /// The dtype of the logits. The bias has the one that scores are computed in.
    ///
    /// # Errors
    /// The bias has another one, or the logits one that kernels don't take.
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
    /// If [`Operands::new`] is an error.
    #[track_caller]
    pub(crate) fn of(logits: Tensor<2>, bias: Option<Tensor<1>>, routing: &Routing) -> Self {
        let (compute, device) = (compute_dtype(logits.dtype()), logits.device());
        let bias = bias.map(|bias| same_dtype_as(bias.detach(), compute).into_dispatch());
        let ints = device.settings().int_dtype;
        checked(Self::new(logits.into_dispatch(), bias, *routing, ints))
    }
}

operands! {
    /// The operands of the gradient.
    Backward<F, I>
    floats {
        /// The gradient of the weights.
        dw: One,
        /// `[tokens, experts]`.
        logits: One,
    }
    ints {
        /// The experts that were chosen.
        indices,
    }
    numbers {
        /// Returns the variant that was computed.
        routing: Routing,
    }
}

impl<F: Described, I: Described> Backward<F, I> {
    /// `dw`, the gradient of the weights, and `indices`, the experts that were chosen, are
    /// `[tokens, top_k]`.
    ///
    /// # Errors
    /// The shapes don't fit together, or dtypes are not those of the forward pass.
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

/// The dtype of the weights of logits of `dtype`.
pub(crate) fn weights_dtype(dtype: DType, routing: &Routing) -> DType {
    match routing.key().weights {
        RouterWeights::Logits => dtype,
        RouterWeights::Wide => compute_dtype(dtype),
    }
}

/// Refuses what [`Operands::new`] does.
#[track_caller]
pub(crate) fn check(logits: &Tensor<2>, bias: Option<&Tensor<1>>, routing: &Routing) {
    let bias = bias.map(Facts::from);
    checked(Operands::new(logits.into(), bias, *routing, IntDType::I64));
}

/// The number of tokens.
fn fits(logits: &impl Described, routing: &Routing) -> Result<usize, Mismatch> {
    let experts = routing.num_experts();
    let [tokens, width] = operands::dims(OP, "the logits", logits)?;
    require!(
        width == experts,
        "router: logits are [{tokens}, {width}], but there are {experts} experts"
    );
    Ok(tokens)
}
