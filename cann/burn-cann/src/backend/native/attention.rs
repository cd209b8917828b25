//! Attention in one operator, where CANN and Burn define the same result.

use burn_backend::ops::{AttentionModuleOptions, FloatTensorOps};

use super::super::CannBackend;
use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use crate::ops::attention::{self, Axes, Mask, Settings};
use crate::ops::{create, rearrange};
use crate::{DType, Tensor};

/// Computes attention without a mask of the caller's, or causal attention.
///
/// Without keys there is nothing to attend to: the result is zeros, and CANN is not called.
///
/// Some arguments are declined. Burn returns zeros for a row whose keys are all masked, and CANN does not define that
/// result, so masks that may have such rows are declined. So are biases of the scores and capped scores, which the
/// operator computes differently from Burn.
pub(in super::super) fn flash(
    query: &CannTensor,
    key: &CannTensor,
    value: &CannTensor,
    free: bool,
    options: &AttentionModuleOptions,
) -> Native<CannTensor> {
    let ([batch, heads, queries, width], [_, _, keys, _]) = (query.sizes(), key.sizes()) else {
        return Err(Declined::because("attention takes four dimensions"));
    };
    if let (0, [_, _, _, values]) = (*keys, value.sizes()) {
        let shape = [*batch, *heads, *queries, *values];
        return super::create::zeros(shape.into(), query.place.device, query.dtype);
    }
    if !free || options.softcap.is_some() {
        return Err(Declined::because("a mask, bias or cap of the caller's"));
    }
    let held = if options.is_causal {
        Some(future(query, *queries, *keys)?)
    } else {
        None
    };
    let mask = match &held {
        None => Mask::None,
        Some(mask) if *keys <= SMALL => Mask::Full(mask),
        Some(mask) => Mask::ToLast(mask),
    };
    let settings = Settings {
        axes: Axes::Bnsd,
        heads: *heads,
        scale: options.scale.unwrap_or(1.0 / (*width as f64).sqrt()),
    };
    let (q, k, v) = (&query.tensor, &key.tensor, &value.tensor);
    let found = attention::attention(query.on(), q, k, v, mask, settings)?;
    Ok(query.with(found.output))
}

/// Repeats the heads of keys or values for the queries, where successive heads of queries share one. Burn's
/// composition takes no shared heads, other than one for all.
pub(in super::super) fn per_head(shared: CannTensor, query: &CannTensor) -> CannTensor {
    let (&[batch, groups, length, width], [_, heads, ..]) = (shared.sizes(), query.sizes()) else {
        return shared;
    };
    if groups == 0 || groups == *heads || heads % groups != 0 {
        return shared;
    }
    let group = CannBackend::float_reshape(shared, [batch, groups, 1, length, width].into());
    let each = [batch, groups, heads / groups, length, width];
    let each = CannBackend::float_expand(group, each.into());
    CannBackend::float_reshape(each, [batch, *heads, length, width].into())
}

/// The sequence length up to which a mask of all scores is no larger than the mask that serves all sequences.
const SMALL: usize = 2048;

/// Returns the mask of the keys after each query, where the last query is beside the last key. For long sequences it
/// is the mask from which CANN derives it.
fn future(query: &CannTensor, queries: usize, keys: usize) -> Native<Tensor> {
    let Some(ahead) = keys.checked_sub(queries) else {
        return Err(Declined::because(
            "the first queries have nothing to attend to",
        ));
    };
    if keys > SMALL {
        return Ok(attention::causal_mask(query.on())?);
    }
    let all = create::full(query.on(), DType::Bool, [queries, keys], true)?;
    // The number is at most `SMALL`.
    Ok(rearrange::triu(query.on(), &all, ahead as i64 + 1)?)
}
