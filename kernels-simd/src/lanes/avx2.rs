use super::{Context, LANES, Lanes};
use crate::number::{self, EXP_BOUNDS, LN2, Single, exp_near_zero};
use crate::{Element, Number, Real};
use half::{bf16, f16};
use pulp::x86::V3;
use std::arch::x86_64::{
    __m128i, __m256, __m256i, _CMP_LE_OQ, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT,
};
use std::ops::{Add, Div, Mul, Sub};

/// Sixteen f32 in two registers.
#[derive(Clone, Copy)]
pub struct Avx2 {
    values: [__m256; 2],
    c: V3,
}

macro_rules! two_instructions {
    ($($Operation:ident $operation:ident $instruction:ident)+) => {
        $(impl $Operation for Avx2 {
            type Output = Self;

            #[inline(always)]
            fn $operation(self, other: Self) -> Self {
                let ([a, b], [c, d]) = (self.values, other.values);
                let avx = self.c.avx;
                let values = [avx.$instruction(a, c), avx.$instruction(b, d)];
                Self { values, ..self }
            }
        })+
    };
}
two_instructions! {
    Add add _mm256_add_ps
    Sub sub _mm256_sub_ps
    Mul mul _mm256_mul_ps
    Div div _mm256_div_ps
}

impl Lanes<f32, V3> for Avx2 {
    #[inline(always)]
    fn splat(c: V3, value: f32) -> Self {
        let values = [c.avx._mm256_set1_ps(value); 2];
        Self { values, c }
    }

    #[inline(always)]
    fn read(c: V3, values: &[f32; LANES]) -> Self {
        let values = bytemuck::cast(*values);
        Self { values, c }
    }

    #[inline(always)]
    fn values(self) -> [f32; LANES] {
        bytemuck::cast(self.values)
    }

    #[inline(always)]
    fn total(self) -> f32 {
        let [low, high] = self.values;
        let sums = self.c.avx._mm256_add_ps(low, high);
        let [a, b, c, d, e, f, g, h]: [f32; 8] = bytemuck::cast(sums);
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
}

impl Avx2 {
    /// Applies `2^n`, `n` whole, in two halves, so that it underflows gradually.
    #[inline(always)]
    fn times_two_to_the(self, n: Self) -> Self {
        let (avx, avx2) = (self.c.avx, self.c.avx2);
        let mut values = self.values;
        for (value, n) in values.iter_mut().zip(n.values) {
            let n = avx._mm256_cvtps_epi32(n);
            let first = avx2._mm256_srai_epi32::<1>(n);
            for half in [first, avx2._mm256_sub_epi32(n, first)] {
                let biased = avx2._mm256_add_epi32(half, avx._mm256_set1_epi32(127));
                let power = bytemuck::cast(avx2._mm256_slli_epi32::<23>(biased));
                *value = avx._mm256_mul_ps(*value, power);
            }
        }
        Self { values, ..self }
    }
}

impl Number for Avx2 {
    #[inline(always)]
    fn like(self, value: f64) -> Self {
        Self::splat(self.c, value as f32)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        let mut values = self.values;
        for (i, value) in values.iter_mut().enumerate() {
            let (factor, term) = (factor.values[i], term.values[i]);
            *value = self.c.fma._mm256_fmadd_ps(*value, factor, term);
        }
        Self { values, ..self }
    }

    /// Computes as `f32::exp` of this crate does.
    #[inline(always)]
    fn exp(self) -> Self {
        let [lowest, highest] = EXP_BOUNDS;
        let x = self.at_most(self.like(highest)).at_least(self.like(lowest));
        let scaled = x * self.like(std::f64::consts::LOG2_E);
        let mut values = scaled.values;
        for value in &mut values {
            *value = self
                .c
                .avx
                ._mm256_round_ps::<_MM_FROUND_TO_NEAREST_INT>(*value);
        }
        let n = Self { values, ..self };
        let [high, low] = LN2;
        let r = n.mul_add(self.like(-low), n.mul_add(self.like(-high), x));
        let near_zero = exp_near_zero(r);
        let near_zero = x.where_at_most(x.like(lowest), x.like(0.0), near_zero);
        near_zero.times_two_to_the(n)
    }

    #[inline(always)]
    fn tanh(self) -> Self {
        number::tanh(self)
    }

    #[inline(always)]
    fn ln_1p(self) -> Self {
        number::ln_1p(self)
    }

    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        number::normal(self)
    }

    /// The instruction returns its second operand if one is NaN.
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        let ([a, b], [c, d]) = (self.values, limit.values);
        let avx = self.c.avx;
        let values = [avx._mm256_min_ps(c, a), avx._mm256_min_ps(d, b)];
        Self { values, ..self }
    }

    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        let ([a, b], [c, d]) = (self.values, limit.values);
        let avx = self.c.avx;
        let values = [avx._mm256_max_ps(c, a), avx._mm256_max_ps(d, b)];
        Self { values, ..self }
    }

    #[inline(always)]
    fn where_at_most(self, limit: Self, yes: Self, no: Self) -> Self {
        let avx = self.c.avx;
        let mut values = no.values;
        for (i, value) in values.iter_mut().enumerate() {
            let is = avx._mm256_cmp_ps::<_CMP_LE_OQ>(self.values[i], limit.values[i]);
            *value = avx._mm256_blendv_ps(*value, yes.values[i], is);
        }
        Self { values, ..self }
    }
}

impl Single for Avx2 {
    #[inline(always)]
    fn upper_half(self) -> Self {
        let (avx, avx2) = (self.c.avx, self.c.avx2);
        let mask = avx._mm256_set1_epi32(0xffff_f000_u32 as i32);
        let mut values = self.values;
        for value in &mut values {
            *value = bytemuck::cast(avx2._mm256_and_si256(bytemuck::cast(*value), mask));
        }
        Self { values, ..self }
    }
}

impl Context for V3 {
    type Of<A: Real> = A::Avx2;

    #[inline(always)]
    fn of_bf16(self, values: &[bf16; LANES]) -> Avx2 {
        let halves: [__m128i; 2] = bytemuck::cast(*values);
        let mut values = [self.avx._mm256_setzero_ps(); 2];
        for (value, halves) in values.iter_mut().zip(halves) {
            let lower = self.avx2._mm256_cvtepu16_epi32(halves);
            *value = bytemuck::cast(self.avx2._mm256_slli_epi32::<16>(lower));
        }
        Avx2 { values, c: self }
    }

    #[inline(always)]
    fn of_i8(self, values: &[i8; LANES]) -> Avx2 {
        let halves: [u64; 2] = bytemuck::cast(*values);
        let mut values = [self.avx._mm256_setzero_ps(); 2];
        for (value, half) in values.iter_mut().zip(halves) {
            let integers = self.avx2._mm256_cvtepi8_epi32(bytemuck::cast([half, 0]));
            *value = self.avx._mm256_cvtepi32_ps(integers);
        }
        Avx2 { values, c: self }
    }

    /// Each half of the table is looked up by three bits. The fourth, moved to the sign, chooses between them.
    #[inline(always)]
    fn of_table(self, table: &[f32; LANES], places: &[u8; LANES]) -> Avx2 {
        let (avx, avx2) = (self.avx, self.avx2);
        let [first, second]: [__m256; 2] = bytemuck::cast(*table);
        let halves: [u64; 2] = bytemuck::cast(*places);
        let mut values = [avx._mm256_setzero_ps(); 2];
        for (value, half) in values.iter_mut().zip(halves) {
            let places = avx2._mm256_cvtepu8_epi32(bytemuck::cast([half, 0]));
            let low = avx2._mm256_permutevar8x32_ps(first, places);
            let high = avx2._mm256_permutevar8x32_ps(second, places);
            let is_high = bytemuck::cast(avx2._mm256_slli_epi32::<28>(places));
            *value = avx._mm256_blendv_ps(low, high, is_high);
        }
        Avx2 { values, c: self }
    }

    /// Computes as [`bf16::round`](crate::Element::round) does.
    #[inline(always)]
    fn to_bf16(self, values: Avx2) -> [bf16; LANES] {
        let (avx, avx2) = (self.avx, self.avx2);
        let mut rounded = [avx._mm256_setzero_si256(); 2];
        for (rounded, values) in rounded.iter_mut().zip(values.values) {
            let bits: __m256i = bytemuck::cast(values);
            let last = avx2._mm256_srli_epi32::<16>(bits);
            let odd = avx2._mm256_and_si256(last, avx._mm256_set1_epi32(1));
            let up = avx2._mm256_add_epi32(bits, avx._mm256_set1_epi32(0x7fff));
            let nearest = bytemuck::cast(avx2._mm256_add_epi32(up, odd));
            let is_nan = avx._mm256_cmp_ps::<_CMP_UNORD_Q>(values, values);
            let quiet = avx2._mm256_or_si256(bits, avx._mm256_set1_epi32(0x40_0000));
            let upper = avx._mm256_blendv_ps(nearest, bytemuck::cast(quiet), is_nan);
            *rounded = avx2._mm256_srli_epi32::<16>(bytemuck::cast(upper));
        }
        // Packing takes quarters by turns.
        let [low, high] = rounded;
        let packed = avx2._mm256_packus_epi32(low, high);
        bytemuck::cast(avx2._mm256_permute4x64_epi64::<0b11_01_10_00>(packed))
    }

    #[inline(always)]
    fn of_f16(self, values: &[f16; LANES]) -> Avx2 {
        let mut lanes = [0.0; LANES];
        pulp::Simd::vectorize(self, Load(values, &mut lanes));
        Lanes::read(self, &lanes)
    }

    #[inline(always)]
    fn to_f16(self, values: Avx2) -> [f16; LANES] {
        let mut halves = [f16::ZERO; LANES];
        pulp::Simd::vectorize(self, Round(&values.values(), &mut halves));
        halves
    }
}

/// Conversions of f16, which AVX2 alone has no instructions for. They are calls, since they are long.
struct Load<'a>(&'a [f16; LANES], &'a mut [f32; LANES]);

impl pulp::WithSimd for Load<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (lane, half) in self.1.iter_mut().zip(self.0) {
            *lane = half.load();
        }
    }
}

struct Round<'a>(&'a [f32; LANES], &'a mut [f16; LANES]);

impl pulp::WithSimd for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (half, lane) in self.1.iter_mut().zip(self.0) {
            *half = <f16 as Element>::round(*lane);
        }
    }
}
