//! The exported versions.

use std::ptr::null;

use cann_sys::meta::*;

use super::{GroupType, Listed, Parameters, prepare};
use crate::abi::operators;
use crate::executor::phase_one;

/// Exports version 4 or 5, which has settings of speed.
macro_rules! version {
    ($one:ident, $two:ident, $version:literal $(, $tuning:ident)?) => {
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
            let tuning: &[*mut aclIntArray] = &[$($tuning)?];
            let parameters = Parameters {
                x,
                weight,
                bias,
                scale,
                few_bits: [antiquant_scale, antiquant_offset],
                token_scale: per_token_scale,
                absent: vec![
                    ("offset", offset),
                    ("activationInput", activation_input),
                    ("activationQuantScale", activation_quant_scale),
                    ("activationQuantOffset", activation_quant_offset),
                    ("activationFeatureOut", activation_feature),
                    ("dynQuantScaleOut", dyn_quant_scale),
                ],
                version: $version,
                tuning: tuning.first().map_or(null(), |tuning| tuning.cast_const()),
                group_list: Listed::Device(group_list),
                split_item,
                group_type: GroupType::Given(group_type),
                group_list_type,
                act_type,
                output,
            };
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                prepare(&parameters, operands)
            })
        }
        operators! { grouped_matmul: $one, $two; }
    };
}

version!(
    aclnnGroupedMatmulV4GetWorkspaceSize,
    aclnnGroupedMatmulV4,
    4
);
version!(
    aclnnGroupedMatmulV5GetWorkspaceSize,
    aclnnGroupedMatmulV5,
    5,
    tuning_config
);

/// Exports one of the first three versions. Their lists are ends of groups, the second and third say what is split.
macro_rules! early {
    ($one:ident, $two:ident, $version:literal, $list:ident: $type:ty $(, $group_type:ident)?) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            x: *const aclTensorList,
            weight: *const aclTensorList,
            bias: *const aclTensorList,
            scale: *const aclTensorList,
            offset: *const aclTensorList,
            antiquant_scale: *const aclTensorList,
            antiquant_offset: *const aclTensorList,
            group_list: *const $type,
            split_item: i64,
            $($group_type: i64,)?
            output: *const aclTensorList,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            let group_type = [$(GroupType::Given($group_type))?];
            let parameters = Parameters {
                x,
                weight,
                bias,
                scale,
                few_bits: [antiquant_scale, antiquant_offset],
                token_scale: null(),
                absent: vec![("offset", offset)],
                version: $version,
                tuning: null(),
                group_list: Listed::$list(group_list),
                split_item,
                group_type: group_type.first().copied().unwrap_or(GroupType::Implied),
                group_list_type: 0,
                act_type: 0,
                output,
            };
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                prepare(&parameters, operands)
            })
        }
        operators! { grouped_matmul: $one, $two; }
    };
}

early!(aclnnGroupedMatmulGetWorkspaceSize, aclnnGroupedMatmul, 1, Host: aclIntArray);
early!(aclnnGroupedMatmulV2GetWorkspaceSize, aclnnGroupedMatmulV2, 2, Host: aclIntArray, group_type);
early!(aclnnGroupedMatmulV3GetWorkspaceSize, aclnnGroupedMatmulV3, 3, Device: aclTensor, group_type);
