//! Values on the host, made by `aclCreateScalar`.

use std::ffi::c_void;

use cann_sys::meta::*;

use crate::error::{Outcome, fail};
use crate::number::Number;
use crate::tensor::name_of;

/// An exact value with its dtype.
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
    /// `place` must be valid for a read of a value of `dtype`, of any alignment.
    pub(crate) unsafe fn read(place: *const c_void, dtype: aclDataType) -> Outcome<Self> {
        // SAFETY: the caller guarantees a value of the dtype.
        let value = unsafe {
            match dtype {
                ACL_FLOAT => Value::Float(at::<f32>(place).into()),
                ACL_FLOAT16 => Value::Float(at::<half::f16>(place).into()),
                ACL_BF16 => Value::Float(at::<half::bf16>(place).into()),
                ACL_DOUBLE => Value::Float(at(place)),
                ACL_INT8 => Value::Int(at::<i8>(place).into()),
                ACL_INT16 => Value::Int(at::<i16>(place).into()),
                ACL_INT32 => Value::Int(at::<i32>(place).into()),
                ACL_INT64 => Value::Int(at(place)),
                ACL_UINT8 => Value::Int(at::<u8>(place).into()),
                ACL_UINT16 => Value::Int(at::<u16>(place).into()),
                ACL_UINT32 => Value::Int(at::<u32>(place).into()),
                ACL_UINT64 => Value::Int(at::<u64>(place).cast_signed()),
                ACL_BOOL => Value::Int(i64::from(at::<u8>(place) != 0)),
                other => fail!("scalars of {} are not emulated", name_of(other)),
            }
        };
        Ok(Self { dtype, value })
    }

    pub(crate) fn is_float(&self) -> bool {
        matches!(self.value, Value::Float(_))
    }

    /// Returns the value in the type in which an operator computes, rounded once.
    pub(crate) fn to<T: Number>(self) -> T {
        match self.value {
            Value::Float(value) => T::from_f64(value),
            Value::Int(value) => T::from_i64(value),
        }
    }
}

/// # Safety
///
/// `place` must be valid for a read of a `T`, of any alignment.
unsafe fn at<T: Copy>(place: *const c_void) -> T {
    // SAFETY: the caller guarantees it.
    unsafe { place.cast::<T>().read_unaligned() }
}
