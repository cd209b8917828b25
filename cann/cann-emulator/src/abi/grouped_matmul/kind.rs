//! The kinds of products by their dtypes, and the rules of quantised ones on Atlas A2 and A3.

use std::ops::RangeInclusive;

use super::{Groups, Parameters, Roles, Split};
use crate::abi::prelude::*;
use crate::abi::weight_quant::PACKED;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Floats of one dtype.
    Float,
    /// i8 by i8.
    Integers,
    /// Half types by weights of i8, or of four bits, eight in an i32.
    Weights,
    /// i8 less 8 by weights of four bits. The bias of the caller holds the products of the 8.
    Mixed,
}

/// The inputs of [`Kind::Mixed`] that share a scale, and the most inputs.
pub(super) const SHARING: usize = 256;
const MOST_INPUTS: usize = 18432;

impl Kind {
    pub(super) fn of(x: &[Tensor], weight: &[Tensor]) -> Self {
        let dtype = |tensors: &[Tensor]| tensors.first().map(|tensor| tensor.dtype);
        match (dtype(x), dtype(weight)) {
            (Some(ACL_INT8), Some(ACL_INT8)) => Self::Integers,
            (Some(ACL_INT8), Some(ACL_INT32)) => Self::Mixed,
            (Some(ACL_FLOAT16 | ACL_BF16), Some(ACL_INT8 | ACL_INT32)) => Self::Weights,
            _ => Self::Float,
        }
    }

    /// Returns the weights as they are multiplied: packed ones with the shape of their values.
    pub(super) fn unpacked(self, weight: &[Tensor]) -> Outcome<Vec<Tensor>> {
        match self {
            Self::Float | Self::Integers => Ok(weight.to_vec()),
            Self::Weights | Self::Mixed => weight.iter().map(unpacked).collect(),
        }
    }

    /// Returns the types of the list of groups.
    pub(super) fn list_types(self) -> RangeInclusive<i64> {
        match self {
            Self::Float | Self::Weights => 0..=1,
            Self::Integers => 0..=2,
            // CANN takes every list as counts.
            Self::Mixed => 1..=1,
        }
    }

    pub(super) fn check_dtypes(self, roles: &Roles<'_>) -> Outcome<()> {
        let (x, weight) = (roles.x[0].dtype, roles.weight[0].dtype);
        let results: &[aclDataType] = match self {
            Self::Float | Self::Weights => &[x],
            Self::Integers => &[ACL_INT8, ACL_INT32, ACL_FLOAT16, ACL_BF16],
            Self::Mixed => &[ACL_FLOAT16, ACL_BF16],
        };
        if self == Self::Float {
            check_dtype("x", &roles.x[0], &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
            check_dtype("weight", &roles.weight[0], &[x])?;
        }
        let bias = match self {
            Self::Integers => ACL_INT32,
            Self::Float | Self::Weights if x == ACL_FLOAT16 => ACL_FLOAT16,
            _ => ACL_FLOAT,
        };
        for (name, tensors, dtypes) in [
            ("x", roles.x, &[x][..]),
            ("weight", roles.weight, &[weight]),
            ("y", roles.output, results),
            ("y", roles.output, &[roles.output[0].dtype]),
            ("bias", roles.bias, &[bias]),
        ] {
            for tensor in tensors {
                check_dtype(name, tensor, dtypes)?;
            }
        }
        Ok(())
    }

    /// Checks the list of groups, the factors, the chip and the split by the rules of the kind.
    pub(super) fn check(
        self,
        parameters: &Parameters,
        roles: &Roles<'_>,
        split: Split,
    ) -> Outcome<()> {
        check_list(parameters, roles)?;
        if self == Self::Float {
            return check_lists(roles, [false; 4]);
        }
        let config = state::config()?;
        ensure!(config.has_bf16();
            "x is {} and weight {}; quantised products are not emulated for {}",
            name_of(roles.x[0].dtype), name_of(roles.weight[0].dtype), config.soc);
        ensure!(split != Split::Depth; "groupType is 2, which quantised products do not have");
        match self {
            Self::Float => Ok(()),
            Self::Integers => check_integers(parameters, roles, split),
            Self::Weights => check_weights(parameters, roles),
            Self::Mixed => check_mixed(parameters, roles, split),
        }
    }
}

/// Returns the view of the values of a packed weight. The packed axis is the contiguous one.
fn unpacked(weight: &Tensor) -> Outcome<Tensor> {
    if weight.dtype != ACL_INT32 || weight.rank() < 2 {
        return Ok(weight.clone());
    }
    let turned = weight.is_transposed() && !weight.is_contiguous();
    let packed = weight.rank() - if turned { 2 } else { 1 };
    let mut view = weight.clone();
    let too_large = || Failure::new(ACLNN_ERR_PARAM_INVALID, "weight is too large");
    for axis in 0..view.rank() {
        if axis == packed {
            let length = view.shape[axis].checked_mul(PACKED);
            view.shape[axis] = length.ok_or_else(too_large)?;
        } else {
            let stride = view.strides[axis].checked_mul(PACKED as i64);
            view.strides[axis] = stride.ok_or_else(too_large)?;
        }
    }
    Ok(view)
}

/// Checks the axes of the list of groups.
fn check_list(parameters: &Parameters, roles: &Roles<'_>) -> Outcome<()> {
    let Groups::Device(list) = roles.list else {
        return Ok(());
    };
    let pairs = parameters.group_list_type == 2;
    let fits = match list.shape[..] {
        [_] => !pairs,
        [_, 2] => pairs,
        _ => false,
    };
    ensure!(fits;
        "groupList has the shape {:?}; it has one axis, or with groupListType 2 a second one of \
         two", list.shape);
    Ok(())
}

/// Checks that scale, antiquantScale, antiquantOffset and perTokenScale are given as `wanted` says.
fn check_lists(roles: &Roles<'_>, wanted: [bool; 4]) -> Outcome<()> {
    let [scale, offset] = roles.few_bits;
    let lists = [
        ("scale", roles.scale, roles.weight.len()),
        ("antiquantScale", scale, roles.weight.len()),
        ("antiquantOffset", offset, roles.weight.len()),
        ("perTokenScale", roles.token_scale, 1),
    ];
    for ((name, list, count), wanted) in lists.into_iter().zip(wanted) {
        let count = if wanted { count } else { 0 };
        ensure!(list.len() == count;
            "{name} has {} tensors; products of these dtypes have {count}", list.len());
        list.iter()
            .try_for_each(|tensor| check_contiguous(name, tensor))?;
    }
    Ok(())
}

/// Checks a factor of the columns of all weights. Its shape may have one more axis, of parts of the inputs.
fn check_factor(name: &str, roles: &Roles<'_>, factors: &[Tensor], parts: bool) -> Outcome<()> {
    for (weight, factor) in roles.weight.iter().zip(factors) {
        let [before @ .., depth, columns] = &weight.shape[..] else {
            unreachable!("has two axes, as was checked")
        };
        let whole = [before, &[*columns]].concat();
        let fits = factor.shape == whole
            || parts
                && factor.rank() == weight.rank()
                && factor.shape[..before.len()] == *before
                && factor.shape[factor.rank() - 1] == *columns
                && depth.is_multiple_of(factor.shape[factor.rank() - 2].max(1))
                && factor.count() > 0;
        ensure!(fits;
            "{name} has the shape {:?}; {whole:?} is needed{}",
            factor.shape, if parts { ", or an axis more of equal parts of the inputs" } else { "" });
    }
    Ok(())
}

fn check_integers(parameters: &Parameters, roles: &Roles<'_>, split: Split) -> Outcome<()> {
    let version = parameters.version;
    let single = [roles.x, roles.weight, roles.output].map(<[Tensor]>::len) == [1; 3];
    let fits = match version {
        1 | 2 => true,
        3 => split == Split::Rows && roles.x.len() == 1,
        _ => split == Split::Rows && single,
    };
    ensure!(fits;
        "products of i8 by version {version} split the rows of a single x; from version 4 on, \
         weight and y are single tensors too");
    let result = roles.output[0].dtype;
    let scale = match (result, version) {
        (ACL_INT8, _) => Some(ACL_UINT64),
        (ACL_INT32, 1 | 4 | 5) => None,
        (ACL_FLOAT16, 4 | 5) => Some(ACL_FLOAT),
        (ACL_BF16, 4 | 5) => Some(ACL_BF16),
        _ => fail!(
            "y is {}; products of i8 are i8, or i32 in versions 1, 4 and 5, or half types from \
             version 4 on",
            name_of(result)
        ),
    };
    let floats = matches!(result, ACL_FLOAT16 | ACL_BF16);
    let by_token = floats && !roles.token_scale.is_empty();
    check_lists(roles, [scale.is_some(), false, false, by_token])?;
    for (tensor, dtype) in roles.scale.iter().zip(scale) {
        check_dtype("scale", tensor, &[dtype])?;
    }
    check_factor("scale", roles, roles.scale, false)?;
    check_token_scale(roles)?;
    let activation = parameters.act_type;
    ensure!(activation == 0 || floats && matches!(activation, 1 | 2 | 4 | 5);
        "actType is {activation}; 0 means none, and floats have 1, 2, 4 and 5 too");
    Ok(())
}

fn check_weights(parameters: &Parameters, roles: &Roles<'_>) -> Outcome<()> {
    let dtype = roles.x[0].dtype;
    let packed = roles.weight[0].dtype == ACL_INT32;
    ensure!(!packed || parameters.version >= 4;
        "weight is i32, which holds four bits from version 4 on");
    check_lists(roles, [false, true, true, false])?;
    let [scale, offset] = roles.few_bits;
    for (name, factors) in [("antiquantScale", scale), ("antiquantOffset", offset)] {
        for factor in factors {
            check_dtype(name, factor, &[dtype])?;
        }
        check_factor(name, roles, factors, packed)?;
    }
    // The inputs of a part, which all weights must agree in. Without parts they are all inputs of each.
    let parts = |(weight, factor): (&Tensor, &Tensor)| {
        let rank = weight.rank();
        (factor.rank() == rank).then(|| weight.shape[rank - 2] / factor.shape[rank - 2])
    };
    let of_scale: Vec<_> = roles.weight.iter().zip(scale).map(parts).collect();
    let of_offset: Vec<_> = roles.weight.iter().zip(offset).map(parts).collect();
    let turned = !roles.weight[0].is_contiguous();
    ensure!(
        of_scale == of_offset
            && of_scale.iter().all(|part| *part == of_scale[0])
            && (!turned || of_scale[0].is_none_or(|part| part % 2 == 0));
        "parts of {of_scale:?} inputs in antiquantScale and {of_offset:?} in antiquantOffset; all \
         are equal, and even if weight is transposed"
    );
    Ok(())
}

fn check_mixed(parameters: &Parameters, roles: &Roles<'_>, split: Split) -> Outcome<()> {
    let single = [roles.x, roles.weight, roles.output].map(<[Tensor]>::len) == [1; 3];
    ensure!(
        parameters.version >= 4
            && split == Split::Rows
            && single
            && roles.weight[0].is_contiguous()
            && roles.bias.len() == 1;
        "weights of four bits with x of i8 split the rows of single tensors, are not transposed \
         and have a bias, from version 4 on"
    );
    check_lists(roles, [true, false, false, true])?;
    check_dtype("scale", &roles.scale[0], &[ACL_UINT64])?;
    check_token_scale(roles)?;
    let [groups, depth, columns] = roles.weight[0].shape[..] else {
        fail!("weight has {} axes; it takes three", roles.weight[0].rank())
    };
    ensure!(
        depth.is_multiple_of(SHARING)
            && depth <= MOST_INPUTS
            && columns.is_multiple_of(8)
            && roles.scale[0].shape == [groups, depth / SHARING, columns];
        "weight has {depth} inputs and {columns} columns, and scale the shape {:?}; inputs are \
         multiples of {SHARING} up to {MOST_INPUTS} with a scale for each {SHARING}, and columns \
         multiples of 8", roles.scale[0].shape
    );
    Ok(())
}

fn check_token_scale(roles: &Roles<'_>) -> Outcome<()> {
    for scale in roles.token_scale {
        check_dtype("perTokenScale", scale, &[ACL_FLOAT])?;
        ensure!(scale.shape == roles.x[0].shape[..1];
            "perTokenScale has the shape {:?}; one value for each row of x, {:?}, is needed",
            scale.shape, roles.x[0].shape);
    }
    Ok(())
}
