//! The sum and its RMSNorm over CANN's operators.
//!
//! `A` is `aclnnAddRmsNorm`, which rounds the sum and `x̂` to the dtype as Llama's own code does. `G` is RMSNorm's
//! `aclnnRmsNormGrad` at the sum: CANN has no gradient operator for `A`.
//!
//! | key | forward | backward | why |
//! |---|---|---|---|
//! | weight, offset 0, rounding `llama` | `A` | `G` | computes exactly this |
//! | f32, rounding `gemma` | `A` | `G` | f32 is not rounded |
//! | f32, offset 1 | `1 + w`, `A` | the same, `G` | |
//! | no weight | ones, `A` | ones, `G` | CANN requires gamma |
//! | rounding `gemma` or offset 1 in a half type | `aclnnAdd`, and the operators of [RMSNorm](crate::ops::rms_norm::npu) at the sum | those of RMSNorm | `A` rounds `x̂` before the weight, and takes gamma only in the type of `x`, in which `1 + w` loses small weights. 5 reads and writes in place of 4 |
//! | a gate, groups | the same | the same | `A` normalises whole rows, without a gate |
//! | f64, different types | refused | | CANN computes in f32 |
//!
//! Strided operands are copied first: CANN does not document that they may be strided.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{AddRmsNorm, Each, Operands};
use crate::npu::refused::one_float;
use crate::npu::views::{contiguous, rows};
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::Made;
use crate::ops::rms_norm::{self, RmsNorm};
use crate::semantics::{AddRmsNormKey, Gating, Groups, Offset, Rounding, Scale};
use burn_cann::ops::rms_norm::{add_rms_norm, check_add, check_grad};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// The gamma that is passed to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gamma {
    /// The weight as it is.
    Weight,
    /// `1 + w`, in f32.
    OnePlusWeight,
    /// Ones.
    Ones,
}

/// The operators that compute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// `aclnnAddRmsNorm` with this gamma.
    Fused(Gamma),
    /// `aclnnAdd`, and the operators of RMSNorm at the sum.
    Apart,
}

/// Returns the operators that compute these operands.
///
/// # Errors
/// Returns the reason if none do.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Plan, Refused> {
    let x = operands.x().spec();
    let named = [
        ("residual", Some(operands.residual())),
        ("weight", operands.weight()),
        ("gate", operands.gate()),
    ];
    let others = named
        .into_iter()
        .filter_map(|(name, tensor)| Some((name, tensor?.spec())));
    let dtype = one_float(("x", x), others)?;
    let plan = plan_of(dtype, operands.key());
    if plan == Plan::Apart {
        let specs = operands.as_ref().map(|tensor| Seen(tensor.spec().clone()));
        // The sum is contiguous.
        let sum = Spec::contiguous(dtype, x.shape())?;
        rms_norm::npu::decide(platform, &specs.norm_of(|_, _| Seen(sum)))?;
        return Ok(plan);
    }
    let width = x.shape().last().copied().unwrap_or(1);
    // An empty call runs no operator, but the device must have it: a row of one element is checked instead.
    let shape = if x.is_empty() {
        [1, 1]
    } else {
        [rows(x), width]
    };
    let x = Spec::contiguous(dtype, shape)?;
    let gamma_spec = Spec::contiguous(dtype, [shape[1]])?;
    let outputs = check_add(platform, &x, &x, &gamma_spec, operands.settings().eps)?;
    check_grad(platform, &outputs.y, &x, &outputs.rstd, &gamma_spec)?;
    Ok(plan)
}

/// Returns the operators that compute a key in a type.
fn plan_of(dtype: DType, key: AddRmsNormKey) -> Plan {
    let whole_rows = key.groups == Groups::One && key.gating == Gating::None;
    let rounds_as_llama = key.rounding == Rounding::Llama && key.offset == Offset::Zero;
    if !whole_rows || dtype != DType::F32 && !rounds_as_llama {
        return Plan::Apart;
    }
    Plan::Fused(match (key.scale, key.offset) {
        (Scale::None, _) => Gamma::Ones,
        (Scale::Weight, Offset::One) => Gamma::OnePlusWeight,
        (Scale::Weight, Offset::Zero) => Gamma::Weight,
    })
}

/// Returns the operators over tensors as large as `x` that compute a key.
pub(crate) fn operators(key: AddRmsNormKey, dtype: DType) -> Vec<&'static str> {
    match plan_of(dtype, key) {
        Plan::Fused(_) => vec!["aclnnAddRmsNorm"],
        Plan::Apart => {
            let norm = rms_norm::npu::operators(key.norm(), dtype);
            [&["aclnnAdd"], &norm[..]].concat()
        }
    }
}

impl OnNpu for AddRmsNorm {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        let plan = decide(stream.device().platform(), operands)?;
        let (x, residual): (&Tensor, &Tensor) = (operands.x(), operands.residual());
        let (rstd, _) = operands.rstd();
        if x.spec().is_empty() {
            let empty = || Tensor::empty(stream, x.dtype(), x.shape());
            let rstd = base::filled(stream, DType::F32, rstd.as_slice(), 0.0)?;
            return Ok(Made::new(empty()?).and([empty()?]).saving([rstd]));
        }
        let Plan::Fused(gamma) = plan else {
            let sum = base::add(stream, x, residual)?;
            let norm = operands.clone().norm_of(|_, _| Seen(sum.clone()));
            return Ok(RmsNorm::forward(stream, &norm, None)?.and([sum]));
        };
        let width = x.shape().last().copied().unwrap_or(1);
        let in_rows = |tensor: &Tensor| -> Result<Tensor> {
            let tensor = contiguous(stream, tensor)?;
            Ok(tensor.reshape([rows(x.spec()), width])?)
        };
        let gamma = match (gamma, operands.weight()) {
            (Gamma::Weight, Some(weight)) => contiguous(stream, weight)?,
            (Gamma::OnePlusWeight, Some(weight)) => base::add_number(stream, weight, 1.0)?,
            _ => base::filled(stream, x.dtype(), &[width], 1.0)?,
        };
        let eps = operands.settings().eps;
        let found = add_rms_norm(stream, &in_rows(x)?, &in_rows(residual)?, &gamma, eps)?;
        let [y, sum] = [found.y, found.x].map(|tensor| tensor.reshape(x.shape()));
        Ok(Made::new(y?).and([sum?]).saving([found.rstd]))
    }
}
