//! The types that operators compute in, and the conversions from and to dtypes of tensors.
//!
//! f16, bf16 and f32 are computed in f32, f64 in f64, and integers and booleans in i64. A value is rounded once when
//! it is stored, to nearest with ties to even. Like the processor's conversions, floats become integers by truncation
//! and saturate at the ends of the integer type, and NaN becomes 0. Integers that become narrower keep the low bits.
//! All values but zero are true.

use cann_sys::meta::*;
use half::{bf16, f16};

use crate::error::{Outcome, fail};
use crate::memory::Memory;
use crate::tensor::{Source, Tensor, name_of};

/// Converts a number to an integer type: floats saturate, and integers keep the low bits.
macro_rules! kept {
    ($number:ty, $value:expr, $type:ty) => {
        match <$number>::IS_FLOAT {
            true => $value.to_f64() as $type,
            false => $value.to_i64() as $type,
        }
    };
}

/// A type that operators compute in.
pub(crate) trait Number: Copy + Default + PartialOrd + Send + Sync + 'static {
    fn from_f32(value: f32) -> Self;
    fn from_f64(value: f64) -> Self;
    fn from_i64(value: i64) -> Self;
    /// Converts an unsigned number. An i64 keeps its bits.
    fn from_u64(value: u64) -> Self;
    fn to_f16(self) -> f16;
    fn to_bf16(self) -> bf16;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_i64(self) -> i64;
    /// True if the type can hold fractions.
    const IS_FLOAT: bool;
    /// Returns `true` unless the value is zero.
    fn is_true(self) -> bool;

    /// Returns the value as a tensor of a dtype holds it.
    fn held_as(self, dtype: aclDataType) -> Self {
        macro_rules! integer {
            ($type:ty) => {
                Self::from_i64(kept!(Self, self, $type) as i64)
            };
        }
        match dtype {
            ACL_FLOAT => Self::from_f32(self.to_f32()),
            ACL_FLOAT16 => Self::from_f32(self.to_f16().to_f32()),
            ACL_BF16 => Self::from_f32(self.to_bf16().to_f32()),
            ACL_INT8 => integer!(i8),
            ACL_INT16 => integer!(i16),
            ACL_INT32 => integer!(i32),
            ACL_INT64 => integer!(i64),
            ACL_UINT8 => integer!(u8),
            ACL_UINT16 => integer!(u16),
            ACL_UINT32 => integer!(u32),
            ACL_UINT64 => integer!(u64),
            ACL_BOOL => Self::from_i64(i64::from(self.is_true())),
            _ => self,
        }
    }
}

macro_rules! number {
    ($type:ty, half: $half:ident, float: $float:literal, true: $value:ident => $truth:expr) => {
        impl Number for $type {
            const IS_FLOAT: bool = $float;

            fn from_f32(value: f32) -> Self {
                value as Self
            }
            fn from_f64(value: f64) -> Self {
                value as Self
            }
            fn from_i64(value: i64) -> Self {
                value as Self
            }
            fn from_u64(value: u64) -> Self {
                value as Self
            }
            fn to_f16(self) -> f16 {
                f16::$half(self.into_half())
            }
            fn to_bf16(self) -> bf16 {
                bf16::$half(self.into_half())
            }
            fn to_f32(self) -> f32 {
                self as f32
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn to_i64(self) -> i64 {
                self as i64
            }
            fn is_true(self) -> bool {
                let $value = self;
                $truth
            }
        }
    };
}

/// A type from which numbers are rounded to half types.
trait IntoHalf {
    type From;
    fn into_half(self) -> Self::From;
}

impl IntoHalf for f32 {
    type From = f32;
    fn into_half(self) -> f32 {
        self
    }
}

impl IntoHalf for f64 {
    type From = f64;
    fn into_half(self) -> f64 {
        self
    }
}

impl IntoHalf for i64 {
    type From = f64;
    /// Exact below 2⁵³. Beyond it, f16 is infinite and bf16 has eight bits.
    fn into_half(self) -> f64 {
        self as f64
    }
}

number!(f32, half: from_f32, float: true, true: value => value != 0.0);
number!(f64, half: from_f64, float: true, true: value => value != 0.0);
number!(i64, half: from_f64, float: false, true: value => value != 0);

/// Runs `$body` with `$number` as the type in which operators of a dtype compute.
macro_rules! by_number {
    ($dtype:expr, $number:ident => $body:expr) => {
        match $dtype {
            cann_sys::meta::ACL_FLOAT | cann_sys::meta::ACL_FLOAT16 | cann_sys::meta::ACL_BF16 => {
                type $number = f32;
                $body
            }
            cann_sys::meta::ACL_DOUBLE => {
                type $number = f64;
                $body
            }
            _ => {
                type $number = i64;
                $body
            }
        }
    };
}
pub(crate) use by_number;

impl Tensor {
    /// Returns the values in the order of the shape.
    pub(crate) fn values<T: Number>(&self, memory: &Memory) -> Outcome<Vec<T>> {
        macro_rules! integers {
            ($type:ty) => {
                self.read(memory, |bytes| {
                    T::from_i64(<$type>::from_ne_bytes(bytes) as i64)
                })
            };
        }
        match self.dtype {
            ACL_FLOAT => self.read(memory, |bytes| T::from_f32(f32::from_ne_bytes(bytes))),
            ACL_FLOAT16 => self.read(memory, |bytes| {
                T::from_f32(f16::from_ne_bytes(bytes).to_f32())
            }),
            ACL_BF16 => self.read(memory, |bytes| {
                T::from_f32(bf16::from_ne_bytes(bytes).to_f32())
            }),
            ACL_DOUBLE => self.read(memory, |bytes| T::from_f64(f64::from_ne_bytes(bytes))),
            ACL_INT8 => integers!(i8),
            ACL_INT16 => integers!(i16),
            ACL_INT32 => integers!(i32),
            ACL_INT64 => integers!(i64),
            ACL_UINT8 => integers!(u8),
            ACL_UINT16 => integers!(u16),
            ACL_UINT32 => integers!(u32),
            ACL_UINT64 => self.read(memory, |bytes| T::from_u64(u64::from_ne_bytes(bytes))),
            ACL_BOOL => self.read(memory, |[byte]| T::from_i64(i64::from(byte != 0))),
            other => fail!("the emulator does not compute with {}", name_of(other)),
        }
    }

    /// Returns the values after a conversion to another dtype.
    pub(crate) fn values_as<T: Number>(
        &self,
        memory: &Memory,
        dtype: aclDataType,
    ) -> Outcome<Vec<T>> {
        let mut values = self.values::<T>(memory)?;
        if dtype != self.dtype {
            values
                .iter_mut()
                .for_each(|value| *value = value.held_as(dtype));
        }
        Ok(values)
    }

    /// Stores values of a dtype, which are converted to the tensor's.
    pub(crate) fn store_values_of<T: Number>(
        &self,
        memory: &mut Memory,
        values: &[T],
        dtype: aclDataType,
    ) -> Outcome<()> {
        if dtype == self.dtype {
            return self.store_values(memory, values);
        }
        let values: Vec<T> = values.iter().map(|value| value.held_as(dtype)).collect();
        self.store_values(memory, &values)
    }

    /// Stores the values, each rounded once.
    pub(crate) fn store_values<T: Number>(&self, memory: &mut Memory, values: &[T]) -> Outcome<()> {
        self.store_each(memory, Source::Each(values))
    }

    /// Stores one value in all elements.
    pub(crate) fn fill<T: Number>(&self, memory: &mut Memory, value: T) -> Outcome<()> {
        self.store_each(memory, Source::One(value))
    }

    fn store_each<T: Number>(&self, memory: &mut Memory, values: Source<'_, T>) -> Outcome<()> {
        macro_rules! integers {
            ($type:ty) => {
                self.write(memory, values, |value: T| {
                    kept!(T, value, $type).to_ne_bytes()
                })
            };
        }
        match self.dtype {
            ACL_FLOAT => self.write(memory, values, |value: T| value.to_f32().to_ne_bytes()),
            ACL_FLOAT16 => self.write(memory, values, |value: T| value.to_f16().to_ne_bytes()),
            ACL_BF16 => self.write(memory, values, |value: T| value.to_bf16().to_ne_bytes()),
            ACL_DOUBLE => self.write(memory, values, |value: T| value.to_f64().to_ne_bytes()),
            ACL_INT8 => integers!(i8),
            ACL_INT16 => integers!(i16),
            ACL_INT32 => integers!(i32),
            ACL_INT64 => integers!(i64),
            ACL_UINT8 => integers!(u8),
            ACL_UINT16 => integers!(u16),
            ACL_UINT32 => integers!(u32),
            ACL_UINT64 => integers!(u64),
            ACL_BOOL => self.write(memory, values, |value: T| [u8::from(value.is_true())]),
            other => fail!("the emulator does not compute with {}", name_of(other)),
        }
    }
}
