//! Functions of logits, a few tokens at a time.
//!
//! The gradients of these tokens are computed at once: those of the logits by autodiff, and from them those of hidden states and
//! weight. The backward pass gets the gradient of the hidden states, and that of the output projection if this is trained.
//! Nothing of the size tokens × vocabulary is kept, and a weight in a half type is never widened as a whole.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Tensor, TensorData};
use burn_kernels::ops::with_gradients;

use crate::error::ModelError;
use crate::model::projection::Projection;

/// Returns the sum of the entropies of the tokens' distributions in nats, each with its factor, `[1]`. Its gradient flows
/// to hidden states and weight: that of a logit is `−p·(log p + H)`.
///
/// # Errors
/// Returns [`ModelError::Input`] without a token, and for another number of factors than of tokens.
pub fn entropy_loss(projection: &Projection, factors: &[f64]) -> Result<Tensor<1>, ModelError> {
    let tokens = projection.tokens();
    if factors.len() != tokens || tokens == 0 {
        return Err(ModelError::Input {
            input: "factors",
            problem: format!(
                "expected {tokens} numbers, at least one, found {}",
                factors.len()
            ),
        });
    }
    let factors = factors_of(projection, factors);
    weighted_sum(projection, factors, |logits, _| {
        Ok(entropies(&log_softmax(logits, 1)))
    })
}

/// Returns the factors of a projection's tokens, in the type that logits are computed in.
pub(super) fn factors_of(projection: &Projection, factors: &[f64]) -> Tensor<1> {
    let data = TensorData::new(factors.to_vec(), [factors.len()]);
    let hidden = &projection.hidden;
    Tensor::from_data(data, (&hidden.device(), projection.logit_dtype()))
}

/// Returns the entropies of distributions `[tokens, vocabulary]`, given their logarithms.
pub(super) fn entropies(log_probs: &Tensor<2>) -> Tensor<1> {
    let terms = log_probs.clone().exp() * log_probs.clone();
    terms.sum_dim(1).squeeze_dim::<1>(1).neg()
}

/// Returns the sum of a number of each token, each with its factor, `[1]`. `each` computes the numbers of the tokens of a tile
/// from their logits, given with their place and number. There must be a token. The gradient of a factor is its number.
pub(super) fn weighted_sum(
    projection: &Projection,
    factors: Tensor<1>,
    each: impl Fn(Tensor<2>, (usize, usize)) -> Result<Tensor<1>, ModelError>,
) -> Result<Tensor<1>, ModelError> {
    let of_hidden = projection.hidden.is_tracked();
    let of_weight = projection
        .weight
        .floats()
        .filter(|weight| weight.is_tracked());
    let constant = projection.constant();
    let constants = factors.clone().without_autodiff();
    let (mut numbers, mut d_hidden) = (Vec::new(), Vec::new());
    let mut d_weight: Option<Tensor<2>> = None;
    for (start, count) in projection.tiles() {
        let tile = constant.tile(start, count);
        let products = tile.products();
        let products = match of_hidden || of_weight.is_some() {
            true => products.autodiff().require_grad(),
            false => products,
        };
        let found = each(tile.capped(products.clone()), (start, count))?;
        numbers.push(found.clone().without_autodiff());
        if !(of_hidden || of_weight.is_some()) {
            continue;
        }
        let mut gradients = (found * constants.clone().narrow(0, start, count))
            .sum()
            .backward();
        let Some(slopes) = products.grad_remove(&mut gradients) else {
            continue;
        };
        if of_weight.is_some() {
            let new = tile.hidden.clone().transpose().matmul(slopes.clone());
            d_weight = Some(match d_weight {
                Some(known) => known + new,
                None => new,
            });
        }
        if of_hidden {
            d_hidden.push(tile.times_weight(&slopes));
        }
    }
    let number = (Tensor::cat(numbers, 0) * factors).sum();
    let d_hidden = (!d_hidden.is_empty()).then(|| Tensor::cat(d_hidden, 0));
    let hidden = d_hidden.map(|gradient| (projection.hidden.clone(), gradient));
    let weight = of_weight.cloned().zip(d_weight);
    let known: Vec<_> = hidden.into_iter().chain(weight).collect();
    if known.is_empty() {
        return Ok(number);
    }
    // A factor with a gradient has it by the number, and this adds exactly 0.
    let zero = number.clone().without_autodiff().zeros_like();
    Ok(with_gradients(zero, known) + number)
}
