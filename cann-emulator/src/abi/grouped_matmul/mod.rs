//! Matrix products by group, of float dtypes. Quantised products are refused.
//!
//! Versions 1 and 2 have the ends of groups on the host, the others on the device. Version 1 takes no f32, finds the split
//! in the numbers of tensors, and can write the groups of one x to several results.

mod add;
mod check;
mod first;
mod product;
mod versions;

pub use self::add::*;
pub use self::versions::*;

use std::sync::{Arc, PoisonError};

use cann_sys::meta::*;

use self::check::{
    check_apart, check_depth, check_each, check_lists, check_parameters, check_rows, check_tensors,
};
use self::first::check_first;
use self::product::{apart, by_depth, by_rows, each};
use crate::error::{Outcome, ensure, fail};
use crate::executor::{Operands, Work};
use crate::object;
use crate::tensor::Tensor;

/// The list of groups, where a version has it.
#[derive(Clone, Copy)]
enum Listed {
    Device(*const aclTensor),
    Host(*const aclIntArray),
}

/// The axis that is split, as a version says it.
#[derive(Clone, Copy)]
enum GroupType {
    /// It follows from the numbers of tensors.
    Implied,
    Given(i64),
}

/// The parameters of all versions. V5 has one more, which has no effect here.
struct Parameters {
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias: *const aclTensorList,
    /// The parameters that only quantised products have.
    quantised: Vec<(&'static str, *const aclTensorList)>,
    group_list: Listed,
    split_item: i64,
    group_type: GroupType,
    group_list_type: i64,
    act_type: i64,
    output: *const aclTensorList,
}

/// The axis that is split into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    /// None: each x has its own weight and its own result.
    None,
    /// The rows of x: tokens by expert.
    Rows,
    /// The rows of x, with a result for each group.
    Apart,
    /// The axis that is summed over: the gradient of the weights.
    Depth,
}

/// The list of groups.
#[derive(Clone, Copy)]
enum Groups<'a> {
    Absent,
    Device(&'a Tensor),
    Host(&'a [i64]),
}

impl Groups<'_> {
    /// Returns the number of groups, if there is a list.
    fn count(&self) -> Option<usize> {
        match self {
            Self::Absent => None,
            Self::Device(list) => Some(list.count()),
            Self::Host(ends) => Some(ends.len()),
        }
    }
}

/// The operands by their role, made in phase one and again in phase two.
struct Roles<'a> {
    x: &'a [Tensor],
    weight: &'a [Tensor],
    bias: &'a [Tensor],
    list: Groups<'a>,
    output: &'a [Tensor],
}

/// Returns the two axes of a matrix.
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

/// Returns `true` if an optional list counts as absent: NULL, without tensors, or with one tensor of one axis without
/// elements.
fn is_absent(list: *const aclTensorList) -> Outcome<bool> {
    if list.is_null() {
        return Ok(true);
    }
    Ok(match object::tensor_list(list as usize)?[..] {
        [] => true,
        [only] => {
            let tensor = object::tensor(only)?;
            let tensor = tensor.lock().unwrap_or_else(PoisonError::into_inner);
            tensor.shape == [0]
        }
        _ => false,
    })
}

fn refuse_quantised(parameters: &Parameters) -> Outcome<()> {
    for (name, list) in &parameters.quantised {
        ensure!(
            is_absent(*list)?,
            ACLNN_ERR_PARAM_INVALID,
            "{name} is given, but quantised products are not emulated; NULL or an empty list is needed"
        );
    }
    Ok(())
}

fn prepare(parameters: &Parameters, operands: &mut Operands) -> Outcome<Work> {
    refuse_quantised(parameters)?;
    let x = operands.list("x", parameters.x, false)?;
    let weight = operands.list("weight", parameters.weight, false)?;
    let bias = match is_absent(parameters.bias)? {
        true => operands.list("bias", std::ptr::null(), false)?,
        false => operands.list("bias", parameters.bias, false)?,
    };
    let (mut list, mut host) = (None, None);
    match parameters.group_list {
        Listed::Device(given) => list = operands.optional("groupList", given)?,
        Listed::Host(given) if given.is_null() => {}
        // Without values it counts as NULL.
        Listed::Host(given) => {
            host = Some(operands.ints("groupList", given)?).filter(|ends| !ends.is_empty())
        }
    }
    let output = operands.list("y", parameters.output, true)?;
    for (name, tensors) in [("x", &x), ("weight", &weight)] {
        ensure!(
            tensors.iter().all(|tensor| tensor.dtype != ACL_INT8),
            ACLNN_ERR_PARAM_INVALID,
            "{name} is i8, but quantised products are not emulated; f16, bf16 and f32 are"
        );
    }
    let roles = Roles {
        x: &x,
        weight: &weight,
        bias: &bias,
        list: groups(list.as_ref(), host.as_deref()),
        output: &output,
    };
    let split = check(parameters, &roles)?;
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
            list: groups(list.first(), host.as_deref()),
            output,
        };
        match split {
            Split::None => each(memory, &roles),
            Split::Rows => by_rows(memory, &roles, as_counts),
            Split::Apart => apart(memory, &roles),
            Split::Depth => by_depth(memory, &roles, as_counts),
        }
    }))
}

fn groups<'a>(device: Option<&'a Tensor>, host: Option<&'a [i64]>) -> Groups<'a> {
    match (device, host) {
        (Some(list), _) => Groups::Device(list),
        (None, Some(ends)) => Groups::Host(ends),
        (None, None) => Groups::Absent,
    }
}

/// Checks the operands by the rules of the version. Returns the split.
fn check(parameters: &Parameters, roles: &Roles<'_>) -> Outcome<Split> {
    let split = match parameters.group_type {
        GroupType::Implied => check_first(roles, parameters.split_item)?,
        GroupType::Given(group_type) => {
            let split = check_parameters(parameters, group_type)?;
            check_lists(roles, split, parameters.split_item)?;
            split
        }
    };
    check_tensors(roles, split)?;
    match split {
        Split::None => check_each(roles)?,
        Split::Rows => check_rows(roles)?,
        Split::Apart => check_apart(roles)?,
        Split::Depth => check_depth(roles)?,
    }
    Ok(split)
}
