//! Attention in one operator, where that is sure to be what Burn means.

use burn_backend::ops::{AttentionModuleOptions, FloatTensorOps};

use super::super::CannBackend;
use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use crate::ops::attention::{self, Axes, Mask, Settings};
use crate::ops::{create, rearrange};
use crate::{DType, Tensor};

/// Attention without a mask of the caller's, or causal.
///
/// Without keys there is nothing to attend to, which gives zeros. They are not asked of CANN.
///
/// Burn gives zeros for a row of which everything is masked, and CANN does not say what it gives, so that
/// masks which may have such rows are declined; so are what is added to scores and capped scores, which
/// the operator does not compute in Burn's way.
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

/// Keys or values of as many heads as queries have, where heads of queries that follow each other share one.
/// Burn's composition takes no shared heads, other than one for all.
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

/// Sequences for which a mask of all scores is no larger than the one that serves all sequences.
const SMALL: usize = 2048;

/// What is ahead of each query, where the last query is beside the last key; of long sequences the mask
/// from which CANN makes that.
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
    // No more than `SMALL`.
    Ok(rearrange::triu(query.on(), &all, ahead as i64 + 1)?)
}
