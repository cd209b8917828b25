//! Reductions over ranks, on bytes.
//!
//! Values are reduced in the order of the ranks, and each intermediate result is rounded to the type, as when devices
//! add into memory. On devices the order depends on their connections, and matters for all types but integers.

/// The type of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub(crate) enum Number {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
}

/// A reduction of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub(crate) enum Reduction {
    Sum,
    Product,
    Maximum,
    Minimum,
}

impl Number {
    /// Returns the size of a number in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// Reduces parts of equal length, from first to last.
pub(crate) fn reduce(number: Number, by: Reduction, parts: &[&Vec<u8>]) -> Vec<u8> {
    macro_rules! integers {
        ($type:ty) => {
            fold(parts, |a, b| {
                let (a, b) = (<$type>::from_ne_bytes(a), <$type>::from_ne_bytes(b));
                let result = match by {
                    Reduction::Sum => a.wrapping_add(b),
                    Reduction::Product => a.wrapping_mul(b),
                    Reduction::Maximum => a.max(b),
                    Reduction::Minimum => a.min(b),
                };
                result.to_ne_bytes()
            })
        };
    }
    macro_rules! floats {
        ($type:ty, $to:expr, $from:expr) => {
            fold(parts, |a, b| {
                let a = $to(<$type>::from_ne_bytes(a));
                let b = $to(<$type>::from_ne_bytes(b));
                let result = match by {
                    Reduction::Sum => a + b,
                    Reduction::Product => a * b,
                    Reduction::Maximum => a.max(b),
                    Reduction::Minimum => a.min(b),
                };
                <$type>::to_ne_bytes($from(result))
            })
        };
    }
    match number {
        Number::I8 => integers!(i8),
        Number::I16 => integers!(i16),
        Number::I32 => integers!(i32),
        Number::I64 => integers!(i64),
        Number::U8 => integers!(u8),
        Number::U16 => integers!(u16),
        Number::U32 => integers!(u32),
        Number::U64 => integers!(u64),
        Number::F16 => floats!(half::f16, half::f16::to_f32, half::f16::from_f32),
        Number::BF16 => floats!(half::bf16, half::bf16::to_f32, half::bf16::from_f32),
        Number::F32 => floats!(f32, std::convert::identity, std::convert::identity),
        Number::F64 => floats!(f64, std::convert::identity, std::convert::identity),
    }
}

fn fold<const N: usize>(
    parts: &[&Vec<u8>],
    combine: impl Fn([u8; N], [u8; N]) -> [u8; N],
) -> Vec<u8> {
    let (first, others) = parts.split_first().expect("a group has a rank");
    let mut result = first.to_vec();
    for part in others {
        let pairs = result.chunks_exact_mut(N).zip(part.chunks_exact(N));
        for (to, from) in pairs {
            let mut values = [[0; N]; 2];
            values[0].copy_from_slice(to);
            values[1].copy_from_slice(from);
            to.copy_from_slice(&combine(values[0], values[1]));
        }
    }
    result
}
