use super::{Context, HALF_UNIT, LANES, Lanes, UPPER};
use crate::number::{self, EXP_BOUNDS, LN2, Single, exp_near_zero};
use crate::{Number, Real};
use half::{bf16, f16};
use pulp::x86::V4;
use std::arch::x86_64::{
    __m256i, __m512, __m512i, _CMP_LE_OQ, _CMP_NLE_UQ, _CMP_NLT_UQ, _MM_FROUND_NO_EXC,
    _MM_FROUND_TO_NEAREST_INT, _MM_FROUND_TO_NEG_INF,
};
use std::ops::{Add, Div, Mul, Sub};

/// Sixteen f32 in one register.
#[derive(Clone, Copy)]
pub struct Avx512 {
    values: __m512,
    c: V4,
}

macro_rules! one_instruction {
    ($($Operation:ident $operation:ident $instruction:ident)+) => {
        $(impl $Operation for Avx512 {
            type Output = Self;

            #[inline(always)]
            fn $operation(self, other: Self) -> Self {
                let values = self.c.avx512f.$instruction(self.values, other.values);
                Self { values, ..self }
            }
        })+
    };
}
one_instruction! {
    Add add _mm512_add_ps
    Sub sub _mm512_sub_ps
    Mul mul _mm512_mul_ps
    Div div _mm512_div_ps
}

impl Lanes<f32, V4> for Avx512 {
    #[inline(always)]
    fn splat(c: V4, value: f32) -> Self {
        let values = c.avx512f._mm512_set1_ps(value);
        Self { values, c }
    }

    #[inline(always)]
    fn read(c: V4, values: &[f32; LANES]) -> Self {
        let values = bytemuck::cast(*values);
        Self { values, c }
    }

    #[inline(always)]
    fn values(self) -> [f32; LANES] {
        bytemuck::cast(self.values)
    }

    #[inline(always)]
    fn total(self) -> f32 {
        self.c.avx512f._mm512_reduce_add_ps(self.values)
    }

    /// Adds neighbours, then pairs, then quarters of all, so that each step halves the number of registers.
    #[inline(always)]
    fn totals(each: [Self; LANES]) -> [f32; LANES] {
        let mut neighbours = [each[0]; LANES / 2];
        for (i, sum) in neighbours.iter_mut().enumerate() {
            *sum = each[2 * i].with_neighbours(each[2 * i + 1]);
        }
        let mut pairs = [each[0]; LANES / 4];
        for (i, sum) in pairs.iter_mut().enumerate() {
            *sum = neighbours[2 * i].with_pairs(neighbours[2 * i + 1]);
        }
        let [a, b, c, d] = pairs;
        a.with_quarters(b)
            .with_quarters(c.with_quarters(d))
            .values()
    }
}

impl Avx512 {
    /// Returns the numbers in bf16, rounded to nearest.
    #[inline(always)]
    fn upper_half_rounded(self) -> Self {
        let avx512 = self.c.avx512f;
        let half = avx512._mm512_set1_epi32(HALF_UNIT as i32);
        let up = avx512._mm512_add_epi32(bytemuck::cast(self.values), half);
        let bits = avx512._mm512_and_si512(up, avx512._mm512_set1_epi32(UPPER as i32));
        let values = bytemuck::cast(bits);
        Self { values, ..self }
    }
}

impl Avx512 {
    /// Returns bits whose upper halves are the numbers in bf16, rounded to nearest, ties to even. Each NaN is the processor's
    /// default one, which rounding leaves a NaN.
    #[inline(always)]
    fn rounded_to_even(self) -> __m512i {
        let avx512 = self.c.avx512f;
        let classes = avx512._mm512_set1_epi32(DEFAULT_NAN);
        let numbers = avx512._mm512_fixupimm_ps::<0>(self.values, self.values, classes);
        let bits: __m512i = bytemuck::cast(numbers);
        let last_place = avx512._mm512_set1_epi32(1 << 16);
        let is_odd = avx512._mm512_test_epi32_mask(bits, last_place);
        let up = avx512._mm512_add_epi32(bits, avx512._mm512_set1_epi32(0x7fff));
        avx512._mm512_mask_add_epi32(up, is_odd, up, avx512._mm512_set1_epi32(1))
    }
}

/// A table for `vfixupimmps`, four bits for each class of numbers: the number itself (1), or the default NaN (3) for the first
/// two classes, which are the quiet and the signalling NaN.
const DEFAULT_NAN: i32 = 0x1111_1133;

/// The places of the upper halves of sixteen numbers, in elements of 16 bits. Those of the second half of a result are unused.
const UPPER_HALVES: [i16; 2 * LANES] = {
    let (mut places, mut lane) = ([0; 2 * LANES], 0);
    while lane < LANES {
        places[lane] = 2 * lane as i16 + 1;
        lane += 1;
    }
    places
};

/// Steps of [`totals`](Lanes::totals).
impl Avx512 {
    /// Returns, by turns, elements that sum to those of each operand.
    #[inline(always)]
    fn with_neighbours(self, other: Self) -> Self {
        let avx512 = self.c.avx512f;
        let low = avx512._mm512_unpacklo_ps(self.values, other.values);
        let high = avx512._mm512_unpackhi_ps(self.values, other.values);
        let values = avx512._mm512_add_ps(low, high);
        Self { values, ..self }
    }

    /// Returns pairs by turns that sum to those of each operand.
    #[inline(always)]
    fn with_pairs(self, other: Self) -> Self {
        let avx512 = self.c.avx512f;
        let (a, b) = (bytemuck::cast(self.values), bytemuck::cast(other.values));
        let low = bytemuck::cast(avx512._mm512_unpacklo_pd(a, b));
        let high = bytemuck::cast(avx512._mm512_unpackhi_pd(a, b));
        let values = avx512._mm512_add_ps(low, high);
        Self { values, ..self }
    }

    /// Returns the sums of quarters 0 and 1 and of quarters 2 and 3 of each operand.
    #[inline(always)]
    fn with_quarters(self, other: Self) -> Self {
        let avx512 = self.c.avx512f;
        let even = avx512._mm512_shuffle_f32x4::<0b10_00_10_00>(self.values, other.values);
        let odd = avx512._mm512_shuffle_f32x4::<0b11_01_11_01>(self.values, other.values);
        let values = avx512._mm512_add_ps(even, odd);
        Self { values, ..self }
    }
}

impl Number for Avx512 {
    #[inline(always)]
    fn like(self, value: f64) -> Self {
        Self::splat(self.c, value as f32)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        let avx512 = self.c.avx512f;
        let values = avx512._mm512_fmadd_ps(self.values, factor.values, term.values);
        Self { values, ..self }
    }

    /// Computes as `f32::exp` of this crate does. `2^n` is applied by one instruction, which also underflows gradually. It
    /// leaves out the lanes that are zero.
    #[inline(always)]
    fn exp(self) -> Self {
        let [lowest, highest] = EXP_BOUNDS;
        let x = self.at_most(self.like(highest));
        let avx512 = self.c.avx512f;
        let is_above = avx512._mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x.values, self.like(lowest).values);
        let scaled = x * self.like(std::f64::consts::LOG2_E);
        let n = avx512._mm512_roundscale_ps::<_MM_FROUND_TO_NEAREST_INT>(scaled.values);
        let n = Self { values: n, ..self };
        let [high, low] = LN2;
        let r = n.mul_add(self.like(-low), n.mul_add(self.like(-high), x));
        let near_zero = exp_near_zero(r).values;
        let values = avx512._mm512_maskz_scalef_ps(is_above, near_zero, n.values);
        Self { values, ..self }
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
        let values = self.c.avx512f._mm512_min_ps(limit.values, self.values);
        Self { values, ..self }
    }

    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        let values = self.c.avx512f._mm512_max_ps(limit.values, self.values);
        Self { values, ..self }
    }

    #[inline(always)]
    fn where_at_most(self, limit: Self, yes: Self, no: Self) -> Self {
        let avx512 = self.c.avx512f;
        let is = avx512._mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.values, limit.values);
        let values = avx512._mm512_mask_mov_ps(no.values, is, yes.values);
        Self { values, ..self }
    }
}

impl Single for Avx512 {
    #[inline(always)]
    fn upper_half(self) -> Self {
        let avx512 = self.c.avx512f;
        let mask = avx512._mm512_set1_epi32(0xffff_f000_u32 as i32);
        let bits = avx512._mm512_and_si512(bytemuck::cast(self.values), mask);
        let values = bytemuck::cast(bits);
        Self { values, ..self }
    }
}

impl Context for V4 {
    type Of<A: Real> = A::Avx512;

    const LOOKS_UP: bool = true;

    #[inline(always)]
    fn of_bf16(self, values: &[bf16; LANES]) -> Avx512 {
        let (avx512, halves) = (self.avx512f, bytemuck::cast::<_, __m256i>(*values));
        let upper = avx512._mm512_slli_epi32::<16>(avx512._mm512_cvtepu16_epi32(halves));
        let values = bytemuck::cast(upper);
        Avx512 { values, c: self }
    }

    #[inline(always)]
    fn of_f16(self, values: &[f16; LANES]) -> Avx512 {
        let values = self.avx512f._mm512_cvtph_ps(bytemuck::cast(*values));
        Avx512 { values, c: self }
    }

    #[inline(always)]
    fn of_i8(self, values: &[i8; LANES]) -> Avx512 {
        let avx512 = self.avx512f;
        let integers = avx512._mm512_cvtepi8_epi32(bytemuck::cast(*values));
        let values = avx512._mm512_cvtepi32_ps(integers);
        Avx512 { values, c: self }
    }

    /// The instruction reads the lower four bits of a place.
    #[inline(always)]
    fn of_table(self, table: &[f32; LANES], places: &[u8; LANES]) -> Avx512 {
        let avx512 = self.avx512f;
        let places = avx512._mm512_cvtepu8_epi32(bytemuck::cast(*places));
        let values = avx512._mm512_permutexvar_ps(places, bytemuck::cast(*table));
        Avx512 { values, c: self }
    }

    /// Each byte in 64 bits becomes two places in 32 bits, of which the lower four count.
    #[inline(always)]
    fn of_halves(self, table: &[f32; LANES], bytes: &[u8; 8], low_first: bool) -> Avx512 {
        let (avx512, bytes) = (self.avx512f, u64::from_le_bytes(*bytes));
        let bytes = avx512._mm512_cvtepu8_epi64(bytemuck::cast([bytes, 0]));
        let places = match low_first {
            true => avx512._mm512_or_si512(bytes, avx512._mm512_slli_epi64::<28>(bytes)),
            false => {
                let upper = avx512._mm512_srli_epi64::<4>(bytes);
                avx512._mm512_or_si512(upper, avx512._mm512_slli_epi64::<32>(bytes))
            }
        };
        let values = avx512._mm512_permutexvar_ps(places, bytemuck::cast(*table));
        Avx512 { values, c: self }
    }

    /// Computes as [`bf16::round`](crate::Element::round) does, but each NaN is the processor's default one. One
    /// permutation takes the upper halves, where a shift and a truncation are three operations of Intel's processors.
    #[inline(always)]
    fn to_bf16(self, values: Avx512) -> [bf16; LANES] {
        let (avx512, bits) = (self.avx512f, values.rounded_to_even());
        let upper = bytemuck::cast(UPPER_HALVES);
        let halves = self.avx512bw._mm512_permutexvar_epi16(upper, bits);
        bytemuck::cast(avx512._mm512_castsi512_si256(halves))
    }

    #[inline(always)]
    fn held_by_bf16(self, values: Avx512) -> Avx512 {
        let (avx512, bits) = (self.avx512f, values.rounded_to_even());
        let upper = avx512._mm512_and_si512(bits, avx512._mm512_set1_epi32(UPPER as i32));
        let values = bytemuck::cast(upper);
        Avx512 { values, c: self }
    }

    #[inline(always)]
    fn to_f16(self, values: Avx512) -> [f16; LANES] {
        let halves = self
            .avx512f
            ._mm512_cvtps_ph::<_MM_FROUND_NO_EXC>(values.values);
        bytemuck::cast(halves)
    }

    /// The exponent is the floor of `x`, which the last instruction takes, and the rest of `x` is that of a polynomial. Results
    /// below 2^-126, which would be slow, are zero.
    #[inline(always)]
    fn power_of_two(self, x: Avx512) -> Avx512 {
        const TO_FLOOR: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
        let lowest = x.like(-126.0).values;
        let is_above = (self.avx512f)._mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x.values, lowest);
        let values = self.avx512dq._mm512_reduce_ps::<TO_FLOOR>(x.values);
        let power = power_of_fraction(Avx512 { values, c: self }).values;
        let values = (self.avx512f)._mm512_maskz_scalef_ps(is_above, power, x.values);
        Avx512 { values, c: self }
    }

    #[inline(always)]
    fn to_bf16_and_rest(self, first: Avx512, second: Avx512) -> [[f32; LANES]; 2] {
        let uppers = [first.upper_half_rounded(), second.upper_half_rounded()];
        let rests = [first - uppers[0], second - uppers[1]];
        [upper_halves(self, uppers), upper_halves(self, rests)]
    }
}

/// Returns the upper halves of two numbers of each lane, as pairs.
#[inline(always)]
fn upper_halves(c: V4, [first, second]: [Avx512; 2]) -> [f32; LANES] {
    let first = c
        .avx512f
        ._mm512_srli_epi32::<16>(bytemuck::cast(first.values));
    let second = bytemuck::cast(second.values);
    // Every second element of 16 bits is the upper half of the second number.
    bytemuck::cast(c.avx512bw._mm512_mask_mov_epi16(first, 0xaaaa_aaaa, second))
}

/// Returns `2^f` for `0 ≤ f ≤ 1`: the polynomial of degree 5 that is 1 at zero and has the least largest relative error, 2^-23.5.
#[inline(always)]
fn power_of_fraction(f: Avx512) -> Avx512 {
    let coefficients = [
        1.0,
        0.693_151_311_809,
        0.240_164_450_096,
        0.055_799_913_321,
        0.009_017_030_019,
        0.001_867_130_213,
    ];
    number::polynomial(f, coefficients)
}
