//! Matrix products by group, V4 and V5, of float dtypes. Quantised products are refused.

mod check;
mod product;

use std::sync::Arc;

use cann_sys::meta::*;

use self::check::{
    check_depth, check_each, check_lists, check_parameters, check_rows, check_tensors,
};
use self::product::{by_depth, by_rows, each};
use crate::abi::operators;
use crate::error::{Outcome, ensure, fail};
use crate::executor::{Operands, Work, phase_one};
use crate::object;
use crate::tensor::Tensor;

/// The parameters of V4. V5 has one more, which has no effect here.
struct Parameters {
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias: *const aclTensorList,
    /// The parameters that only quantised products have.
    quantised: [(&'static str, *const aclTensorList); 10],
    group_list: *const aclTensor,
    split_item: i64,
    group_type: i64,
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
    /// The axis that is summed over: the gradient of the weights.
    Depth,
}

/// The operands by their role, made in phase one and again in phase two.
struct Roles<'a> {
    x: &'a [Tensor],
    weight: &'a [Tensor],
    bias: &'a [Tensor],
    list: Option<&'a Tensor>,
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

fn refuse_quantised(parameters: &Parameters) -> Outcome<()> {
    for (name, list) in &parameters.quantised {
        ensure!(
            list.is_null(),
            ACLNN_ERR_PARAM_INVALID,
            "{name} is given, but quantised products are not emulated; NULL is needed"
        );
    }
    Ok(())
}

fn prepare(parameters: &Parameters, operands: &mut Operands) -> Outcome<Work> {
    refuse_quantised(parameters)?;
    let x = operands.list("x", parameters.x, false)?;
    let weight = operands.list("weight", parameters.weight, false)?;
    let bias = operands.list("bias", parameters.bias, false)?;
    let list = operands.optional("groupList", parameters.group_list)?;
    let output = operands.list("y", parameters.output, true)?;
    for (name, tensors) in [("x", &x), ("weight", &weight)] {
        ensure!(
            tensors.iter().all(|tensor| tensor.dtype != ACL_INT8),
            ACLNN_ERR_PARAM_INVALID,
            "{name} is i8, but quantised products are not emulated; f16, bf16 and f32 are"
        );
    }
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

/// Exports a version. V5 has tuning settings, which have no effect here but are checked.
macro_rules! version {
    ($one:ident, $two:ident $(, $tuning:ident)?) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
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
            $($tuning: *mut aclIntArray,)?
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
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                $(if !$tuning.is_null() {
                    object::ints($tuning as usize)?;
                })?
                prepare(&parameters, operands)
            })
        }
        operators! { grouped_matmul: $one, $two; }
    };
}

version!(aclnnGroupedMatmulV4GetWorkspaceSize, aclnnGroupedMatmulV4);
version!(
    aclnnGroupedMatmulV5GetWorkspaceSize,
    aclnnGroupedMatmulV5,
    tuning_config
);
