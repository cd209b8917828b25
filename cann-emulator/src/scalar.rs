//! Values on the host: what `aclCreateScalar` was given.

use std::ffi::c_void;

use cann_sys::meta::*;

use crate::error::{Outcome, fail};
use crate::number::Number;
use crate::tensor::name_of;

/// A value with its dtype, exact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scalar {
    pub(crate) dtype: aclDataType,
    value: Value,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    Float(f64),
    Int(i64),
}

impl Scalar {
    /// Reads a value of `dtype`.
    ///
    /// # Safety
    ///
    /// `place` is valid for a read of a value of `dtype`, of any alignment.
    pub(crate) unsafe fn read(place: *const c_void, dtype: aclDataType) -> Outcome<Self> {
        macro_rules! value {
            // SAFETY: the caller vouches for the value.
            ($type:ty) => {
                unsafe { place.cast::<$type>().read_unaligned() }
            };
        }
        let value = match dtype {
            ACL_FLOAT => Value::Float(value!(f32).into()),
            ACL_FLOAT16 => Value::Float(value!(half::f16).into()),
            ACL_BF16 => Value::Float(value!(half::bf16).into()),
            ACL_DOUBLE => Value::Float(value!(f64)),
            ACL_INT8 => Value::Int(value!(i8).into()),
            ACL_INT16 => Value::Int(value!(i16).into()),
            ACL_INT32 => Value::Int(value!(i32).into()),
            ACL_INT64 => Value::Int(value!(i64)),
            ACL_UINT8 => Value::Int(value!(u8).into()),
            ACL_UINT16 => Value::Int(value!(u16).into()),
            ACL_UINT32 => Value::Int(value!(u32).into()),
            ACL_UINT64 => Value::Int(value!(u64).cast_signed()),
            ACL_BOOL => Value::Int(i64::from(value!(u8) != 0)),
            other => fail!(
                ACLNN_ERR_PARAM_INVALID,
                "scalars of {} are not emulated",
                name_of(other)
            ),
        };
        Ok(Self { dtype, value })
    }

    pub(crate) fn is_float(&self) -> bool {
        matches!(self.value, Value::Float(_))
    }

    /// The value in the type that an operator computes in, rounded once.
    pub(crate) fn to<T: Number>(self) -> T {
        match self.value {
            Value::Float(value) => T::from_f64(value),
            Value::Int(value) => T::from_i64(value),
        }
    }
}
