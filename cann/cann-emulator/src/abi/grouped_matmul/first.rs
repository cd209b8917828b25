//! The rules of version 1, which finds the split in the numbers of tensors.

use super::{Groups, Roles, Split};
use crate::abi::prelude::*;

/// Checks what only version 1 asks for. Returns the split.
pub(super) fn check_first(roles: &Roles<'_>, split_item: i64) -> Outcome<Split> {
    let (x, weight, output) = (roles.x.len(), roles.weight.len(), roles.output.len());
    ensure!(x > 0 && weight > 0 && output > 0, ACLNN_ERR_PARAM_NULLPTR;
        "x, weight and y need at least one tensor");
    let one = match split_item {
        0 | 1 => false,
        2 | 3 => true,
        _ => return Err(invalid(&format!("splitItem is {split_item}; it is 0 to 3"))),
    };
    let results = if one { 1 } else { weight };
    ensure!(
        [x, weight].iter().all(|count| *count <= 128)
            && output == results
            && (x == weight || x == 1);
        "{x} x, {weight} weights and {output} results with splitItem {split_item} are not a \
         documented combination"
    );
    for tensor in roles.x.iter().chain(roles.weight) {
        check_dtype("x or weight", tensor, &[ACL_FLOAT16, ACL_BF16, ACL_INT8])?;
    }
    ensure!(roles.weight.iter().all(Tensor::is_contiguous);
        "weight is transposed, which it may be from version 2 on");
    let Groups::Host(ends) = roles.list else {
        ensure!(x == weight, ACLNN_ERR_PARAM_NULLPTR; "groupList is needed to split one x");
        return Ok(if one { Split::Rows } else { Split::None });
    };
    check_ends(ends, weight)?;
    let split = match (x == weight, one) {
        (true, false) => Split::None,
        (false, false) => Split::Apart,
        (_, true) => Split::Rows,
    };
    let rows: Vec<usize> = match split {
        Split::Apart => rows_of(roles.output),
        _ => rows_of(roles.x),
    };
    check_lengths(ends, &rows, x == weight || split == Split::Apart)?;
    ensure!(x == 1 || roles.x.iter().all(|x| x.rank() == 2);
        "groupList is not taken with x of more than two axes");
    Ok(split)
}

fn invalid(text: &str) -> crate::error::Failure {
    crate::error::Failure::new(ACLNN_ERR_PARAM_INVALID, text)
}

pub(super) fn rows_of(tensors: &[Tensor]) -> Vec<usize> {
    let rows = |tensor: &Tensor| tensor.shape.first().copied().unwrap_or(0);
    tensors.iter().map(rows).collect()
}

/// Checks that the ends do not decrease and that each weight has one. One alone is refused.
fn check_ends(ends: &[i64], weights: usize) -> Outcome<()> {
    ensure!(ends.len() == weights && weights != 1;
        "groupList has {} ends for {weights} weights; a single one is not taken", ends.len());
    ensure!(ends[0] >= 0 && ends.is_sorted(); "groupList is {ends:?}, but ends of groups must not fall or be negative");
    Ok(())
}

/// Checks the ends against the rows of tensors: of each if they have groups of their own, else of all.
pub(super) fn check_lengths(ends: &[i64], rows: &[usize], each: bool) -> Outcome<()> {
    let mut end = 0;
    let sums: Vec<i64> = rows
        .iter()
        .map(|rows| {
            end += *rows as i64;
            end
        })
        .collect();
    let fits = match each {
        true => sums == ends,
        false => sums.last() == ends.last(),
    };
    ensure!(fits; "groupList ends at {ends:?}, and the tensors at {sums:?}");
    Ok(())
}
