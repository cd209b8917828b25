//! Matrix products by group, V4 and V5, of float types; quantised ones are refused.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::operators;
use crate::error::{Outcome, ensure, fail};
use crate::executor::{Operands, Work, check_contiguous, check_dtype, check_shape, phase_one};
use crate::memory::Memory;
use crate::object;
use crate::ops::grouped_matmul::ends;
use crate::ops::matmul::product;
use crate::tensor::Tensor;

/// The parameters of V4; V5 has one more, which changes nothing here.
struct Parameters {
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias: *const aclTensorList,
    /// What only quantised products have.
    quantised: [(&'static str, *const aclTensorList); 10],
    group_list: *const aclTensor,
    split_item: i64,
    group_type: i64,
    group_list_type: i64,
    act_type: i64,
    output: *const aclTensorList,
}

/// What is split into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    /// Nothing: each x has its own weight and its own result.
    None,
    /// The rows of x: tokens by expert.
    Rows,
    /// The axis that is summed over: the gradient of the weights.
    Depth,
}

/// The operands by their role, in phase one and again in phase two.
struct Roles<'a> {
    x: &'a [Tensor],
    weight: &'a [Tensor],
    bias: &'a [Tensor],
    list: Option<&'a Tensor>,
    output: &'a [Tensor],
}

fn prepare(parameters: &Parameters, operands: &mut Operands) -> Outcome<Work> {
    for (name, list) in &parameters.quantised {
        ensure!(
            list.is_null(),
            ACLNN_ERR_PARAM_INVALID,
            "{name} is given, but quantised products are not emulated; NULL is needed"
        );
    }
    let x = operands.list("x", parameters.x, false)?;
    let weight = operands.list("weight", parameters.weight, false)?;
    let bias = operands.list("bias", parameters.bias, false)?;
    let list = operands.optional("groupList", parameters.group_list)?;
    let output = operands.list("y", parameters.output, true)?;
    let split = check_parameters(parameters)?;
    let roles = Roles {
        x: &x,
        weight: &weight,
        bias: &bias,
        list: list.as_ref(),
        output: &output,
    };
    check_lists(&roles, split, parameters.split_item)?;
    check_tensors(&roles, split)?;
    match split {
        Split::None => check_each(&roles)?,
        Split::Rows => check_rows(&roles)?,
        Split::Depth => check_depth(&roles)?,
    }
    let counts = [
        x.len(),
        weight.len(),
        bias.len(),
        usize::from(list.is_some()),
    ];
    let as_counts = parameters.group_list_type == 1;
    Ok(Arc::new(move |memory, operands| {
        let (x, rest) = operands.split_at(counts[0]);
        let (weight, rest) = rest.split_at(counts[1]);
        let (bias, rest) = rest.split_at(counts[2]);
        let (list, output) = rest.split_at(counts[3]);
        let roles = Roles {
            x,
            weight,
            bias,
            list: list.first(),
            output,
        };
        match split {
            Split::None => each(memory, &roles),
            Split::Rows => by_rows(memory, &roles, as_counts),
            Split::Depth => by_depth(memory, &roles, as_counts),
        }
    }))
}

fn check_parameters(parameters: &Parameters) -> Outcome<Split> {
    let Parameters {
        split_item,
        group_type,
        group_list_type,
        act_type,
        ..
    } = parameters;
    let split = match group_type {
        -1 => Split::None,
        0 => Split::Rows,
        2 => Split::Depth,
        _ => fail!(
            ACLNN_ERR_PARAM_INVALID,
            "groupType is {group_type}; -1 splits nothing, 0 the rows, 2 the summed axis"
        ),
    };
    ensure!(
        (0..=3).contains(split_item),
        ACLNN_ERR_PARAM_INVALID,
        "splitItem is {split_item}; 0 and 1 give several results, 2 and 3 one"
    );
    ensure!(
        matches!(group_list_type, 0 | 1),
        ACLNN_ERR_PARAM_INVALID,
        "groupListType is {group_list_type}; 0 is ends, 1 is counts (2 is for int8 only)"
    );
    ensure!(
        *act_type == 0,
        ACLNN_ERR_PARAM_INVALID,
        "actType is {act_type}; float products have none, 0"
    );
    Ok(split)
}

/// The documented combinations of one and several tensors.
fn check_lists(roles: &Roles<'_>, split: Split, split_item: i64) -> Outcome<()> {
    let counts = (roles.x.len(), roles.weight.len(), roles.output.len());
    let (x, weight, output) = counts;
    ensure!(
        x > 0 && weight > 0 && output > 0,
        ACLNN_ERR_PARAM_NULLPTR,
        "x, weight and y need at least one tensor"
    );
    ensure!(
        x <= 128 && weight <= 128 && output <= 128,
        ACLNN_ERR_PARAM_INVALID,
        "a list has more than 128 tensors"
    );
    let one = split_item >= 2;
    let fits = match split {
        Split::None => x == weight && x == output && !one,
        Split::Rows => output == 1 && one && (x == 1 || x == weight),
        Split::Depth => {
            x == 1
                && if one {
                    weight == 1 && output == 1
                } else {
                    weight == output
                }
        }
    };
    ensure!(
        fits,
        ACLNN_ERR_PARAM_INVALID,
        "{x} x, {weight} weights and {output} results with splitItem {split_item} are no documented combination"
    );
    match split {
        Split::None => ensure!(
            roles.list.is_none(),
            ACLNN_ERR_PARAM_INVALID,
            "groupType -1 takes no groupList"
        ),
        // Several x are groups by themselves.
        _ => ensure!(
            roles.list.is_some() || x > 1,
            ACLNN_ERR_PARAM_NULLPTR,
            "groupList is needed to split one x"
        ),
    }
    Ok(())
}

fn check_tensors(roles: &Roles<'_>, split: Split) -> Outcome<()> {
    let dtype = roles.x[0].dtype;
    let all = [
        ("x", roles.x),
        ("weight", roles.weight),
        ("y", roles.output),
    ];
    for (name, tensor) in all
        .iter()
        .flat_map(|(name, list)| list.iter().map(move |one| (name, one)))
    {
        check_dtype(name, tensor, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
        check_dtype(name, tensor, &[dtype])?;
    }
    let of_bias = if dtype == ACL_FLOAT16 {
        ACL_FLOAT16
    } else {
        ACL_FLOAT
    };
    for bias in roles.bias {
        check_dtype("bias", bias, &[of_bias])?;
    }
    if let Some(list) = roles.list {
        check_dtype("groupList", list, &[ACL_INT64])?;
        ensure!(
            list.rank() == 1,
            ACLNN_ERR_PARAM_INVALID,
            "groupList has {} axes; it takes 1",
            list.rank()
        );
        ensure!(
            list.count() <= 1024,
            ACLNN_ERR_PARAM_INVALID,
            "{} groups; at most 1024 are supported",
            list.count()
        );
    }
    for output in roles.output {
        check_contiguous("y", output)?;
    }
    check_layouts("x", roles.x, split == Split::Depth)?;
    let turned = roles.weight[0].is_transposed() && !roles.weight[0].is_contiguous();
    ensure!(
        !(turned && split == Split::Depth),
        ACLNN_ERR_PARAM_INVALID,
        "a transposed weight cannot be split along the summed axis"
    );
    check_layouts("weight", roles.weight, turned)
}

/// All members are contiguous, or all are transposed, which is a view with the last strides swapped.
fn check_layouts(name: &str, tensors: &[Tensor], transposed: bool) -> Outcome<()> {
    for tensor in tensors {
        ensure!(
            (2..=3).contains(&tensor.rank()),
            ACLNN_ERR_PARAM_INVALID,
            "{name} has {} axes",
            tensor.rank()
        );
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
        ensure!(
            fits,
            ACLNN_ERR_PARAM_INVALID,
            "{name} must be {wanted}; its shape is {:?} and its strides {:?}",
            tensor.shape,
            tensor.strides
        );
        let last = tensor.shape[tensor.rank() - if transposed { 2 } else { 1 }];
        ensure!(
            last < 65536,
            ACLNN_ERR_PARAM_INVALID,
            "the last axis of {name} in memory has {last}; less than 65536 is supported"
        );
    }
    Ok(())
}

/// The two axes of a matrix.
fn matrix(name: &str, tensor: &Tensor) -> Outcome<[usize; 2]> {
    match tensor.shape[..] {
        [rows, columns] => Ok([rows, columns]),
        _ => fail!(
            ACLNN_ERR_PARAM_INVALID,
            "{name} has {} axes; it takes 2",
            tensor.rank()
        ),
    }
}

fn check_product(x: [usize; 2], weight: [usize; 2]) -> Outcome<()> {
    ensure!(
        x[1] == weight[0],
        ACLNN_ERR_PARAM_INVALID,
        "x is {x:?} and weight {weight:?}; the axis between them differs"
    );
    Ok(())
}

fn check_each(roles: &Roles<'_>) -> Outcome<()> {
    for ((x, weight), output) in roles.x.iter().zip(roles.weight).zip(roles.output) {
        let (x, weight) = (matrix("x", x)?, matrix("weight", weight)?);
        check_product(x, weight)?;
        check_shape("y", output, &[x[0], weight[1]])?;
    }
    check_bias(roles, roles.weight.len())
}

/// One bias for each weight, or one tensor of a row for each group.
fn check_bias(roles: &Roles<'_>, groups: usize) -> Outcome<()> {
    if roles.bias.is_empty() {
        return Ok(());
    }
    ensure!(
        roles.bias.len() == roles.weight.len(),
        ACLNN_ERR_PARAM_INVALID,
        "{} biases for {} weights",
        roles.bias.len(),
        roles.weight.len()
    );
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

fn check_rows(roles: &Roles<'_>) -> Outcome<()> {
    let mut rows = 0;
    let weight = &roles.weight[0];
    let stacked = weight.rank() == 3;
    let (several, axes) = (roles.weight.len() > 1, if stacked { 3 } else { 2 });
    ensure!(
        stacked != several && roles.weight.iter().all(|weight| weight.rank() == axes),
        ACLNN_ERR_PARAM_INVALID,
        "one weight has three axes, several have two each"
    );
    let groups = if stacked {
        weight.shape[0]
    } else {
        roles.weight.len()
    };
    let columns = weight.shape[weight.rank() - 1];
    for (position, x) in roles.x.iter().enumerate() {
        let x = matrix("x", x)?;
        rows += x[0];
        let own = if roles.x.len() == 1 {
            roles.weight
        } else {
            &roles.weight[position..=position]
        };
        for weight in own {
            let rank = weight.rank();
            check_product(x, [weight.shape[rank - 2], weight.shape[rank - 1]])?;
            ensure!(
                weight.shape[rank - 1] == columns,
                ACLNN_ERR_PARAM_INVALID,
                "the weights have different numbers of columns, but there is one result"
            );
        }
    }
    if let Some(list) = roles.list {
        check_shape("groupList", list, &[groups])?;
    }
    check_shape("y", &roles.output[0], &[rows, columns])?;
    check_bias(roles, groups)
}

fn check_depth(roles: &Roles<'_>) -> Outcome<()> {
    ensure!(
        roles.bias.is_empty(),
        ACLNN_ERR_PARAM_INVALID,
        "groupType 2 takes no bias"
    );
    let x = matrix("x", &roles.x[0])?;
    let groups = roles.list.map_or(0, Tensor::count);
    if roles.output.len() == 1 && roles.output[0].rank() == 3 {
        let weight = matrix("weight", &roles.weight[0])?;
        check_product(x, weight)?;
        return check_shape("y", &roles.output[0], &[groups, x[0], weight[1]]);
    }
    ensure!(
        groups == roles.weight.len(),
        ACLNN_ERR_PARAM_INVALID,
        "{groups} groups of {} weights",
        roles.weight.len()
    );
    let mut depth = 0;
    for (weight, output) in roles.weight.iter().zip(roles.output) {
        let weight = matrix("weight", weight)?;
        depth += weight[0];
        check_shape("y", output, &[x[0], weight[1]])?;
    }
    check_product(x, [depth, 0])
}

/// The groups' ends, which must rise and stay within `length`.
fn group_ends(
    memory: &Memory,
    list: &Tensor,
    as_counts: bool,
    length: usize,
) -> Outcome<Vec<usize>> {
    let ends = ends(&list.integers(memory)?, as_counts);
    let mut before = 0;
    for end in &ends {
        ensure!(
            *end >= before && *end <= length as i64,
            ACLNN_ERR_PARAM_INVALID,
            "groupList is no list of groups of {length}: one ends at {end}, after {before}"
        );
        before = *end;
    }
    Ok(ends.into_iter().map(|end| end as usize).collect())
}

fn add_bias(y: &mut [f32], bias: &[f32]) {
    for row in y.chunks_exact_mut(bias.len().max(1)) {
        row.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
    }
}

fn each(memory: &mut Memory, roles: &Roles<'_>) -> Outcome<()> {
    for (position, (x, weight)) in roles.x.iter().zip(roles.weight).enumerate() {
        let ([rows, depth], columns) = (matrix("x", x)?, weight.shape[1]);
        let mut y = product(
            &x.floats(memory)?,
            &weight.floats(memory)?,
            rows,
            depth,
            columns,
        );
        if let Some(bias) = roles.bias.get(position) {
            add_bias(&mut y, &bias.floats(memory)?);
        }
        roles.output[position].store(memory, &y)?;
    }
    Ok(())
}

/// One group of rows after another. Rows after the last are not written.
fn by_rows(memory: &mut Memory, roles: &Roles<'_>, as_counts: bool) -> Outcome<()> {
    let output = &roles.output[0];
    let (rows, columns) = (output.shape[0], output.shape[1]);
    let depth = roles.x[0].shape[1];
    let mut x = Vec::new();
    let mut own_ends = Vec::new();
    for part in roles.x {
        x.extend(part.floats(memory)?);
        own_ends.push(x.len() / depth.max(1));
    }
    let ends = match roles.list {
        Some(list) => group_ends(memory, list, as_counts, rows)?,
        None => own_ends,
    };
    let weights = floats_of(memory, roles.weight)?;
    let biases = floats_of(memory, roles.bias)?;
    let mut y = Vec::with_capacity(rows * columns);
    let mut start = 0;
    for (group, end) in ends.into_iter().enumerate() {
        let weight = &weights[group * depth * columns..][..depth * columns];
        let mut part = product(
            &x[start * depth..end * depth],
            weight,
            end - start,
            depth,
            columns,
        );
        if !biases.is_empty() {
            add_bias(&mut part, &biases[group * columns..][..columns]);
        }
        y.extend(part);
        start = end;
    }
    let mut written = output.clone();
    written.shape[0] = start;
    written.store(memory, &y)
}

fn floats_of(memory: &Memory, tensors: &[Tensor]) -> Outcome<Vec<f32>> {
    let mut values = Vec::new();
    for tensor in tensors {
        values.extend(tensor.floats(memory)?);
    }
    Ok(values)
}

/// `x[:, group] · w[group, :]` for each group.
fn by_depth(memory: &mut Memory, roles: &Roles<'_>, as_counts: bool) -> Outcome<()> {
    let [rows, depth] = matrix("x", &roles.x[0])?;
    let columns = roles.weight[0].shape[1];
    let Some(list) = roles.list else {
        unreachable!("checked in phase one")
    };
    let ends = group_ends(memory, list, as_counts, depth)?;
    let (x, weights) = (roles.x[0].floats(memory)?, floats_of(memory, roles.weight)?);
    let (mut start, mut all) = (0, Vec::new());
    for end in ends {
        let part: Vec<f32> = x
            .chunks_exact(depth.max(1))
            .flat_map(|row| row[start..end].to_vec())
            .collect();
        let weight = &weights[start * columns..end * columns];
        all.push(product(&part, weight, rows, end - start, columns));
        start = end;
    }
    if roles.output.len() == 1 && roles.output[0].rank() == 3 {
        return roles.output[0].store(memory, &all.concat());
    }
    for (output, values) in roles.output.iter().zip(all) {
        output.store(memory, &values)?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnGroupedMatmulV4GetWorkspaceSize(
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias: *const aclTensorList,
    scale: *const aclTensorList,
    offset: *const aclTensorList,
    antiquant_scale: *const aclTensorList,
    antiquant_offset: *const aclTensorList,
    per_token_scale: *const aclTensorList,
    group_list: *const aclTensor,
    activation_input: *const aclTensorList,
    activation_quant_scale: *const aclTensorList,
    activation_quant_offset: *const aclTensorList,
    split_item: i64,
    group_type: i64,
    group_list_type: i64,
    act_type: i64,
    output: *mut aclTensorList,
    activation_feature: *mut aclTensorList,
    dyn_quant_scale: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let parameters = Parameters {
        x,
        weight,
        bias,
        quantised: [
            ("scale", scale),
            ("offset", offset),
            ("antiquantScale", antiquant_scale),
            ("antiquantOffset", antiquant_offset),
            ("perTokenScale", per_token_scale),
            ("activationInput", activation_input),
            ("activationQuantScale", activation_quant_scale),
            ("activationQuantOffset", activation_quant_offset),
            ("activationFeatureOut", activation_feature),
            ("dynQuantScaleOut", dyn_quant_scale),
        ],
        group_list,
        split_item,
        group_type,
        group_list_type,
        act_type,
        output,
    };
    phase_one(
        "aclnnGroupedMatmulV4",
        workspace_size,
        executor,
        |operands| prepare(&parameters, operands),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnGroupedMatmulV5GetWorkspaceSize(
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias: *const aclTensorList,
    scale: *const aclTensorList,
    offset: *const aclTensorList,
    antiquant_scale: *const aclTensorList,
    antiquant_offset: *const aclTensorList,
    per_token_scale: *const aclTensorList,
    group_list: *const aclTensor,
    activation_input: *const aclTensorList,
    activation_quant_scale: *const aclTensorList,
    activation_quant_offset: *const aclTensorList,
    split_item: i64,
    group_type: i64,
    group_list_type: i64,
    act_type: i64,
    tuning_config: *mut aclIntArray,
    output: *mut aclTensorList,
    activation_feature: *mut aclTensorList,
    dyn_quant_scale: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let parameters = Parameters {
        x,
        weight,
        bias,
        quantised: [
            ("scale", scale),
            ("offset", offset),
            ("antiquantScale", antiquant_scale),
            ("antiquantOffset", antiquant_offset),
            ("perTokenScale", per_token_scale),
            ("activationInput", activation_input),
            ("activationQuantScale", activation_quant_scale),
            ("activationQuantOffset", activation_quant_offset),
            ("activationFeatureOut", activation_feature),
            ("dynQuantScaleOut", dyn_quant_scale),
        ],
        group_list,
        split_item,
        group_type,
        group_list_type,
        act_type,
        output,
    };
    phase_one(
        "aclnnGroupedMatmulV5",
        workspace_size,
        executor,
        |operands| {
            // It tunes speed, which is nothing here; but it must be what it says.
            if !tuning_config.is_null() {
                object::ints(tuning_config as usize)?;
            }
            prepare(&parameters, operands)
        },
    )
}

operators! { grouped_matmul:
    aclnnGroupedMatmulV4GetWorkspaceSize, aclnnGroupedMatmulV4;
    aclnnGroupedMatmulV5GetWorkspaceSize, aclnnGroupedMatmulV5;
}
