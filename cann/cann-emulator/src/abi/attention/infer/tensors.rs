//! Query, key and value, and their limits.

use super::super::layout::by_head;
use super::call::Call;
use crate::abi::prelude::*;
use crate::ops::attention::Sizes;

/// The limits of the axes.
const MOST_BATCHES: usize = 65_536;
const MOST_HEADS: usize = 256;
const MOST_TOKENS: usize = 20_971_520;
const WIDEST: usize = 512;
/// The number of elements of all heads of a token that CANN advises to stay below with BSND.
const WIDEST_TOKEN: usize = 65_535;
/// The widths of heads with more than one query are multiples of it.
const ALIGNED: usize = 16;
/// The widths of keys and values that may differ.
const UNEQUAL: [usize; 2] = [192, 128];

/// Takes query, key and value. Returns the query and the sizes.
pub(super) fn take_tensors(
    call: &Call,
    operands: &mut Operands,
    layout: &str,
) -> Outcome<(Tensor, Sizes)> {
    let query = operands.view("query", call.query, &[ACL_FLOAT16, ACL_BF16])?;
    check_contiguous("query", &query)?;
    let key = only("key", call.key, operands, &query)?;
    let value = only("value", call.value, operands, &query)?;
    let sizes = sizes(call, layout, [&query, &key, &value])?;
    check_limits(layout, sizes)?;
    Ok((query, sizes))
}

/// Takes the only tensor of a list.
fn only(
    name: &str,
    list: *const aclTensorList,
    operands: &mut Operands,
    query: &Tensor,
) -> Outcome<Tensor> {
    ensure!(!list.is_null(), ACLNN_ERR_PARAM_NULLPTR; "{name} is NULL");
    let members = operands.list(name, list, false)?;
    let [tensor] = &members[..] else {
        fail!(
            "{name} has {} tensors; a list of one for all sequences is emulated",
            members.len()
        )
    };
    check_dtype(name, tensor, &[query.dtype])?;
    check_axes(name, tensor)?;
    check_contiguous(name, tensor)?;
    Ok(tensor.clone())
}

fn sizes(call: &Call, layout: &str, [query, key, value]: [&Tensor; 3]) -> Outcome<Sizes> {
    let attributes = &call.attributes;
    let dims = |name, tensor| -> Outcome<[usize; 4]> {
        match by_head(name, tensor, layout, 0)?.shape[..] {
            [batch, heads, tokens, width] => Ok([batch, heads, tokens, width]),
            _ => unreachable!("four axes"),
        }
    };
    let [batch, heads, queries, width] = dims("query", query)?;
    let [key_batch, groups, keys, key_width] = dims("key", key)?;
    let [value_batch, value_groups, values, value_width] = dims("value", value)?;
    ensure!([batch, heads, queries, width, keys].iter().all(|size| *size > 0);
        "an operand without elements is not emulated");
    ensure!(attributes.heads == heads as i64;
        "numHeads is {}, and query has {heads}", attributes.heads);
    // Zero stands for as many heads of keys as of queries.
    let expected = match attributes.groups {
        0 => attributes.heads,
        groups => groups,
    };
    ensure!(expected == groups as i64 && groups > 0 && heads.is_multiple_of(groups);
        "numKeyValueHeads is {}, and key has {groups}, which must divide {heads}", attributes.groups);
    ensure!(key_batch == batch && key_width == width;
        "query of {:?} and key of {:?} in {layout} do not fit", query.shape, key.shape);
    ensure!(
        [value_batch, value_groups, values] == [key_batch, groups, keys]
            && (value_width == width || [width, value_width] == UNEQUAL);
        "key of {:?} and value of {:?} in {layout} do not fit; both are equally wide, or 192 and \
         128", key.shape, value.shape
    );
    Ok(Sizes {
        batch,
        heads,
        groups,
        queries,
        keys,
        width,
        value_width,
    })
}

fn check_limits(layout: &str, sizes: Sizes) -> Outcome<()> {
    let most = |name: &str, size: usize, limit: usize| -> Outcome<()> {
        ensure!(size <= limit; "{name} is {size}; at most {limit} is taken");
        Ok(())
    };
    most("the batch", sizes.batch, MOST_BATCHES)?;
    most("the number of heads", sizes.heads, MOST_HEADS)?;
    most(
        "the number of tokens",
        sizes.queries.max(sizes.keys),
        MOST_TOKENS,
    )?;
    most("the width of a head", sizes.width, WIDEST)?;
    ensure!(
        sizes.queries == 1
            || sizes.width.is_multiple_of(ALIGNED) && sizes.value_width.is_multiple_of(ALIGNED);
        "heads are {} wide; with more than one query it must be a multiple of {ALIGNED}",
        sizes.width
    );
    ensure!(layout != "BSND" || sizes.heads * sizes.width < WIDEST_TOKEN;
        "{} heads of {} elements; with BSND there must be fewer than {WIDEST_TOKEN} elements",
        sizes.heads, sizes.width);
    Ok(())
}
