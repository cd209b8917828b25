//! Matrix products by group, of floats, of i8, and with weights of few bits.
//!
//! Quantised products have the rules of Atlas A2 and A3 for every chip that has bf16 (`kind`). Sums of i8 are exact,
//! are scaled in f32 (`integers`), and are rounded to the dtype of y at the end. CANN does not say where it rounds
//! weights of few bits; here they are scaled in f32 and rounded to the dtype of x (`weights`). The documents name i32
//! of eight values only with x of i8; it is taken with half types too. Newer documents take pairs of a group and a
//! count for every dtype and several weights of four bits with x of i8, and older ones do not; both are refused.
//! Tensors of ACL_INT4, the format FRACTAL_NZ and offsets of products with x of i8 are not emulated.
//!
//! Versions 1 and 2 have the ends of groups on the host, the others on the device. Version 1 takes no f32, finds the split
//! in the numbers of tensors, and can write the groups of one x to several results.

mod add;
mod check;
mod first;
mod integers;
mod kind;
mod product;
mod versions;
mod weights;

pub use self::add::*;
pub use self::versions::*;

use std::ptr::null;
use std::sync::PoisonError;

use self::check::{
    check_apart, check_depth, check_each, check_lists, check_parameters, check_rows, check_tensors,
};
use self::first::check_first;
use self::kind::Kind;
use self::product::{apart, by_depth, by_rows, each};
use crate::abi::prelude::*;
use crate::object;

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

/// The parameters of all versions.
struct Parameters {
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias: *const aclTensorList,
    scale: *const aclTensorList,
    /// The scales and the offsets of weights of few bits.
    few_bits: [*const aclTensorList; 2],
    token_scale: *const aclTensorList,
    /// The parameters that must be absent.
    absent: Vec<(&'static str, *const aclTensorList)>,
    /// The number of the version. From 4 on, products of i8 have scales of tokens and activations, and weights may have four
    /// bits.
    version: u8,
    /// The settings of speed, or NULL.
    tuning: *const aclIntArray,
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
            Self::Device(list) => Some(list.shape.first().copied().unwrap_or(1)),
            Self::Host(ends) => Some(ends.len()),
        }
    }
}

/// The operands by their role, made in phase one and again in phase two.
struct Roles<'a> {
    x: &'a [Tensor],
    /// Weights of packed values have the shape of the values.
    weight: &'a [Tensor],
    bias: &'a [Tensor],
    scale: &'a [Tensor],
    few_bits: [&'a [Tensor]; 2],
    token_scale: &'a [Tensor],
    list: Groups<'a>,
    output: &'a [Tensor],
    kind: Kind,
}

/// Returns the two axes of a matrix.
fn matrix(name: &str, tensor: &Tensor) -> Outcome<[usize; 2]> {
    match tensor.shape[..] {
        [rows, columns] => Ok([rows, columns]),
        _ => fail!("{name} has {} axes; it takes 2", tensor.rank()),
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

/// Takes an optional list. An absent one is empty.
fn optional(
    operands: &mut Operands,
    name: &str,
    list: *const aclTensorList,
) -> Outcome<Vec<Tensor>> {
    let list = if is_absent(list)? { null() } else { list };
    operands.list(name, list, false)
}

fn check_absent(parameters: &Parameters) -> Outcome<()> {
    for (name, list) in &parameters.absent {
        ensure!(is_absent(*list)?;
            "{name} is given, which no emulated product has; NULL or an empty list is needed");
    }
    Ok(())
}

/// Checks the settings of speed: the rows that are expected for a group, another layout of weights, and the size of the
/// workspace. They change no result, but for the layout, which has the format FRACTAL_NZ.
fn check_tuning(parameters: &Parameters, operands: &Operands, x: &[Tensor]) -> Outcome<()> {
    if parameters.tuning.is_null() {
        return Ok(());
    }
    let tuning = operands.ints("tuningConfig", parameters.tuning)?;
    let rows = x
        .iter()
        .map(|x| x.shape.iter().rev().skip(1).product::<usize>());
    let [expected, layout, workspace] = [0, 1, 2].map(|at| tuning.get(at).copied().unwrap_or(0));
    ensure!(
        tuning.len() <= 3
            && (0..=rows.sum::<usize>() as i64).contains(&expected)
            && layout == 0
            && workspace >= -1;
        "tuningConfig is {tuning:?}; it has up to three values: 0 up to the rows of x, 0 because \
         weights of FRACTAL_NZ are not emulated, and -1 or more"
    );
    Ok(())
}

/// The operands of a call, list by list.
struct Taken {
    lists: [Vec<Tensor>; 7],
    list: Option<Tensor>,
    host: Option<Arc<[i64]>>,
    output: Vec<Tensor>,
}

impl Taken {
    fn of(parameters: &Parameters, operands: &mut Operands) -> Outcome<Self> {
        let [scale, offset] = parameters.few_bits;
        let lists = [
            operands.list("x", parameters.x, false)?,
            operands.list("weight", parameters.weight, false)?,
            optional(operands, "bias", parameters.bias)?,
            optional(operands, "scale", parameters.scale)?,
            optional(operands, "antiquantScale", scale)?,
            optional(operands, "antiquantOffset", offset)?,
            optional(operands, "perTokenScale", parameters.token_scale)?,
        ];
        let (mut list, mut host) = (None, None);
        match parameters.group_list {
            Listed::Device(given) => list = operands.optional("groupList", given)?,
            Listed::Host(given) if given.is_null() => {}
            // Without values it counts as NULL.
            Listed::Host(given) => {
                host = Some(operands.ints("groupList", given)?).filter(|ends| !ends.is_empty())
            }
        }
        Ok(Self {
            lists,
            list,
            host,
            output: operands.list("y", parameters.output, true)?,
        })
    }
}

fn prepare(parameters: &Parameters, operands: &mut Operands) -> Outcome<Work> {
    check_absent(parameters)?;
    let taken = Taken::of(parameters, operands)?;
    check_tuning(parameters, operands, &taken.lists[0])?;
    let kind = Kind::of(&taken.lists[0], &taken.lists[1]);
    let counts = taken.lists.each_ref().map(Vec::len);
    let has_list = taken.list.is_some();
    let [x, weight, bias, scale, few_scale, few_offset, token_scale] = &taken.lists;
    let roles = Roles {
        x,
        weight: &kind.unpacked(weight)?,
        bias,
        scale,
        few_bits: [few_scale, few_offset],
        token_scale,
        list: groups(taken.list.as_ref(), taken.host.as_deref()),
        output: &taken.output,
        kind,
    };
    let split = check(parameters, &roles)?;
    let (host, list_type) = (taken.host, parameters.group_list_type);
    let activation = parameters.act_type;
    Ok(Arc::new(move |memory, operands| {
        let mut rest = operands;
        let mut next = |count: usize| {
            let (own, others) = rest.split_at(count);
            rest = others;
            own
        };
        let [x, weight, bias, scale, few_scale, few_offset, token_scale] = counts.map(&mut next);
        let (list, output) = (next(usize::from(has_list)), rest);
        let roles = Roles {
            x,
            weight: &kind.unpacked(weight)?,
            bias,
            scale,
            few_bits: [few_scale, few_offset],
            token_scale,
            list: groups(list.first(), host.as_deref()),
            output,
            kind,
        };
        match (kind, split) {
            (Kind::Integers | Kind::Mixed, _) => {
                integers::run(memory, &roles, split, list_type, activation)
            }
            (_, Split::None) => each(memory, &roles),
            (_, Split::Rows) => by_rows(memory, &roles, list_type == 1),
            (_, Split::Apart) => apart(memory, &roles),
            (_, Split::Depth) => by_depth(memory, &roles, list_type == 1),
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
            let split = check_parameters(parameters, group_type, roles.kind)?;
            check_lists(roles, split, parameters.split_item)?;
            split
        }
    };
    check_tensors(roles, split)?;
    roles.kind.check(parameters, roles, split)?;
    match split {
        Split::None => check_each(roles)?,
        Split::Rows => check_rows(roles)?,
        Split::Apart => check_apart(roles)?,
        Split::Depth => check_depth(roles)?,
    }
    Ok(split)
}
