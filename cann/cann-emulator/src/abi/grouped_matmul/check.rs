//! Checks of the products, from CANN's documentation.

use super::first::{check_lengths, rows_of};
use super::{Groups, Kind, Parameters, Roles, Split, matrix};
use crate::abi::prelude::*;

pub(super) fn check_parameters(
    parameters: &Parameters,
    group_type: i64,
    kind: Kind,
) -> Outcome<Split> {
    let Parameters {
        split_item,
        group_list_type,
        act_type,
        ..
    } = parameters;
    let split = match group_type {
        -1 => Split::None,
        0 => Split::Rows,
        2 => Split::Depth,
        _ => fail!("groupType is {group_type}; -1 splits nothing, 0 the rows, 2 the summed axis"),
    };
    ensure!((0..=3).contains(split_item);
        "splitItem is {split_item}; 0 and 1 give several results, 2 and 3 one");
    ensure!(kind.list_types().contains(group_list_type);
        "groupListType is {group_list_type}; {:?} are taken: 0 is ends, 1 is counts, 2 is pairs \
         of a group and a count", kind.list_types());
    ensure!(*act_type == 0 || kind == Kind::Integers;
        "actType is {act_type}; only products of i8 have an activation");
    Ok(split)
}

/// Checks the documented combinations of one and several tensors.
pub(super) fn check_lists(roles: &Roles<'_>, split: Split, split_item: i64) -> Outcome<()> {
    let counts = (roles.x.len(), roles.weight.len(), roles.output.len());
    let (x, weight, output) = counts;
    ensure!(x > 0 && weight > 0 && output > 0, ACLNN_ERR_PARAM_NULLPTR;
        "x, weight and y need at least one tensor");
    ensure!(x <= 128 && weight <= 128 && output <= 128; "a list has more than 128 tensors");
    let one = split_item >= 2;
    let fits = match split {
        Split::None => x == weight && x == output && !one,
        Split::Rows => output == 1 && one && (x == 1 || x == weight),
        Split::Apart => false,
        Split::Depth => {
            x == 1
                && if one {
                    weight == 1 && output == 1
                } else {
                    weight == output
                }
        }
    };
    ensure!(fits;
        "{x} x, {weight} weights and {output} results with splitItem {split_item} are not a \
         documented combination");
    match split {
        Split::None => ensure!(roles.list.count().is_none(); "groupType -1 takes no groupList"),
        // Several x are groups by themselves.
        _ => ensure!(roles.list.count().is_some() || x > 1, ACLNN_ERR_PARAM_NULLPTR;
            "groupList is needed to split one x"),
    }
    Ok(())
}

pub(super) fn check_tensors(roles: &Roles<'_>, split: Split) -> Outcome<()> {
    roles.kind.check_dtypes(roles)?;
    for weight in roles.weight {
        ensure!(weight.format != ACL_FORMAT_FRACTAL_NZ;
            "weight has the format FRACTAL_NZ, which is not emulated");
    }
    if let Groups::Device(list) = roles.list {
        check_dtype("groupList", list, &[ACL_INT64])?;
    }
    if let Some(count) = roles.list.count() {
        ensure!(count <= 1024; "{count} groups; at most 1024 are supported");
    }
    for output in roles.output {
        check_contiguous("y", output)?;
    }
    let most = if split == Split::None { 6 } else { 3 };
    check_layouts("x", roles.x, split == Split::Depth, most)?;
    let turned = roles.weight[0].is_transposed() && !roles.weight[0].is_contiguous();
    ensure!(!(turned && split == Split::Depth);
        "a transposed weight cannot be split along the summed axis");
    check_layouts("weight", roles.weight, turned, 3)
}

/// Checks that all members are contiguous, or that all are transposed: views with the last strides swapped.
fn check_layouts(
    name: &str,
    tensors: &[Tensor],
    transposed: bool,
    most_axes: usize,
) -> Outcome<()> {
    for tensor in tensors {
        ensure!((2..=most_axes).contains(&tensor.rank()); "{name} has {} axes", tensor.rank());
        let fits = if transposed {
            tensor.is_transposed()
        } else {
            tensor.is_contiguous()
        };
        let wanted = if transposed {
            "a transposed view"
        } else {
            "contiguous"
        };
        ensure!(fits;
            "{name} must be {wanted}; its shape is {:?} and its strides {:?}",
            tensor.shape, tensor.strides);
        let last = tensor.shape[tensor.rank() - if transposed { 2 } else { 1 }];
        ensure!(last < 65536;
            "the last axis of {name} in memory has {last}; less than 65536 is supported");
    }
    Ok(())
}

fn check_product(x: [usize; 2], weight: [usize; 2]) -> Outcome<()> {
    ensure!(x[1] == weight[0]; "x is {x:?} and weight {weight:?}; the axis between them differs");
    Ok(())
}

pub(super) fn check_each(roles: &Roles<'_>) -> Outcome<()> {
    for ((x, weight), output) in roles.x.iter().zip(roles.weight).zip(roles.output) {
        let weight = matrix("weight", weight)?;
        let (front, depth) = x.shape.split_at(x.rank() - 1);
        check_product([front.iter().product(), depth[0]], weight)?;
        check_shape("y", output, &[front, &weight[1..]].concat())?;
    }
    check_bias(roles, roles.weight.len())
}

/// Checks one x whose groups of rows have their own weights and results.
pub(super) fn check_apart(roles: &Roles<'_>) -> Outcome<()> {
    let x = matrix("x", &roles.x[0])?;
    let mut rows = 0;
    for (weight, output) in roles.weight.iter().zip(roles.output) {
        let (weight, y) = (matrix("weight", weight)?, matrix("y", output)?);
        check_product(x, weight)?;
        check_shape("y", output, &[y[0], weight[1]])?;
        rows += y[0];
    }
    ensure!(rows == x[0]; "x has {} rows, and the results {rows}", x[0]);
    check_bias(roles, roles.weight.len())
}

/// Checks that there is one bias for each weight, or one tensor with a row for each group.
fn check_bias(roles: &Roles<'_>, groups: usize) -> Outcome<()> {
    if roles.bias.is_empty() {
        return Ok(());
    }
    ensure!(roles.bias.len() == roles.weight.len();
        "{} biases for {} weights", roles.bias.len(), roles.weight.len());
    for (bias, weight) in roles.bias.iter().zip(roles.weight) {
        let columns = weight.shape[weight.rank() - 1];
        if weight.rank() == 3 {
            check_shape("bias", bias, &[groups, columns])?;
        } else {
            check_shape("bias", bias, &[columns])?;
        }
    }
    Ok(())
}

pub(super) fn check_rows(roles: &Roles<'_>) -> Outcome<()> {
    let mut rows = 0;
    let weight = &roles.weight[0];
    let stacked = weight.rank() == 3;
    let (several, axes) = (roles.weight.len() > 1, if stacked { 3 } else { 2 });
    ensure!(stacked != several && roles.weight.iter().all(|weight| weight.rank() == axes);
        "one weight has three axes, several have two each");
    let groups = if stacked {
        weight.shape[0]
    } else {
        roles.weight.len()
    };
    let columns = weight.shape[weight.rank() - 1];
    for (position, x) in roles.x.iter().enumerate() {
        let x = matrix("x", x)?;
        rows += x[0];
        // Documents don't say whether several x may differ here.
        ensure!(matches!(roles.kind, Kind::Integers | Kind::Mixed) || x[1] == roles.x[0].shape[1];
            "x {position} has rows of {} elements, and the first x of {}", x[1], roles.x[0].shape[1]);
        let own = if roles.x.len() == 1 {
            roles.weight
        } else {
            &roles.weight[position..=position]
        };
        for weight in own {
            let rank = weight.rank();
            check_product(x, [weight.shape[rank - 2], weight.shape[rank - 1]])?;
            ensure!(weight.shape[rank - 1] == columns;
                "the weights have different numbers of columns, but there is one result");
        }
    }
    // Without a list, each x is a group.
    let count = roles.list.count().unwrap_or(roles.x.len());
    ensure!(count == groups, ACLNN_ERR_INNER_TILING_ERROR;
        "there are {count} groups of {groups} weights");
    if let Groups::Host(ends) = roles.list {
        check_lengths(ends, &rows_of(roles.x), roles.x.len() > 1)?;
    }
    check_shape("y", &roles.output[0], &[rows, columns])?;
    check_bias(roles, groups)
}

pub(super) fn check_depth(roles: &Roles<'_>) -> Outcome<()> {
    ensure!(roles.bias.is_empty(); "groupType 2 takes no bias");
    let x = matrix("x", &roles.x[0])?;
    let groups = roles.list.count().unwrap_or(0);
    if roles.output.len() == 1 && roles.output[0].rank() == 3 {
        let weight = matrix("weight", &roles.weight[0])?;
        check_product(x, weight)?;
        return check_shape("y", &roles.output[0], &[groups, x[0], weight[1]]);
    }
    ensure!(groups == roles.weight.len(); "{groups} groups of {} weights", roles.weight.len());
    let mut depth = 0;
    for (weight, output) in roles.weight.iter().zip(roles.output) {
        let weight = matrix("weight", weight)?;
        depth += weight[0];
        check_shape("y", output, &[x[0], weight[1]])?;
    }
    check_product(x, [depth, 0])
}
