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
//! | rounding `gemma` in a half type | refused | | `A` rounds `x̂` before the weight |
//! | offset 1 in a half type | refused | | `A` takes gamma only in the type of `x`, in which `1 + w` loses small weights |
//! | a gate, groups | refused | | `A` normalises whole rows, without a gate. The reference runs; its norm is a kernel where the body calls an annotated one |
//! | f64, different types | refused | | CANN computes in f32 |
//!
//! Strided operands are copied first: CANN does not document that they may be strided.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Normalised, Operands};
use crate::npu::refused::one_float;
use crate::npu::views::{contiguous, rows};
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::reason::Reason;
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

/// Returns the gamma with which the operators compute these operands.
///
/// # Errors
/// Returns the reason if no operator computes them.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Gamma, Refused> {
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
    let gamma = gamma_of(dtype, operands.key())?;
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
    Ok(gamma)
}

/// Returns whether the operator computes the key in at least one type.
pub(crate) fn is_computed(key: AddRmsNormKey) -> bool {
    key.groups == Groups::One && key.gating == Gating::None
}

/// Returns the gamma of a key, or an error if the operator rounds differently or computes something else.
fn gamma_of(dtype: DType, key: AddRmsNormKey) -> Result<Gamma, Refused> {
    let refused = |reason, why| Err(Refused::new(reason, why));
    if !is_computed(key) {
        let why = "aclnnAddRmsNorm normalises whole rows, without a gate";
        return refused(Reason::Semantics, why);
    }
    if dtype != DType::F32 && key.rounding == Rounding::Gemma {
        let why = "aclnnAddRmsNorm rounds half types before the weight";
        return refused(Reason::Dtype, why);
    }
    if dtype != DType::F32 && key.offset == Offset::One {
        let why =
            "aclnnAddRmsNorm takes a weight of the type of x, in which 1 + w would be rounded";
        return refused(Reason::Dtype, why);
    }
    Ok(match (key.scale, key.offset) {
        (Scale::None, _) => Gamma::Ones,
        (Scale::Weight, Offset::One) => Gamma::OnePlusWeight,
        (Scale::Weight, Offset::Zero) => Gamma::Weight,
    })
}

/// Returns the normalised sum, the sum, and `rstd`, which has one value per row in f32.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or CANN fails.
pub fn forward(stream: &Stream, operands: &Operands<Seen<Tensor>>) -> Result<Normalised<Tensor>> {
    let gamma = decide(stream.device().platform(), operands)?;
    let (x, residual): (&Tensor, &Tensor) = (operands.x(), operands.residual());
    let (rstd, _) = operands.rstd();
    if x.spec().is_empty() {
        let empty = || Tensor::empty(stream, x.dtype(), x.shape());
        return Ok(Normalised {
            y: empty()?,
            sum: empty()?,
            rstd: base::filled(stream, DType::F32, rstd.as_slice(), 0.0)?,
        });
    }
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
    Ok(Normalised {
        y: found.y.reshape(x.shape())?,
        sum: found.x.reshape(x.shape())?,
        rstd: found.rstd,
    })
}
