use super::Routing;
use crate::device::DeviceKind;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{Correction, RouterWeights};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, IntDType, Tensor};

const OP: &str = "router";

operation! {
    /// The choice of experts. The weights of the chosen are the result, and their indices a result of integers.
    Router {
        name: "route",
        title: "router",
        kernel: "npu_fused_moe",
        saved: 0,
        dtypes: Operands::float_dtype,
    }
    /// The checked operands of a router.
    Operands<T> {
        /// The logits, `[tokens, experts]`.
        logits: One "the logits",
        /// The correction of the choice, `[experts]`. It is there exactly if the key has a correction, and has no gradient.
        bias: Maybe "the bias",
    }
    numbers {
        /// The variant to compute, with its numbers.
        routing: Routing,
        /// The type of the experts' indices, which must hold them.
        ints: IntDType,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        fits(&self.logits, &self.routing)?;
        let experts = self.routing.num_experts();
        operands::holds(OP, "the indices of experts", self.ints, experts - 1)?;
        match (self.routing.key().correction, &self.bias) {
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
                    self.routing.key()
                )));
            }
            (Correction::Bias, None) => {
                let key = self.routing.key();
                return Err(Mismatch::new(format_args!("router: {key} needs a bias")));
            }
        }
        Ok(())
    }

    fn results(&self) -> [Like; 2] {
        let dtype = weights_dtype(self.logits.dtype(), &self.routing);
        let shape = Shape::new([self.logits.shape()[0], self.routing.top_k()]);
        [(shape.clone(), dtype), (shape, self.ints.into())]
    }

    fn saved(&self) -> [Saved; 0] {
        []
    }

    /// Returns the dtype of the logits. The bias has the dtype that scores are computed in.
    ///
    /// # Errors
    /// Returns an error if the bias has another dtype, or if kernels don't take the dtype of the logits.
    fn float_dtype(&self) -> Result<DType, Mismatch> {
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
        let kind = || DeviceKind::of(&device);
        checked(operands::integers_on(
            OP,
            "the indices of experts",
            ints.into(),
            kind,
        ));
        checked(Self::new(logits.into_dispatch(), bias, *routing, ints))
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
