//! Functions of logits, a few tokens at a time.
//!
//! The gradients of these tokens are computed at once. The backward pass gets the gradient of the hidden states, and
//! that of the output projection if this is trained. Nothing of the size tokens × vocabulary is kept.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Tensor, TensorData};

use crate::error::ModelError;
use crate::model::projection::{Projection, wide};

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
    weighted_sum(projection, factors, |tile, _| {
        Ok(entropies(&log_softmax(tile.logits(), 1)))
    })
}

/// Returns the entropies of distributions `[tokens, vocabulary]`, given their logarithms.
pub(super) fn entropies(log_probs: &Tensor<2>) -> Tensor<1> {
    let terms = log_probs.clone().exp() * log_probs.clone();
    terms.sum_dim(1).squeeze_dim::<1>(1).neg()
}

/// Returns the sum of a number of each token, each with its factor, `[1]`. `each` computes the numbers of the tokens of a tile,
/// given with their place and number. There must be a token.
pub(super) fn weighted_sum(
    projection: &Projection,
    factors: &[f64],
    each: impl Fn(Projection, (usize, usize)) -> Result<Tensor<1>, ModelError>,
) -> Result<Tensor<1>, ModelError> {
    let tracks_weight = projection.weight.floats().is_some_and(Tensor::is_tracked);
    let tracked = [projection.hidden.is_tracked(), tracks_weight];
    let leaf = |tensor: Tensor<2>| tensor.autodiff().require_grad();
    let constant = projection.constant();
    let mut sum: Option<Tensor<1>> = None;
    let (mut of_hidden, mut of_weight) = (Vec::new(), None);
    for (start, count) in projection.tiles() {
        let mut tile = constant.tile(start, count);
        if tracked[0] {
            tile.hidden = leaf(tile.hidden);
        }
        if tracked[1] {
            tile.weight = tile.weight.map(leaf);
        }
        let leaves = (tile.hidden.clone(), tile.weight.clone());
        let each = each(tile, (start, count))?;
        let data = TensorData::new(factors[start..start + count].to_vec(), [count]);
        let place = (&each.device().inner(), each.dtype());
        let part = (each * Tensor::from_data(data, place)).sum();
        let value = part.clone().without_autodiff();
        sum = Some(match sum {
            Some(sum) => sum + value,
            None => value,
        });
        if tracked.contains(&true) {
            let mut gradients = part.backward();
            let mut gradient = |leaf: Option<&Tensor<2>>, is_tracked: bool| {
                let leaf = leaf.filter(|_| is_tracked)?;
                leaf.grad_remove(&mut gradients)
            };
            of_hidden.extend(gradient(Some(&leaves.0), tracked[0]));
            let weight = gradient(leaves.1.floats(), tracked[1]);
            of_weight = match (of_weight, weight) {
                (Some(known), Some(new)) => Some(known + new),
                (known, new) => known.or(new),
            };
        }
    }
    let sum = sum.expect("there is a token");
    let of_hidden = (!of_hidden.is_empty()).then(|| Tensor::cat(of_hidden, 0));
    let known = [
        Some((&projection.hidden, of_hidden)),
        projection.weight.floats().map(|weight| (weight, of_weight)),
    ];
    Ok(with_gradients(sum, known.into_iter().flatten()))
}

/// Gives a number these gradients: it becomes `value + Σ x·g − Σ x·g`, of which the last sum is a constant.
fn with_gradients<'a>(
    value: Tensor<1>,
    known: impl Iterator<Item = (&'a Tensor<2>, Option<Tensor<2>>)>,
) -> Tensor<1> {
    let products = known.filter_map(|(tensor, gradient)| {
        let gradient = gradient?;
        Some((wide(tensor.clone()) * gradient.autodiff()).sum())
    });
    products.fold(value, |value, product| {
        let constant = product.clone().without_autodiff();
        // First their difference, which is exactly 0.
        (product - constant) + value
    })
}
