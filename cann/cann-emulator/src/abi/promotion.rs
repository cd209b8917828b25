//! The dtype in which operands of different dtypes meet, and the conversions of results.
//!
//! CANN follows PyTorch: a float meets an integer as the float, an integer meets a boolean as the integer, and two of a
//! kind meet in the narrowest dtype that holds both. A result can be converted to any dtype of its own kind or a
//! higher one; so floats never become integers by accident.

use cann_sys::meta::*;

use crate::error::{Outcome, ensure, fail};
use crate::scalar::Scalar;
use crate::tensor::{name_of, size_of};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bool,
    Integer,
    Float,
}

fn kind(dtype: aclDataType) -> Kind {
    match dtype {
        ACL_BOOL => Kind::Bool,
        ACL_FLOAT | ACL_FLOAT16 | ACL_BF16 | ACL_DOUBLE => Kind::Float,
        _ => Kind::Integer,
    }
}

/// Returns `true` for the integers that have no dtype in common with signed ones.
fn wide_unsigned(dtype: aclDataType) -> bool {
    matches!(dtype, ACL_UINT16 | ACL_UINT32 | ACL_UINT64)
}

/// Returns the dtype of both operands, after promotion.
pub(crate) fn promoted(left: aclDataType, right: aclDataType) -> Outcome<aclDataType> {
    if left == right {
        return Ok(left);
    }
    let (low, high) = match kind(left) <= kind(right) {
        true => (left, right),
        false => (right, left),
    };
    if kind(low) != kind(high) {
        return Ok(high);
    }
    if wide_unsigned(low) || wide_unsigned(high) {
        fail!(
            "{} and {} have no dtype in common",
            name_of(left),
            name_of(right)
        );
    }
    let wide = |dtype| size_of(dtype).unwrap_or(0);
    Ok(match (low, high) {
        (ACL_FLOAT16, ACL_BF16) | (ACL_BF16, ACL_FLOAT16) => ACL_FLOAT,
        (ACL_UINT8, ACL_INT8) | (ACL_INT8, ACL_UINT8) => ACL_INT16,
        _ if wide(low) > wide(high) => low,
        _ => high,
    })
}

/// Returns the dtype of an operation of a tensor with a scalar. A scalar counts only if it is of a higher kind; an f64
/// then counts as f32.
pub(crate) fn promoted_by(tensor: aclDataType, scalar: &Scalar) -> aclDataType {
    let other = match scalar.dtype {
        ACL_DOUBLE => ACL_FLOAT,
        other => other,
    };
    if kind(other) > kind(tensor) {
        other
    } else {
        tensor
    }
}

/// Checks that a result of `from` can be converted to `to`.
pub(crate) fn check_castable(name: &str, from: aclDataType, to: aclDataType) -> Outcome<()> {
    ensure!(kind(from) <= kind(to);
        "{name} is {}, to which {} is not converted", name_of(to), name_of(from));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_meet_as_in_pytorch() {
        for (left, right, both) in [
            (ACL_FLOAT, ACL_FLOAT16, ACL_FLOAT),
            (ACL_FLOAT16, ACL_BF16, ACL_FLOAT),
            (ACL_DOUBLE, ACL_BF16, ACL_DOUBLE),
            (ACL_INT64, ACL_FLOAT16, ACL_FLOAT16),
            (ACL_BOOL, ACL_UINT8, ACL_UINT8),
            (ACL_UINT8, ACL_INT8, ACL_INT16),
            (ACL_UINT8, ACL_INT32, ACL_INT32),
            (ACL_INT16, ACL_UINT8, ACL_INT16),
            (ACL_INT32, ACL_INT64, ACL_INT64),
        ] {
            assert_eq!(promoted(left, right), Ok(both));
            assert_eq!(promoted(right, left), Ok(both));
        }
        assert!(promoted(ACL_UINT16, ACL_INT32).is_err());
        assert_eq!(promoted(ACL_UINT64, ACL_FLOAT), Ok(ACL_FLOAT));
    }

    #[test]
    fn results_are_converted_only_upwards() {
        let castable = |from, to| check_castable("out", from, to).is_ok();
        assert!(castable(ACL_FLOAT, ACL_FLOAT16) && castable(ACL_BOOL, ACL_INT8));
        assert!(castable(ACL_INT64, ACL_INT8) && castable(ACL_INT32, ACL_BF16));
        assert!(!castable(ACL_FLOAT16, ACL_INT64) && !castable(ACL_UINT8, ACL_BOOL));
    }
}
