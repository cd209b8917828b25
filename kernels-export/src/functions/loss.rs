//! Cross-entropies.

use super::Results;
use super::linear::sizes;
use super::norm::view_of;
use crate::call::{Error, refused};
use crate::made::Made;
use crate::numbers::{Finite, Limit, Part};
use crate::tensor::{Tensor, Type};
use kernels_simd::Values;
use kernels_simd::cross_entropy::{self as plain, Settings};
use kernels_simd::keys::{LossReduction, OutputLayout};
use kernels_simd::linear_cross_entropy::{self as fused, Gradients, Wanted};

/// The targets of a loss and its numbers.
pub(super) struct Loss {
    pub(super) targets: Tensor,
    pub(super) ignore_index: i64,
    pub(super) label_smoothing: Part,
    pub(super) cap: Option<Limit>,
    pub(super) z_loss: Finite,
    pub(super) reduction: LossReduction,
}

impl Loss {
    fn settings(&self) -> Settings {
        Settings {
            label_smoothing: self.label_smoothing.0,
            cap: self.cap.map(|cap| cap.0),
            z_loss: self.z_loss.0,
        }
    }

    /// Reads the class of each token.
    fn classes(&self, tokens: usize, count: usize) -> Result<Vec<Option<usize>>, Error> {
        if self.targets.sizes() != [tokens] {
            return refused(format!(
                "targets: a shape of [{tokens}] is expected, and not {:?}",
                self.targets.sizes()
            ));
        }
        let ignored = self.ignore_index;
        let class = |(token, number): (usize, i64)| match usize::try_from(number) {
            _ if number == ignored => Ok(None),
            Ok(class) if class < count => Ok(Some(class)),
            _ => refused(format!(
                "targets: token {token} has the class {number}; there are {count} classes, and {ignored} is ignored"
            )),
        };
        let numbers = self.targets.integers()?;
        numbers.into_iter().enumerate().map(class).collect()
    }

    /// Calls a function with the operands of a loss of logits.
    fn with_logits<R>(
        &self,
        logits: &Tensor,
        call: impl FnOnce(&plain::Operands<'_>) -> R,
    ) -> Result<R, Error> {
        let &[tokens, classes] = logits.sizes() else {
            return refused(format!(
                "logits: a shape of [tokens, classes] is expected, and not {:?}",
                logits.sizes()
            ));
        };
        Ok(call(&plain::Operands {
            logits: logits.view()?,
            targets: &self.classes(tokens, classes)?,
            settings: self.settings(),
            reduction: self.reduction,
        }))
    }

    pub(super) fn of_logits(self, logits: Tensor) -> Results<2> {
        let found = self.with_logits(&logits, plain::forward)?;
        let loss = made_loss(found.loss, self.reduction);
        Ok([Some(loss), Some(Made::flat(found.lse))])
    }

    pub(super) fn gradient_of_logits(
        self,
        logits: Tensor,
        lse: Tensor,
        dloss: Tensor,
    ) -> Results<1> {
        let (lse, dloss) = (lse.view()?, dloss.view()?);
        let gradient = self.with_logits(&logits, |loss| plain::backward(loss, &lse, &dloss))?;
        Ok([Some(Made::new(gradient, logits.sizes()))])
    }
}

/// An output layer and the loss of its logits.
pub(super) struct OutputLayer {
    pub(super) hidden: Tensor,
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    pub(super) layout: OutputLayout,
    pub(super) loss: Loss,
}

impl OutputLayer {
    /// Calls a function with the operands.
    fn with<R>(&self, call: impl FnOnce(&fused::Operands<'_>) -> R) -> Result<R, Error> {
        let [_, classes] = sizes(&self.weight, self.layout)?;
        let &[tokens, _] = self.hidden.sizes() else {
            return refused(format!(
                "hidden: a shape of [tokens, width] is expected, and not {:?}",
                self.hidden.sizes()
            ));
        };
        Ok(call(&fused::Operands {
            hidden: self.hidden.view()?,
            weight: fused::Weight::Floats(self.weight.view()?, self.layout),
            bias: view_of(&self.bias)?,
            targets: &self.loss.classes(tokens, classes)?,
            settings: self.loss.settings(),
            reduction: self.loss.reduction,
        }))
    }

    pub(super) fn forward(self, wanted: [bool; 3]) -> Results<4> {
        let wanted = self.wanted(wanted)?;
        let reduction = self.loss.reduction;
        if reduction == LossReduction::None && wanted.any() {
            return refused(
                "losses that are not reduced have their gradients by linear_cross_entropy_backward"
                    .into(),
            );
        }
        let (found, gradients) = self.with(|operands| fused::forward(operands, wanted))?;
        let [dhidden, dweight, dbias] = self.made(gradients)?;
        Ok([Some(made_loss(found, reduction)), dhidden, dweight, dbias])
    }

    pub(super) fn backward(self, dloss: Tensor, wanted: [bool; 3]) -> Results<3> {
        let (dloss, wanted) = (dloss.view()?, self.wanted(wanted)?);
        let gradients = self.with(|operands| fused::backward(operands, &dloss, wanted))?;
        self.made(gradients)
    }

    fn wanted(&self, [hidden, weight, bias]: [bool; 3]) -> Result<Wanted, Error> {
        if bias && self.bias.is_none() {
            return refused("the gradient of a bias is wanted that is missing".into());
        }
        Ok(Wanted {
            hidden,
            weight,
            bias,
        })
    }

    /// Returns the gradients, that of the weight as `[classes, width]`, whatever its layout.
    fn made(&self, gradients: Gradients) -> Results<3> {
        let [width, classes] = sizes(&self.weight, self.layout)?;
        let of_hidden = |values| Made::new(values, self.hidden.sizes());
        let of_weight = |values| Made::new(values, &[classes, width]);
        Ok([
            gradients.hidden.map(of_hidden),
            gradients.weight.map(of_weight),
            gradients.bias.map(Made::flat),
        ])
    }
}

pub(super) fn scaled(kept: Tensor, dloss: Tensor, like: Tensor) -> Results<1> {
    let Type::Float(dtype) = like.dtype() else {
        return refused(format!(
            "like: the elements must be floats, and not {:?}",
            like.dtype()
        ));
    };
    let values = fused::scaled(&kept.view()?, &dloss.view()?, dtype);
    Ok([Some(Made::new(values, kept.sizes()))])
}

fn made_loss(values: Values, reduction: LossReduction) -> Made {
    match reduction {
        LossReduction::None => Made::flat(values),
        LossReduction::Mean | LossReduction::Sum => Made::new(values, &[]),
    }
}
