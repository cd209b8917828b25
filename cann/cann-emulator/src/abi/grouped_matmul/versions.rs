//! The exported versions.

use std::ptr::null;

use super::{GroupType, Listed, Parameters, prepare};
use crate::abi::prelude::*;

/// Exports version 4 or 5, which has settings of speed.
macro_rules! version {
    ($one:ident, $two:ident, $version:literal $(, $tuning:ident)?) => {
        operator! { grouped_matmul: $one, $two(
            x, weight, bias, scale, offset, few_scale, few_offset, token_scale, list,
            activation_input, activation_scale, activation_offset, split_item, group_type,
            group_list_type, act_type, $($tuning,)? output, activation_feature, dynamic_scale
        ) |operands|
            let tuning: &[*mut aclIntArray] = &[$($tuning)?];
            let parameters = Parameters {
                x, weight, bias, scale, token_scale, split_item, group_list_type, act_type, output,
                few_bits: [few_scale, few_offset],
                absent: vec![
                    ("offset", offset),
                    ("activationInput", activation_input),
                    ("activationQuantScale", activation_scale),
                    ("activationQuantOffset", activation_offset),
                    ("activationFeatureOut", activation_feature),
                    ("dynQuantScaleOut", dynamic_scale),
                ],
                version: $version,
                tuning: tuning.first().map_or(null(), |tuning| tuning.cast_const()),
                group_list: Listed::Device(list),
                group_type: GroupType::Given(group_type),
            };
            prepare(&parameters, operands)
        }
    };
}

version! { aclnnGroupedMatmulV4GetWorkspaceSize, aclnnGroupedMatmulV4, 4 }
version! { aclnnGroupedMatmulV5GetWorkspaceSize, aclnnGroupedMatmulV5, 5, tuning }

/// Exports one of the first three versions. Their lists are ends of groups, the second and third say what is split.
macro_rules! early {
    ($one:ident, $two:ident, $version:literal, $list:ident $(, $group_type:ident)?) => {
        operator! { grouped_matmul: $one, $two(
            x, weight, bias, scale, offset, few_scale, few_offset, list, split_item,
            $($group_type,)? output
        ) |operands|
            let group_type = [$(GroupType::Given($group_type))?];
            let parameters = Parameters {
                x, weight, bias, scale, split_item, output,
                few_bits: [few_scale, few_offset],
                token_scale: null(),
                absent: vec![("offset", offset)],
                version: $version,
                tuning: null(),
                group_list: Listed::$list(list),
                group_type: group_type.first().copied().unwrap_or(GroupType::Implied),
                group_list_type: 0,
                act_type: 0,
            };
            prepare(&parameters, operands)
        }
    };
}

early! { aclnnGroupedMatmulGetWorkspaceSize, aclnnGroupedMatmul, 1, Host }
early! { aclnnGroupedMatmulV2GetWorkspaceSize, aclnnGroupedMatmulV2, 2, Host, group_type }
early! { aclnnGroupedMatmulV3GetWorkspaceSize, aclnnGroupedMatmulV3, 3, Device, group_type }
