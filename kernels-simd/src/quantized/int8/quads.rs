//! Sums of products of four neighbours, in integers.

use crate::lanes::Portable;
use crate::{Context, LANES};

/// The instructions of a machine that multiply bytes.
pub(super) trait Quads: Copy + Send + Sync {
    type Lanes: Context;

    fn lanes(self) -> Self::Lanes;

    /// Adds the products of codes and numbers, four neighbours to each sum. Nothing saturates or overflows, in sums of
    /// at most 2^16 products.
    fn add(self, sums: Sums, codes: &Codes, numbers: &Numbers) -> Sums;
}

pub(super) type Sums = [i32; LANES];

/// Codes of weights, and rounded numbers of `x` from −127 to 127.
pub(super) type Codes = [u8; 4 * LANES];
pub(super) type Numbers = [i8; 4 * LANES];

/// Work on bytes. A trait, so that its method can be `#[inline(always)]`.
pub(super) trait Work {
    fn run<Q: Quads>(self, q: Q);
}

/// Runs work with the fastest instructions of this machine.
pub(super) fn run<W: Work>(work: W) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if let (true, Some(c)) = (vnni::available(), pulp::x86::V4::try_new()) {
            // SAFETY: this machine has the instructions: `V4` shows all but those of VNNI, which were asked for.
            return unsafe { vnni::run(work, c) };
        }
        let c = crate::lanes::v3();
        pulp::Simd::vectorize(c, WithV3 { work, c });
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    work.run(Portable);
}

impl Quads for Portable {
    type Lanes = Self;

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }

    #[inline(always)]
    fn add(self, mut sums: Sums, codes: &Codes, numbers: &Numbers) -> Sums {
        let quads = codes.as_chunks::<4>().0.iter();
        let quads = quads.zip(numbers.as_chunks::<4>().0);
        for (sum, (codes, numbers)) in sums.iter_mut().zip(quads) {
            for (code, number) in codes.iter().zip(numbers) {
                *sum += i32::from(*code) * i32::from(*number);
            }
        }
        sums
    }
}

#[cfg(target_arch = "x86_64")]
struct WithV3<W> {
    work: W,
    c: pulp::x86::V3,
}

#[cfg(target_arch = "x86_64")]
impl<W: Work> pulp::WithSimd for WithV3<W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        self.work.run(self.c);
    }
}

/// AVX2 multiplies bytes to sums of two in 16 bits, which saturate. So bytes are widened first.
#[cfg(target_arch = "x86_64")]
impl Quads for pulp::x86::V3 {
    type Lanes = Self;

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }

    #[inline(always)]
    fn add(self, sums: Sums, codes: &Codes, numbers: &Numbers) -> Sums {
        use std::arch::x86_64::{__m128i, __m256i};
        let avx2 = self.avx2;
        let mut sums: [__m256i; 2] = bytemuck::cast(sums);
        let codes: [__m128i; 4] = bytemuck::cast(*codes);
        let numbers: [__m128i; 4] = bytemuck::cast(*numbers);
        for (half, sum) in sums.iter_mut().enumerate() {
            let mut products = [*sum; 2];
            for (i, products) in products.iter_mut().enumerate() {
                let codes = avx2._mm256_cvtepu8_epi16(codes[2 * half + i]);
                let numbers = avx2._mm256_cvtepi8_epi16(numbers[2 * half + i]);
                *products = avx2._mm256_madd_epi16(codes, numbers);
            }
            let [first, second] = products;
            // Neighbours of each half of a register, by turns.
            let pairs = avx2._mm256_hadd_epi32(first, second);
            let pairs = avx2._mm256_permute4x64_epi64::<0b11_01_10_00>(pairs);
            *sum = avx2._mm256_add_epi32(*sum, pairs);
        }
        bytemuck::cast(sums)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vnni {
    use super::{Codes, Numbers, Quads, Sums, Work};
    use pulp::x86::V4;
    use std::arch::x86_64::_mm512_dpbusd_epi32;

    pub(super) fn available() -> bool {
        is_x86_feature_detected!("avx512vnni")
    }

    /// Runs work with AVX-512 and VNNI.
    #[target_feature(
        enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
    )]
    #[inline(never)]
    pub(super) fn run<W: Work>(work: W, c: V4) {
        work.run(Vnni(c));
    }

    /// A value shows that the machine has the instructions: only [`run`] makes one.
    #[derive(Clone, Copy)]
    struct Vnni(V4);

    impl Quads for Vnni {
        type Lanes = V4;

        #[inline(always)]
        fn lanes(self) -> V4 {
            self.0
        }

        #[inline(always)]
        fn add(self, sums: Sums, codes: &Codes, numbers: &Numbers) -> Sums {
            let (sums, codes) = (bytemuck::cast(sums), bytemuck::cast(*codes));
            // SAFETY: the machine has the instruction, as a value of this type shows.
            let sums = unsafe { _mm512_dpbusd_epi32(sums, codes, bytemuck::cast(*numbers)) };
            bytemuck::cast(sums)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares sums with those of the formula.
    struct Sum;

    impl Work for Sum {
        #[inline(always)]
        fn run<Q: Quads>(self, q: Q) {
            for seed in 0..64 {
                let (sums, codes, numbers) = operands(seed);
                let expected: Sums = std::array::from_fn(|i| {
                    let products =
                        (4 * i..4 * i + 4).map(|at| i32::from(codes[at]) * i32::from(numbers[at]));
                    sums[i] + products.sum::<i32>()
                });
                assert_eq!(q.add(sums, &codes, &numbers), expected, "seed {seed}");
            }
        }
    }

    /// Returns random operands, and for the first two seeds those of the largest sums.
    fn operands(seed: u32) -> (Sums, Codes, Numbers) {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let sums = std::array::from_fn(|_| (i32::from(next()) - 128) << 16);
        match seed {
            0 => (sums, [255; _], [127; _]),
            1 => (sums, [255; _], [-127; _]),
            _ => {
                let codes = std::array::from_fn(|_| next());
                (
                    sums,
                    codes,
                    std::array::from_fn(|_| (next() as i8).max(-127)),
                )
            }
        }
    }

    #[test]
    fn every_machine_adds_the_same_products() {
        Sum.run(Portable);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(c) = pulp::x86::V3::try_new() {
            pulp::Simd::vectorize(c, WithV3 { work: Sum, c });
        }
        run(Sum);
    }
}
