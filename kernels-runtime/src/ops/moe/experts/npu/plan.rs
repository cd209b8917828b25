//! The operators that compute experts.

use super::super::operands::{BIASES, DOWN};
use crate::mode::Mode;
use crate::npu::refused::one_float;
use crate::npu::{Refused, Seen, Specified};
use crate::ops::glu::{self, Projected};
use crate::ops::moe::experts::{Operands, Settings};
use crate::ops::moe::grouped_matmul::npu::{Over, limits, sizes};
use crate::ops::moe::permute::Sort;
use crate::ops::moe::permute::npu::decide_sort;
use crate::ops::operands::array;
use crate::reason::Reason;
use crate::semantics::{GluKey, MoeExpertsKey, Projections};
use burn::tensor::IntDType;
use burn_cann::ops::grouped_matmul::check_grad;
use burn_cann::ops::moe::{check_permute, check_permute_grad, check_unpermute};
use burn_cann::{DType, Platform, Spec};

/// The arguments of the operators besides the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The gated unit of packed rows, which are all that the backward pass keeps.
    pub unit: GluKey,
    /// True if gate and up are two products.
    pub separate: bool,
    /// The number of experts.
    pub experts: usize,
    /// The width of an expert.
    pub width: usize,
}

/// Returns the key of the gated unit of packed rows, or an error if no operators compute experts of this key.
pub(crate) fn unit_of_key(key: MoeExpertsKey) -> Result<GluKey, Refused> {
    let mut unit = key.unit();
    if unit.projections == Projections::Separate {
        unit.projections = Projections::Chunked;
    }
    glu::npu::of_key(unit).map(|_| unit)
}

/// Returns the operators over rows that compute a key.
pub(crate) fn operators(
    key: MoeExpertsKey,
    is_half: bool,
    mode: Mode,
) -> Result<Vec<&'static str>, Refused> {
    let packed = glu::npu::of_key(unit_of_key(key)?)?;
    let is_separate = key.projections == Projections::Separate;
    let product = "aclnnGroupedMatmulV5";
    let mut operators = vec!["aclnnMoeTokenPermute", product];
    let unit = match (is_separate, mode) {
        (false, _) => packed,
        (true, Mode::Inference) => {
            operators.push(product);
            glu::npu::of_key(key.unit())?
        }
        (true, Mode::Training) => {
            operators.extend([product, "aclnnCat"]);
            packed
        }
    };
    operators.extend(unit.forward(is_half));
    operators.extend([product, "aclnnMoeTokenUnpermute"]);
    Ok(operators)
}

/// Returns the arguments with which the operators compute these operands.
///
/// # Errors
/// Returns the reason if no operators compute them.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>, Seen<T>>,
) -> Result<Plan, Refused> {
    let key = operands.settings().key;
    let unit = unit_of_key(key)?;
    let (x, routing) = (operands.x().spec(), operands.routing().spec());
    let weights = operands.weights().iter().flatten();
    let dtype = one_float(("x", x), weights.map(|weight| ("a weight", weight.spec())))?;
    if one_float(("routing", routing), [])? != dtype && routing.dtype != DType::F32 {
        let why = format!(
            "the routing weights are of type {}, x of {dtype}",
            routing.dtype
        );
        return Err(Refused::new(Reason::MixedDtypes, why));
    }
    let [experts, width, _] = sizes(&operands.weights()[DOWN], key.layout);
    let plan = Plan {
        unit,
        separate: key.projections == Projections::Separate,
        experts,
        width,
    };
    plan.check(platform, operands)?;
    Ok(plan)
}

impl Plan {
    /// Checks CANN's limits, forward and backward.
    fn check<T: Specified>(
        &self,
        platform: &Platform,
        operands: &Operands<Seen<T>, Seen<T>>,
    ) -> Result<(), Refused> {
        let (x, indices) = (operands.x().spec(), operands.indices().spec());
        let (dtype, hidden) = (x.dtype, x.shape()[1]);
        let layout = operands.settings().key.layout;
        let [tokens, k] = array(indices.shape().iter().copied());
        let rows = (tokens * k).max(1);
        let of = |shape: [usize; 2]| Spec::contiguous(dtype, shape);
        let packed = of([rows, 2 * self.width])?;
        glu::npu::decide(
            platform,
            &unit(
                Projected::Packed(packed.clone()),
                self.unit,
                operands.settings(),
            )?,
        )?;
        let all = operands.weights();
        for (weights, biases) in all[..BIASES].iter().zip(&all[BIASES..]) {
            let (Some(weight), Some(bias)) = (weights.first(), biases.first()) else {
                continue;
            };
            let [of_weight, of_bias] = [weight, bias].map(|one| one.spec().shape().len());
            if weights.len() != biases.len() || of_weight != of_bias + 1 {
                let why = "weights and biases must both be stacked, or both be lists";
                return Err(Refused::new(Reason::Layout, why));
            }
        }
        let projections = all[..BIASES].iter();
        for group in projections.filter(|group| !group.is_empty()) {
            limits(platform, dtype, rows, group, layout, Over::Inputs)?;
            limits(platform, dtype, rows, group, layout, Over::Features)?;
        }
        let groups = Spec::contiguous(DType::I64, [self.experts])?;
        check_grad(platform, &of([rows, hidden])?, &packed, &groups)?;
        let slots = Seen(indices.clone());
        let slots = Sort::<Seen<Spec>, _>::new(slots, self.experts, tokens * k, IntDType::I64)?;
        decide_sort(platform, &slots)?;
        if tokens * k > 0 {
            let (permuted, map) = check_permute(platform, x, indices, None)?;
            check_permute_grad(platform, &permuted, &map, k)?;
            let probs = of([tokens, k])?;
            check_unpermute(platform, &permuted, &map, Some(&probs))?;
        }
        Ok(())
    }
}

/// Returns the operands of the gated unit.
pub(super) fn unit<T: Specified>(
    projected: Projected<T>,
    key: GluKey,
    settings: Settings,
) -> Result<glu::Operands<Seen<T>>, Refused> {
    let settings = glu::Settings {
        limit: settings.limit,
        sparsity: None,
    };
    Ok(glu::Operands::of_projected(
        projected.map(Seen),
        settings,
        key,
    )?)
}
