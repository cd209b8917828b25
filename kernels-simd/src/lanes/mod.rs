//! Sixteen numbers that are computed together, in the registers of the machine.
//!
//! The compiler vectorises simple loops, but neither sums of floating-point numbers, whose order it must keep, nor most
//! conversions of half types. Kernels that need these are written on [`Lanes`]. [`dispatch`] chooses the registers at run
//! time. On x86-64 they are those of AVX-512 or AVX2, which [`vectorize`] needs; on other processors they are arrays that the
//! compiler vectorises as well as it can. In f64 it is always these arrays, with the instructions that every machine has.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod portable;

pub use blocks::{Blocks, Padded, Read, Rounded, Terms, Whole, block, load_blocks, sum_of_terms};
#[cfg(target_arch = "x86_64")]
pub use {avx2::Avx2, avx512::Avx512, portable::Array};

pub use portable::Portable;

use super::{Number, Real};
use half::{bf16, f16};

/// The number of elements that are computed together.
pub const LANES: usize = 16;

/// Sixteen numbers of type `A`, in registers that exist where there is a `C`.
pub trait Lanes<A, C>: Number {
    /// Returns a number in every lane.
    fn splat(c: C, value: A) -> Self;
    fn read(c: C, values: &[A; LANES]) -> Self;
    fn values(self) -> [A; LANES];
    /// Returns the sum of the lanes, added pairwise.
    fn total(self) -> A;

    /// Returns the [`total`](Self::total) of each.
    #[inline(always)]
    fn totals(each: [Self; LANES]) -> [A; LANES] {
        each.map(Self::total)
    }
}

/// The instructions of a machine. A value shows that the machine has them.
pub trait Context: Copy + Send + Sync {
    type Of<A: Real>: Lanes<A, Self>;

    /// `true` if [`of_table`](Self::of_table) is faster than a few operations of arithmetic.
    const LOOKS_UP: bool = false;

    fn of_bf16(self, values: &[bf16; LANES]) -> Self::Of<f32>;
    fn of_f16(self, values: &[f16; LANES]) -> Self::Of<f32>;
    fn of_i8(self, values: &[i8; LANES]) -> Self::Of<f32>;
    /// Returns the numbers of a table at places, of which the lower four bits count.
    fn of_table(self, table: &[f32; LANES], places: &[u8; LANES]) -> Self::Of<f32>;
    /// Returns the numbers of a table at the places of eight bytes, two of four bits each: those of a byte's upper
    /// half, then of its lower one, or the other way round.
    #[inline(always)]
    fn of_halves(self, table: &[f32; LANES], bytes: &[u8; 8], low_first: bool) -> Self::Of<f32> {
        let mut places = [0; LANES];
        for (pair, byte) in places.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            *pair = match low_first {
                true => [*byte, byte >> 4],
                false => [byte >> 4, *byte],
            };
        }
        self.of_table(table, &places)
    }

    /// Rounds to nearest, ties to even.
    fn to_bf16(self, values: Self::Of<f32>) -> [bf16; LANES];
    /// Returns the numbers that are left of others in bf16.
    #[inline(always)]
    fn held_by_bf16(self, values: Self::Of<f32>) -> Self::Of<f32> {
        self.of_bf16(&self.to_bf16(values))
    }

    /// Rounds to nearest, ties to even.
    fn to_f16(self, values: Self::Of<f32>) -> [f16; LANES];

    /// Returns `2^x` for `x` up to 1, within 2^-22 of the result. It may be zero from 2^-126 on.
    #[inline(always)]
    fn power_of_two(self, x: Self::Of<f32>) -> Self::Of<f32> {
        (x * x.like(std::f64::consts::LN_2)).exp()
    }

    /// Divides two numbers of each lane, below 2^127, into what bf16 holds of them, rounded to nearest, and the rest,
    /// rounded towards zero: 15 bits of them. Returns two lists of pairs of bf16, in each of which the first number has the
    /// lower half.
    #[inline(always)]
    fn to_bf16_and_rest(self, first: Self::Of<f32>, second: Self::Of<f32>) -> [[f32; LANES]; 2] {
        let (first, second) = (first.values(), second.values());
        let mut pairs = [[0.0; LANES]; 2];
        for lane in 0..LANES {
            let (first, first_rest) = parts(first[lane]);
            let (second, second_rest) = parts(second[lane]);
            pairs[0][lane] = f32::from_bits(first >> 16 | second);
            pairs[1][lane] = f32::from_bits(first_rest >> 16 | second_rest);
        }
        pairs
    }
}

/// Half a unit in the last place of bf16 and its bits, in those of f32.
const HALF_UNIT: u32 = 0x8000;
const UPPER: u32 = 0xffff_0000;

/// Returns the bits of a number in bf16 and of the rest in bf16.
#[inline(always)]
fn parts(value: f32) -> (u32, u32) {
    let rounded = value.to_bits().wrapping_add(HALF_UNIT) & UPPER;
    let rest = value - f32::from_bits(rounded);
    (rounded, rest.to_bits() & UPPER)
}

/// Work in a context. This is a trait and not a closure, because only a method can be `#[inline(always)]`, and only code
/// that is inlined into the context is compiled for its instructions.
pub trait Task {
    /// The type that the task computes in.
    type Acc: Real;
    type Output;

    /// Implementations are `#[inline(always)]`.
    fn run<C: Context>(self, c: C) -> Self::Output;
}

/// Runs a task with the widest registers of this machine that its type has.
pub fn dispatch<K: Task>(task: K) -> K::Output {
    K::Acc::dispatch(task)
}

/// Runs a task in f32.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) fn in_registers<K: Task>(task: K) -> K::Output {
    match pulp::x86::V4::try_new() {
        Some(c) => pulp::Simd::vectorize(c, With { task, c }),
        None => {
            let c = v3();
            pulp::Simd::vectorize(c, With { task, c })
        }
    }
}

/// Runs a task on arrays. The compiler uses the machine's instructions for them as well as it can.
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(super) fn in_arrays<K: Task>(task: K) -> K::Output {
    vectorize(With { task, c: Portable })
}

/// Runs work that the compiler vectorises, with the widest instructions of this machine.
///
/// # Panics
/// Panics on an x86-64 processor older than x86-64-v3, for which no kernel is chosen: the work is compiled twice there, for
/// AVX-512 and for AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub fn vectorize<W: pulp::WithSimd>(work: W) -> W::Output {
    match pulp::x86::V4::try_new() {
        Some(c) => pulp::Simd::vectorize(c, work),
        None => pulp::Simd::vectorize(v3(), work),
    }
}

/// Runs work that the compiler vectorises, with the widest instructions of this machine.
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub fn vectorize<W: pulp::WithSimd>(work: W) -> W::Output {
    pulp::Arch::new().dispatch(work)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub fn v3() -> pulp::x86::V3 {
    #[cold]
    fn too_old() -> ! {
        panic!(
            "the CPU kernels need a processor of x86-64-v3 (AVX2 and FMA), and this one is older"
        )
    }
    pulp::x86::V3::try_new().unwrap_or_else(|| too_old())
}

/// Runs a task on arrays, with the instructions that every machine has: it is compiled once.
pub(super) fn plain<K: Task>(task: K) -> K::Output {
    task.run(Portable)
}

struct With<K, C> {
    task: K,
    c: C,
}

impl<K: Task, C: Context> pulp::WithSimd for With<K, C> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> K::Output {
        self.task.run(self.c)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Element;

    /// Calls `check` with each context that this machine has.
    macro_rules! in_each_context {
        ($c:ident => $check:expr) => {{
            {
                let $c = $crate::lanes::Portable;
                $check
            }
            #[cfg(target_arch = "x86_64")]
            {
                if let Some($c) = pulp::x86::V3::try_new() {
                    $check
                }
                if let Some($c) = pulp::x86::V4::try_new() {
                    $check
                }
            }
        }};
    }
    pub(crate) use in_each_context;

    fn arithmetic<C: Context>(c: C) {
        let a: [f32; LANES] = std::array::from_fn(|i| i as f32 + 1.0);
        let b: [f32; LANES] = std::array::from_fn(|i| 3.0 - i as f32 / 2.0);
        let [x, y] = [a, b].map(|values| C::Of::<f32>::read(c, &values));
        let each = |of: fn(f32, f32) -> f32| std::array::from_fn::<_, LANES, _>(|i| of(a[i], b[i]));
        assert_eq!((x + y).values(), each(|a, b| a + b));
        assert_eq!((x - y).values(), each(|a, b| a - b));
        assert_eq!((x * y).values(), each(|a, b| a * b));
        assert_eq!((y / x).values(), each(|a, b| b / a));
        let two = C::Of::<f32>::splat(c, 2.0);
        assert_eq!(x.mul_add(y, two).values(), each(|a, b| a * b + 2.0));
        assert_eq!(x.total(), 136.0);
        let wide = C::Of::<f64>::read(c, &a.map(f64::from));
        assert_eq!(wide.mul_add(wide, wide).total(), 1496.0 + 136.0);
    }

    #[test]
    fn lanes_are_computed_one_by_one() {
        in_each_context!(c => arithmetic(c));
    }

    fn totals<C: Context>(c: C) {
        let rows: [[f32; LANES]; LANES] =
            std::array::from_fn(|row| std::array::from_fn(|i| (row * row * 100 + i) as f32));
        let mut lanes = [C::Of::<f32>::splat(c, 0.0); LANES];
        for (lanes, row) in lanes.iter_mut().zip(&rows) {
            *lanes = C::Of::<f32>::read(c, row);
        }
        let expected = rows.map(|row| row.iter().sum::<f32>());
        assert_eq!(C::Of::<f32>::totals(lanes), expected);
    }

    #[test]
    fn totals_are_those_of_each() {
        in_each_context!(c => totals(c));
    }

    /// Returns the distance of a result from the exact one, in units of the last place.
    fn ulps(result: f32, exact: f64) -> f64 {
        let magnitude = exact.abs() as f32;
        let ulp = f64::from(magnitude.next_up()) - f64::from(magnitude);
        (f64::from(result) - exact).abs() / ulp
    }

    /// Compares the functions with f64. This sample is denser than that of the single numbers, and finds Φ 5.65 ulp from the
    /// exact value at -1.5352343, in plain arithmetic too.
    fn functions<C: Context>(c: C) {
        let mut worst = [0.0_f64; 5];
        for first in -87_000..88_000 {
            let x: [f32; LANES] =
                std::array::from_fn(|i| (first as f32 + i as f32 / 16.0) / 1000.0);
            let lanes = C::Of::<f32>::read(c, &x);
            let near = lanes * lanes.like(0.125);
            let part = lanes * lanes.like(1.0 / 176.0) + lanes.like(0.5);
            let results = [
                lanes.exp(),
                near.tanh(),
                near.normal().0,
                near.normal().1,
                part.ln_1p(),
            ];
            let results = results.map(|lanes| lanes.values());
            let part = part.values();
            for (i, (x, near)) in x.into_iter().zip(near.values()).enumerate() {
                let (phi, density) = f64::from(near).normal();
                let log = f64::from(part[i]).ln_1p();
                let exact = [
                    f64::from(x).exp(),
                    f64::from(near).tanh(),
                    phi,
                    density,
                    log,
                ];
                for (function, exact) in exact.into_iter().enumerate() {
                    let error = ulps(results[function][i], exact);
                    assert!(error.is_finite(), "{x}");
                    worst[function] = worst[function].max(error);
                }
            }
        }
        let [exp, tanh, phi, density, log] = worst;
        assert!(
            exp < 2.0 && tanh < 4.0 && phi < 6.0 && density < 4.0 && log < 3.0,
            "{worst:?} ulp"
        );
    }

    #[test]
    fn functions_are_within_their_ulp() {
        in_each_context!(c => functions(c));
    }

    fn ends<C: Context>(c: C) {
        let splat = |value| C::Of::<f32>::splat(c, value);
        let exp = |x: f32| splat(x).exp().values()[3];
        assert_eq!(
            [exp(0.0), exp(f32::NEG_INFINITY), exp(-110.0)],
            [1.0, 0.0, 0.0]
        );
        assert_eq!([exp(f32::INFINITY), exp(100.0)], [f32::INFINITY; 2]);
        assert!(
            (exp(-100.0) - 3.78e-44).abs() < 2e-45,
            "underflow is gradual"
        );
        let nan = splat(f32::NAN);
        let limits = [splat(0.0), splat(1.0)];
        for result in [
            nan.exp(),
            nan.tanh(),
            nan.normal().0,
            nan.at_most(limits[1]).at_least(limits[0]),
        ] {
            assert!(result.values().iter().all(|value| value.is_nan()));
        }
        let [low, high] = limits;
        assert_eq!(high.at_most(low).values()[0], 0.0);
        assert_eq!(low.at_least(high).values()[15], 1.0);
        let chosen = |lanes: C::Of<f32>| lanes.where_at_most(low, low, high).values()[7];
        assert_eq!([chosen(low), chosen(high), chosen(nan)], [0.0, 1.0, 1.0]);
    }

    #[test]
    fn functions_at_their_ends() {
        in_each_context!(c => ends(c));
    }

    /// Compares the conversions with those of single elements, which tests compare with `half`.
    fn conversions<C: Context>(c: C) {
        let bits = |values: [f32; LANES]| values.map(f32::to_bits);
        for first in (0..=u16::MAX).step_by(LANES) {
            let halves: [u16; LANES] = std::array::from_fn(|i| first + i as u16);
            let halves = halves.map(f16::from_bits);
            let (ours, theirs) = (c.of_f16(&halves).values(), halves.map(Element::load));
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
            }
            let halves = halves.map(|half| bf16::from_bits(half.to_bits()));
            assert_eq!(
                bits(c.of_bf16(&halves).values()),
                bits(halves.map(Element::load))
            );
        }
        // Every sign and exponent, with mantissas around the boundaries of both roundings.
        for top in 0..512_u32 {
            for low in [
                0, 1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0x1_8000,
                0x7f_ffff,
            ] {
                let values =
                    std::array::from_fn(|i| f32::from_bits(top << 23 | low ^ (i as u32) << 19));
                let lanes = C::Of::<f32>::read(c, &values);
                for (ours, value) in c.to_bf16(lanes).into_iter().zip(values) {
                    let theirs = <bf16 as Element>::round(value);
                    assert!(
                        ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
                        "{value:e}"
                    );
                }
                let held = c.of_bf16(&c.to_bf16(lanes)).values();
                assert_eq!(bits(c.held_by_bf16(lanes).values()), bits(held));
                for (ours, value) in c.to_f16(lanes).into_iter().zip(values) {
                    let theirs = <f16 as Element>::round(value);
                    assert!(
                        ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
                        "{value:e}"
                    );
                }
            }
        }
    }

    fn small_integers<C: Context>(c: C) {
        let table: [f32; LANES] = std::array::from_fn(|i| (i * i) as f32 - 3.5);
        for first in 0..=u8::MAX {
            let bytes: [u8; LANES] =
                std::array::from_fn(|i| first.wrapping_add((i as u8).wrapping_mul(37)));
            let signed = bytes.map(|byte| byte as i8);
            assert_eq!(c.of_i8(&signed).values(), signed.map(f32::from));
            let expected = bytes.map(|byte| table[usize::from(byte & 0xf)]);
            assert_eq!(c.of_table(&table, &bytes).values(), expected);
            let bytes: &[u8; 8] = bytes.first_chunk().expect("half of them");
            for low_first in [false, true] {
                let place = |at: usize| {
                    let is_low = at.is_multiple_of(2) == low_first;
                    let shift = if is_low { 0 } else { 4 };
                    (bytes[at / 2] >> shift) & 0xf
                };
                let expected = std::array::from_fn(|at| table[usize::from(place(at))]);
                assert_eq!(c.of_halves(&table, bytes, low_first).values(), expected);
            }
        }
    }

    #[test]
    fn small_integers_are_numbers_and_places() {
        in_each_context!(c => small_integers(c));
    }

    fn powers<C: Context>(c: C) {
        let of = |x: [f32; LANES]| c.power_of_two(C::Of::<f32>::read(c, &x)).values();
        for first in 0..127_000 {
            let x = std::array::from_fn(|i| 1.0 - (first as f32 + i as f32 / 16.0) / 1000.0);
            for (power, x) in of(x).into_iter().zip(x) {
                let exact = f64::from(x).exp2();
                let error = (f64::from(power) - exact).abs();
                // The argument is rounded once more where `e^x` is computed.
                let bound = exact * (2_f64.powi(-22) + f64::from(x.abs()) * 2_f64.powi(-23));
                assert!(
                    error <= bound.max(2_f64.powi(-126)),
                    "2^{x}: {power}, not {exact}"
                );
            }
        }
        let at = |x: f32| of([x; LANES])[3];
        assert_eq!(
            [at(0.0), at(-1.0), at(f32::NEG_INFINITY), at(-200.0)],
            [1.0, 0.5, 0.0, 0.0]
        );
        assert!(at(f32::NAN).is_nan());
    }

    #[test]
    fn powers_of_two_are_near_the_exact_ones() {
        in_each_context!(c => powers(c));
    }

    fn two_parts<C: Context>(c: C) {
        for seed in 0..1000 {
            let numbers = [0, 1].map(|second| -> [f32; LANES] {
                std::array::from_fn(|i| ((seed * 31 + i * 2 + second) as f32 * 0.37).sin())
            });
            let [first, second] = numbers.map(|values| C::Of::<f32>::read(c, &values));
            let [upper, rest] = c.to_bf16_and_rest(first, second);
            let half = |pair: f32, second: usize| {
                let bits = (pair.to_bits() >> (16 * second)) as u16;
                bf16::from_bits(bits).to_f32()
            };
            for (second, numbers) in numbers.into_iter().enumerate() {
                for (lane, number) in numbers.into_iter().enumerate() {
                    let (upper, rest) = (half(upper[lane], second), half(rest[lane], second));
                    assert!((number - upper).abs() <= number.abs() * 2_f32.powi(-8));
                    let missing = number - upper - rest;
                    assert!(missing.abs() <= number.abs() * 2_f32.powi(-15), "{number}");
                }
            }
        }
        // Whatever the bits of a NaN are, the rest is one.
        for bits in [0x7fc0_0000, 0x7fff_ffff, 0xffff_ffff, 0x7f80_0001] {
            let nan = C::Of::<f32>::splat(c, f32::from_bits(bits));
            let [_, rest] = c.to_bf16_and_rest(nan, nan);
            for pair in rest.map(f32::to_bits) {
                for bits in [pair as u16, (pair >> 16) as u16] {
                    assert!(bf16::from_bits(bits).is_nan());
                }
            }
        }
    }

    #[test]
    fn parts_of_numbers_are_two_bf16() {
        in_each_context!(c => two_parts(c));
    }

    #[test]
    fn conversions_are_those_of_single_elements() {
        in_each_context!(c => conversions(c));
    }
}
