//! The values of a tensor without repetitions.
//!
//! The output of values has room for all. When the stream comes to the operator, its descriptor and that of the counts
//! get the length that was found. CANN promises no order of values that are not sorted; here they have that of their
//! first occurrence, so that programs that count on an order are noticed. CANN does not say how NaN is counted; here each
//! is a value of its own, behind the others if they are sorted, as PyTorch has it. Both zeros are one value, of which
//! CANN may give two. Views are taken: CANN's document lists them among the errors but also allows them.

use std::cmp::Ordering;

use crate::abi::found::{part, reshape};
use crate::abi::prelude::*;

/// The values without repetitions, the place among them of each given value, and how often each was given.
struct Found<T> {
    values: Vec<T>,
    inverse: Vec<i64>,
    counts: Vec<i64>,
}

/// Returns the order of two values of a dtype, NaN last.
fn order<T: Number>(unsigned: bool, left: T, right: T) -> Ordering {
    if unsigned {
        return left
            .to_i64()
            .cast_unsigned()
            .cmp(&right.to_i64().cast_unsigned());
    }
    left.partial_cmp(&right).unwrap_or_else(|| {
        let is_nan = |value: T| value.partial_cmp(&value).is_none();
        is_nan(left).cmp(&is_nan(right))
    })
}

fn unique<T: Number>(values: &[T], unsigned: bool, sorted: bool) -> Found<T> {
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by(|left, right| order(unsigned, values[*left], values[*right]));
    // The places of equal values, of which the first occurred first.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for place in places {
        match groups.last_mut() {
            Some(group) if values[group[0]] == values[place] => group.push(place),
            _ => groups.push(vec![place]),
        }
    }
    if !sorted {
        groups.sort_by_key(|group| group[0]);
    }
    let mut inverse = vec![0; values.len()];
    for (at, group) in groups.iter().enumerate() {
        group.iter().for_each(|place| inverse[*place] = at as i64);
    }
    Found {
        values: groups.iter().map(|group| values[group[0]]).collect(),
        inverse,
        counts: groups.iter().map(|group| group.len() as i64).collect(),
    }
}

operator! { index: aclnnUnique2GetWorkspaceSize, aclnnUnique2(
    input, sorted, return_inverse, return_counts, values_out, inverse_out, counts_out
) |operands|
    let input = operands.view("self", input, ALL)?;
    ensure!(input.rank() > 0; "self has no axes; it takes one to eight");
    let handles = [values_out as usize, counts_out as usize];
    let values = operands.target("valueOut", values_out, &[input.dtype])?;
    check_size("valueOut", &values, &[input.count()])?;
    check_contiguous("valueOut", &values)?;
    let inverse = operands.output("inverseOut", inverse_out)?;
    check_dtype("inverseOut", &inverse, &[ACL_INT64])?;
    check_axes("inverseOut", &inverse)?;
    if return_inverse {
        check_size("inverseOut", &inverse, &input.shape)?;
    }
    let counts = operands.output("countsOut", counts_out)?;
    check_dtype("countsOut", &counts, &[ACL_INT64])?;
    if return_counts {
        check_size("countsOut", &counts, &values.shape)?;
        check_contiguous("countsOut", &counts)?;
    }
    // With counts alone the places have a meaning, too, if there is room for them.
    let inverse_written = return_inverse || return_counts && inverse.shape == input.shape;
    let unsigned = input.dtype == ACL_UINT64;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let [input, values, inverse, counts] = taken(operands);
        let found = unique(&input.values::<T>(memory)?, unsigned, sorted);
        let length = vec![found.values.len()];
        part(values, length.clone())?.store_values(memory, &found.values)?;
        reshape(handles[0], &length);
        if inverse_written {
            inverse.store_values(memory, &found.inverse)?;
        }
        if return_counts {
            part(counts, length.clone())?.store_values(memory, &found.counts)?;
            reshape(handles[1], &length);
        }
        Ok(())
    })))
}
