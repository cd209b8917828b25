//! The choice of experts by their scores, with a bias and within groups.

use super::FLOATS;
use crate::abi::prelude::*;
use crate::ops::moe::Gating;

/// The largest number of experts, also if each group is rounded up to 32.
const EXPERTS: i64 = 2048;

/// The integers among the attributes, in the order of the signature.
struct Attributes {
    k: i64,
    k_group: i64,
    group_count: i64,
    group_select_mode: i64,
    renorm: i64,
    norm_type: i64,
}

impl Attributes {
    /// Checks the attributes for this number of experts.
    fn gating(&self, experts: usize, scale: f64, eps: f64) -> Outcome<Gating> {
        let (groups, chosen) = (self.group_count, self.k_group);
        let experts = experts as i64;
        ensure!(
            groups >= 1 && experts % groups == 0 && (1..=groups).contains(&chosen),
            ACLNN_ERR_INNER_TILING_ERROR;
            "kGroup is {chosen} of groupCount {groups} of {experts} experts, which must be equal \
             groups"
        );
        for (name, value) in [
            ("groupSelectMode", self.group_select_mode),
            ("renorm", self.renorm),
            ("normType", self.norm_type),
        ] {
            ensure!(value == 0 || value == 1, ACLNN_ERR_INNER_TILING_ERROR;
                "{name} is {value}; it is 0 or 1");
        }
        let size = experts / groups;
        ensure!(
            size > self.group_select_mode && (size + 31) / 32 * 32 * groups <= EXPERTS,
            ACLNN_ERR_INNER_TILING_ERROR;
            "groups of {size} experts are too small, or {groups} of them too many"
        );
        ensure!((1..=size * chosen).contains(&self.k), ACLNN_ERR_INNER_TILING_ERROR;
            "k is {}; the chosen groups have {} experts", self.k, size * chosen);
        Ok(Gating {
            experts: experts as usize,
            k: self.k as usize,
            groups: groups as usize,
            chosen_groups: chosen as usize,
            by_two: self.group_select_mode == 1,
            sigmoid: self.norm_type == 1,
            renormalise: self.norm_type == 1 || self.renorm == 1,
            scale: scale as f32,
            eps: eps as f32,
        })
    }
}

/// Checks the inputs. Returns the number of experts.
fn check_inputs(x: &Tensor, bias: Option<&Tensor>) -> Outcome<usize> {
    check_dtype("x", x, &FLOATS)?;
    ensure!(x.rank() == 2 && x.count() > 0, ACLNN_ERR_INNER_TILING_ERROR;
        "x is {:?}; it takes two axes, and no empty ones", x.shape);
    let experts = x.shape[1];
    ensure!(experts as i64 <= EXPERTS, ACLNN_ERR_INNER_TILING_ERROR;
        "there are {experts} experts; it takes {EXPERTS}");
    if let Some(bias) = bias {
        check_dtype("bias", bias, &[x.dtype])?;
        check_shape("bias", bias, &[experts])?;
    }
    Ok(experts)
}

operator! { moe: aclnnMoeGatingTopKGetWorkspaceSize, aclnnMoeGatingTopK(
    x, bias, k, k_group, group_count, group_select_mode, renorm, norm_type, out_flag,
    routed_scaling_factor, eps, y, expert_idx, out
) |operands|
    let x = operands.input("x", x)?;
    let bias = operands.optional("bias", bias)?;
    let y = operands.output("y", y)?;
    let places = operands.output("expertIdx", expert_idx)?;
    // CANN does not document that it may be null without the flag.
    let out = operands.output("out", out)?;
    let experts = check_inputs(&x, bias.as_ref())?;
    let attributes = Attributes { k, k_group, group_count, group_select_mode, renorm, norm_type };
    let gating = attributes.gating(experts, routed_scaling_factor, eps)?;
    let shape = [x.shape[0], gating.k];
    check_dtype("y", &y, &[x.dtype])?;
    check_shape("y", &y, &shape)?;
    check_dtype("expertIdx", &places, &[ACL_INT32])?;
    check_shape("expertIdx", &places, &shape)?;
    check_dtype("out", &out, &[ACL_FLOAT])?;
    check_shape("out", &out, &x.shape)?;
    Ok(Arc::new(move |memory, operands| {
        let (x, rest) = (&operands[0], &operands[1..]);
        let (bias, outputs) = rest.split_at(rest.len() - 3);
        let bias = bias.first().map(|bias| bias.floats(memory)).transpose()?;
        let (weights, found, scores) = gating.route(&x.floats(memory)?, bias.as_deref());
        outputs[0].store(memory, &weights)?;
        outputs[1].store_integers(memory, &found)?;
        match out_flag {
            true => outputs[2].store(memory, &scores),
            false => Ok(()),
        }
    }))
}
