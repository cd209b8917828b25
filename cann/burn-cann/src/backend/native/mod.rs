//! Operations on the device, which pass Burn's arguments to CANN's operators.
//!
//! A function returns a result or declines. The host runs what an operator refuses.

pub(super) mod activation;
pub(super) mod attention;
pub(super) mod copy;
pub(super) mod create;
pub(super) mod elementwise;
pub(super) mod index;
pub(super) mod norm;
pub(super) mod product;
pub(super) mod random;
pub(super) mod reduce;
pub(super) mod sort;

use burn_backend::{DType, Scalar as BurnScalar};

use super::error::{Declined, Native};
use super::tensor::CannTensor;
use crate::{Scalar, Stream, Tensor};

impl CannTensor {
    /// Wraps a result with the same dtype and place as this tensor.
    pub(super) fn with(&self, tensor: Tensor) -> Self {
        Self {
            tensor,
            dtype: self.dtype,
            place: self.place.clone(),
        }
    }

    fn on(&self) -> &Stream {
        &self.place.stream
    }

    fn sizes(&self) -> &[usize] {
        self.tensor.shape()
    }
}

/// Converts a scalar used with a tensor of `dtype`, which decides the kind of number.
fn scalar(value: BurnScalar, dtype: DType) -> Native<Scalar> {
    let too_large = || Declined::because(format!("{value:?} does not fit a 64-bit integer"));
    Ok(if dtype.is_float() {
        Scalar::Float(value.elem())
    } else if dtype.is_bool() {
        Scalar::Bool(value.elem())
    } else {
        Scalar::Int(match value {
            BurnScalar::Int(value) => value,
            BurnScalar::UInt(value) => i64::try_from(value).map_err(|_| too_large())?,
            BurnScalar::Bool(value) => value.into(),
            // The conversion is towards zero, as on the host.
            BurnScalar::Float(value) if value.abs() < 2f64.powi(63) => value as i64,
            BurnScalar::Float(_) => return Err(too_large()),
        })
    })
}

/// Returns the shape of an elementwise result of two operands.
fn broadcast(one: &[usize], other: &[usize]) -> Native<Vec<usize>> {
    let rank = one.len().max(other.len());
    let size = |shape: &[usize], dim: usize| {
        (dim + shape.len())
            .checked_sub(rank)
            .map_or(1, |own| shape[own])
    };
    (0..rank)
        .map(|dim| match (size(one, dim), size(other, dim)) {
            (left, right) if left == right || right == 1 => Some(left),
            (1, right) => Some(right),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| Declined::because(format!("shapes {one:?} and {other:?} don't go together")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_of_the_kind_of_their_tensor() {
        let scalar = |value, dtype| scalar(value, dtype).ok();
        assert_eq!(
            scalar(BurnScalar::Int(3), DType::BF16),
            Some(Scalar::Float(3.0))
        );
        assert_eq!(
            scalar(BurnScalar::Float(-2.7), DType::I32),
            Some(Scalar::Int(-2))
        );
        assert_eq!(
            scalar(BurnScalar::Bool(true), DType::U8),
            Some(Scalar::Int(1))
        );
        let truth = DType::Bool(burn_backend::BoolStore::Native);
        assert_eq!(scalar(BurnScalar::UInt(1), truth), Some(Scalar::Bool(true)));
        assert_eq!(scalar(BurnScalar::UInt(u64::MAX), DType::I64), None);
        assert_eq!(scalar(BurnScalar::Float(1e19), DType::I64), None);
        assert_eq!(scalar(BurnScalar::Float(f64::NAN), DType::I64), None);
    }

    #[test]
    fn shapes_broadcast_from_the_end() {
        let broadcast = |one: &[usize], other: &[usize]| broadcast(one, other).ok();
        assert_eq!(broadcast(&[2, 1, 3], &[4, 1]), Some(vec![2, 4, 3]));
        assert_eq!(broadcast(&[0], &[1]), Some(vec![0]));
        assert_eq!(broadcast(&[], &[2]), Some(vec![2]));
        assert_eq!(broadcast(&[2], &[3]), None);
    }
}
