//! Functions that checks share.

use super::types::is_float;
use super::{Checked, Refusal};
use crate::call::Scalar;
use crate::dtype::DType;
use crate::layout::Dimensions;
use crate::soc::Platform;
use crate::tensor::Spec;

/// An operand with its name in messages.
pub(super) type Named<'a> = (&'static str, &'a Spec);

/// The dtypes that fused operators take.
pub(super) const FLOATS: [DType; 3] = [DType::F16, DType::BF16, DType::F32];

/// Checks the processor, because the limits are those of Atlas A2 and A3.
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

/// Checks that all operands have the same dtype, one of [`FLOATS`].
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

/// The most dimensions of a tensor that base operators take.
pub(super) const MOST_DIMENSIONS: usize = 8;

/// Checks an input of a base operator: its dtype, and at most eight dimensions. Strides are free.
pub(super) fn view(operand: Named<'_>, allowed: &[DType]) -> Checked<()> {
    dtype(operand, allowed)?;
    rank(operand, 0, MOST_DIMENSIONS)
}

/// Checks an operand that a base operator writes to as [`view`] does, and that no elements share memory.
pub(super) fn writable((operand, spec): Named<'_>, allowed: &[DType]) -> Checked<()> {
    view((operand, spec), allowed)?;
    if spec.layout.is_overlapping() {
        return Err(Refusal::Strides { operand });
    }
    Ok(())
}

/// Returns the shape of an elementwise result. Shapes are aligned at the end, and dimensions of size 1 are repeated.
pub(super) fn broadcast((left, one): Named<'_>, (right, other): Named<'_>) -> Checked<Dimensions> {
    let rank = one.rank().max(other.rank());
    let size = |spec: &Spec, dim: usize| {
        let own = (dim + spec.rank()).checked_sub(rank);
        own.map_or(1, |own| spec.shape()[own])
    };
    let both = (0..rank).map(|dim| match (size(one, dim), size(other, dim)) {
        (left, right) if left == right || right == 1 => Some(left),
        (1, right) => Some(right),
        _ => None,
    });
    both.collect::<Option<_>>().ok_or_else(|| {
        wrong_shape(
            (right, other),
            format!("one that broadcasts with {left}, {:?}", one.shape()),
        )
    })
}

/// Checks that a scalar used with a tensor of integers is not a float.
pub(super) fn scalar(what: &'static str, value: Scalar, tensor: DType) -> Checked<()> {
    if is_float(tensor) || !matches!(value, Scalar::Float(_)) {
        return Ok(());
    }
    Err(Refusal::Value {
        what,
        found: format!("{value:?}"),
        expected: "an integer beside a tensor of integers; cast the tensor first",
    })
}

/// Checks that `x` has dimension `dim`. A tensor without dimensions counts as having one.
pub(super) fn dimension(x: &Spec, dim: usize) -> Checked<()> {
    if dim < x.rank().max(1) {
        return Ok(());
    }
    Err(Refusal::Value {
        what: "dim",
        found: dim.to_string(),
        expected: "a dimension of the tensor",
    })
}
