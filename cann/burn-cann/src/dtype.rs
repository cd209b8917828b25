//! Dtypes: the types of elements.

use std::fmt;

use cann_sys::types::{self, aclDataType};
use half::{bf16, f16};

macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident = $code:ident, $name:literal, $size:literal;)+) => {
        /// The dtype of a tensor's elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum DType {
            $($(#[$doc])* $variant,)+
        }

        impl DType {
            /// All dtypes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the size of an element in bytes.
            pub const fn size(self) -> usize {
                match self {
                    $(Self::$variant => $size,)+
                }
            }

            /// Returns Rust's name of the dtype.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            pub(crate) const fn code(self) -> aclDataType {
                match self {
                    $(Self::$variant => types::$code,)+
                }
            }
        }
    };
}

dtypes! {
    /// 32-bit floating point.
    F32 = ACL_FLOAT, "f32", 4;
    /// 16-bit floating point of IEEE 754.
    F16 = ACL_FLOAT16, "f16", 2;
    /// bfloat16: the upper half of an `f32`.
    BF16 = ACL_BF16, "bf16", 2;
    /// 64-bit floating point.
    F64 = ACL_DOUBLE, "f64", 8;
    /// Signed 8-bit integers.
    I8 = ACL_INT8, "i8", 1;
    /// Signed 16-bit integers.
    I16 = ACL_INT16, "i16", 2;
    /// Signed 32-bit integers.
    I32 = ACL_INT32, "i32", 4;
    /// Signed 64-bit integers.
    I64 = ACL_INT64, "i64", 8;
    /// Unsigned 8-bit integers.
    U8 = ACL_UINT8, "u8", 1;
    /// Unsigned 16-bit integers.
    U16 = ACL_UINT16, "u16", 2;
    /// Unsigned 32-bit integers.
    U32 = ACL_UINT32, "u32", 4;
    /// Unsigned 64-bit integers.
    U64 = ACL_UINT64, "u64", 8;
    /// Booleans of one byte.
    Bool = ACL_BOOL, "bool", 1;
}

impl fmt::Display for DType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A host type of which every bit pattern is a valid value, so that it can be read from a device.
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The dtype of tensors with these elements.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($host:ty = $dtype:ident),+) => {
        $(impl sealed::Sealed for $host {}
        impl Element for $host {
            const DTYPE: DType = DType::$dtype;
        })+
    };
}

elements!(
    f32 = F32,
    f64 = F64,
    f16 = F16,
    bf16 = BF16,
    i8 = I8,
    i16 = I16,
    i32 = I32,
    i64 = I64,
    u8 = U8,
    u16 = U16,
    u32 = U32,
    u64 = U64
);

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of<E: Element>() -> (usize, usize) {
        (E::DTYPE.size(), std::mem::size_of::<E>())
    }

    #[test]
    fn host_and_device_agree_on_sizes() {
        let sizes = [
            size_of::<f32>(),
            size_of::<f64>(),
            size_of::<f16>(),
            size_of::<bf16>(),
            size_of::<i8>(),
            size_of::<i16>(),
            size_of::<i32>(),
            size_of::<i64>(),
            size_of::<u8>(),
            size_of::<u16>(),
            size_of::<u32>(),
            size_of::<u64>(),
        ];
        for (device, host) in sizes {
            assert_eq!(device, host);
        }
    }
}
