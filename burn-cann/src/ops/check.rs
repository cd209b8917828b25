//! What the checks share.

use super::{Checked, Refusal};
use crate::dtype::DType;
use crate::soc::Platform;
use crate::tensor::Spec;

/// An operand by its name in messages.
pub(super) type Named<'a> = (&'static str, &'a Spec);

/// The types that fused operators compute in.
pub(super) const FLOATS: [DType; 3] = [DType::F16, DType::BF16, DType::F32];

/// The limits here are those of A2 and A3.
pub(super) fn processor(platform: &Platform, what: &'static str) -> Checked<()> {
    if platform.soc.has_fused_operators() {
        return Ok(());
    }
    Err(Refusal::Processor {
        what,
        soc: platform.soc.name().to_owned(),
    })
}

pub(super) fn dtype((operand, spec): Named<'_>, allowed: &[DType]) -> Checked<()> {
    if allowed.contains(&spec.dtype) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(|dtype| dtype.name()).collect();
    Err(Refusal::Dtype {
        operand,
        found: spec.dtype,
        expected: names.join(", "),
    })
}

/// One of the types of [`FLOATS`], the same for all.
pub(super) fn one_float(operands: &[Named<'_>]) -> Checked<()> {
    for &operand in operands {
        dtype(operand, &FLOATS)?;
        dtype(operand, &[operands[0].1.dtype])?;
    }
    Ok(())
}

pub(super) fn rank((operand, spec): Named<'_>, least: usize, most: usize) -> Checked<()> {
    let found = spec.rank();
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Refusal::Rank {
        operand,
        found,
        least,
        most,
    })
}

pub(super) fn shape((operand, spec): Named<'_>, expected: &[usize]) -> Checked<()> {
    if spec.shape() == expected {
        return Ok(());
    }
    Err(wrong_shape((operand, spec), format!("{expected:?}")))
}

pub(super) fn wrong_shape((operand, spec): Named<'_>, expected: impl Into<String>) -> Refusal {
    Refusal::Shape {
        operand,
        found: spec.shape().to_vec(),
        expected: expected.into(),
    }
}

pub(super) fn contiguous((operand, spec): Named<'_>) -> Checked<()> {
    if spec.layout.is_contiguous() {
        Ok(())
    } else {
        Err(Refusal::Strides { operand })
    }
}

pub(super) fn not_empty((operand, spec): Named<'_>) -> Checked<()> {
    if spec.is_empty() {
        Err(Refusal::Empty { operand })
    } else {
        Ok(())
    }
}

pub(super) fn at_most(what: &'static str, found: usize, limit: usize) -> Checked<()> {
    if found <= limit {
        Ok(())
    } else {
        Err(Refusal::Size { what, found, limit })
    }
}
