//! Attention in one operator, where that is sure to be what Burn means.

use burn_backend::ops::AttentionModuleOptions;

use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use crate::ops::{attention, create, rearrange};
use crate::{DType, Tensor};

/// Attention without a mask of the caller's, or causal.
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
    if !free || options.softcap.is_some() {
        return Err(Declined::because("a mask, bias or cap of the caller's"));
    }
    let ([_, _, queries, width], [_, _, keys, _]) = (query.sizes(), key.sizes()) else {
        return Err(Declined::because("attention takes four dimensions"));
    };
    let mask = if options.is_causal {
        Some(future(query, *queries, *keys)?)
    } else {
        None
    };
    let scale = options.scale.unwrap_or(1.0 / (*width as f64).sqrt());
    let (query_tensor, key, value) = (&query.tensor, &key.tensor, &value.tensor);
    let found =
        attention::flash_attention(query.on(), query_tensor, key, value, mask.as_ref(), scale)?;
    Ok(query.with(found.output))
}

/// What is ahead of each query, where the last query is beside the last key.
fn future(query: &CannTensor, queries: usize, keys: usize) -> Native<Tensor> {
    let Some(ahead) = keys.checked_sub(queries) else {
        return Err(Declined::because(
            "the first queries have nothing to attend to",
        ));
    };
    let all = create::full(query.on(), DType::Bool, [queries, keys], true)?;
    let diagonal = i64::try_from(ahead).map_err(|_| Declined::because("too many keys"))? + 1;
    Ok(rearrange::triu(query.on(), &all, diagonal)?)
}
