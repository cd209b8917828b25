use super::lanes::{Context, LANES, Lanes};
use super::{DType, Real, Values};
use half::{bf16, f16};
use std::any::TypeId;

/// The type of a tensor's elements. Kernels read and write them one by one, in registers.
pub trait Element: bytemuck::Pod + Send + Sync + std::fmt::Debug {
    /// The type as a value.
    const DTYPE: DType;

    /// Returns the elements of a result.
    fn values(values: Vec<Self>) -> Values;

    /// The type that kernels compute in.
    type Acc: Real + Element<Acc = Self::Acc>;

    /// Returns the number in the type that it is computed in.
    fn load(self) -> Self::Acc;
    /// Rounds to nearest, ties to even.
    fn round(value: Self::Acc) -> Self;

    /// Loads sixteen elements.
    fn lanes<C: Context>(c: C, values: &[Self; LANES]) -> C::Of<Self::Acc>;
    /// Rounds sixteen numbers.
    fn rounded<C: Context>(c: C, values: C::Of<Self::Acc>) -> [Self; LANES];
    /// Rounds sixteen numbers and loads them.
    #[inline(always)]
    fn held<C: Context>(c: C, values: C::Of<Self::Acc>) -> C::Of<Self::Acc> {
        Self::lanes(c, &Self::rounded(c, values))
    }
}

/// Returns whether kernels compute in another type than `T`.
pub fn is_half<T: Element>() -> bool {
    TypeId::of::<T>() != TypeId::of::<T::Acc>()
}

macro_rules! computed_in_itself {
    ($($Float:ident $DTYPE:ident)+) => {
        $(impl Element for $Float {
            const DTYPE: DType = DType::$DTYPE;

            fn values(values: Vec<Self>) -> Values {
                Values::$DTYPE(values)
            }
            type Acc = $Float;

            #[inline(always)]
            fn load(self) -> $Float {
                self
            }

            #[inline(always)]
            fn round(value: $Float) -> Self {
                value
            }

            #[inline(always)]
            fn lanes<C: Context>(c: C, values: &[Self; LANES]) -> C::Of<$Float> {
                C::Of::<$Float>::read(c, values)
            }

            #[inline(always)]
            fn rounded<C: Context>(_: C, values: C::Of<$Float>) -> [Self; LANES] {
                values.values()
            }

            #[inline(always)]
            fn held<C: Context>(_: C, values: C::Of<$Float>) -> C::Of<$Float> {
                values
            }
        })+
    };
}
computed_in_itself!(f32 F32 f64 F64);

// `half` converts one element at a time, with a run-time test of the CPU, which does not vectorise. The
// same conversions in integer arithmetic do. The tests compare them with `half`.

impl Element for bf16 {
    const DTYPE: DType = DType::Bf16;

    fn values(values: Vec<Self>) -> Values {
        Values::Bf16(values)
    }

    type Acc = f32;

    #[inline(always)]
    fn load(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn round(value: f32) -> Self {
        let bits = value.to_bits();
        let ties_to_even = 0x7fff + ((bits >> 16) & 1);
        let rounded = bits.wrapping_add(ties_to_even) >> 16;
        // A NaN must not be rounded to an infinity: keep its top bits and make it quiet.
        let nan = (bits >> 16) | 0x40;
        let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
        Self::from_bits(if is_nan { nan } else { rounded } as u16)
    }

    #[inline(always)]
    fn lanes<C: Context>(c: C, values: &[Self; LANES]) -> C::Of<f32> {
        c.of_bf16(values)
    }

    #[inline(always)]
    fn rounded<C: Context>(c: C, values: C::Of<f32>) -> [Self; LANES] {
        c.to_bf16(values)
    }

    #[inline(always)]
    fn held<C: Context>(c: C, values: C::Of<f32>) -> C::Of<f32> {
        c.held_by_bf16(values)
    }
}

impl Element for f16 {
    const DTYPE: DType = DType::F16;

    fn values(values: Vec<Self>) -> Values {
        Values::F16(values)
    }

    type Acc = f32;

    #[inline(always)]
    fn load(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let sign = (bits & 0x8000) << 16;
        let magnitude = bits & 0x7fff;
        // Exponent and mantissa move to the place that they have in f32. A multiplication by 2^112 then
        // rebiases the exponent; it is exact, and also right for subnormals.
        let finite = (f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000)).to_bits();
        let special = (magnitude << 13) | 0x7f80_0000;
        let bits = if magnitude >= 0x7c00 { special } else { finite };
        f32::from_bits(bits | sign)
    }

    #[inline(always)]
    fn round(value: f32) -> Self {
        let bits = value.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        // Normal results: rebias the exponent (127 to 15) and round the 13 lost bits.
        let ties_to_even = 0xfff + ((magnitude >> 13) & 1);
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(ties_to_even) >> 13;
        // Subnormal results (below 2^-14): adding one half moves the unit of f16's subnormals,
        // 2^-24, to f32's last bit, so the addition rounds.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits() & 0x7ff;
        let finite = if magnitude < 113 << 23 {
            subnormal
        } else {
            normal
        };
        // From 65520 on, the nearest value is infinity.
        let large = if magnitude > 0x7f80_0000 {
            0x7e00 | ((magnitude >> 13) & 0x1ff)
        } else {
            0x7c00
        };
        let result = if magnitude >= 0x477f_f000 {
            large
        } else {
            finite
        };
        Self::from_bits((result | sign) as u16)
    }

    #[inline(always)]
    fn lanes<C: Context>(c: C, values: &[Self; LANES]) -> C::Of<f32> {
        c.of_f16(values)
    }

    #[inline(always)]
    fn rounded<C: Context>(c: C, values: C::Of<f32>) -> [Self; LANES] {
        c.to_f16(values)
    }
}

/// Runs `$body` with the type parameter `$T` bound to the Rust type of a [`DType`](super::DType). `$body` calls a generic
/// function: in it, `T::round` is that of [`Element`]; here, where the type is known, it would be that of f32 itself.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            #[cfg(feature = "f64-kernels")]
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
            #[cfg(not(feature = "f64-kernels"))]
            $crate::DType::F64 => panic!("this build has no CPU kernels in f64"),
            $crate::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::DType::F16 => {
                type $T = ::half::f16;
                $body
            }
            $crate::DType::Bf16 => {
                type $T = ::half::bf16;
                $body
            }
        }
    };
}
pub(crate) use with_type;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every sign and exponent with mantissas around each rounding boundary.
    fn floats() -> impl Iterator<Item = f32> {
        let mantissas = (0..0x80_0000_u32)
            .step_by(0x0fff)
            .chain(
                (0..0x400)
                    .flat_map(|m| [(m << 13) | 0x0fff, (m << 13) | 0x1000, (m << 13) | 0x1001]),
            )
            .chain([0, 1, 0x7f_ffff, 0x40_0000]);
        let mantissas: Vec<u32> = mantissas.filter(|m| *m < 0x80_0000).collect();
        (0..512_u32).flat_map(move |top| {
            mantissas
                .clone()
                .into_iter()
                .map(move |m| f32::from_bits((top << 23) | m))
        })
    }

    #[test]
    fn bf16_rounds_like_half() {
        for bits in 0..=u16::MAX {
            let x = bf16::from_bits(bits);
            assert_eq!(x.load().to_bits(), u32::from(bits) << 16);
        }
        for x in floats() {
            let (ours, theirs) = (<bf16 as Element>::round(x), bf16::from_f32(x));
            assert!(
                ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
                "{x:e}: {ours} and {theirs}"
            );
        }
    }

    #[test]
    fn f16_converts_like_half() {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits);
            let (ours, theirs) = (x.load(), x.to_f32());
            assert!(
                ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
                "{bits:#x}: {ours} and {theirs}"
            );
        }
        for x in floats() {
            let (ours, theirs) = (<f16 as Element>::round(x), f16::from_f32(x));
            assert!(
                ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
                "{x:e}: {ours} and {theirs}"
            );
        }
    }
}
