use super::{Context, LANES, Lanes};
use crate::{Element, Number, Real};
use half::{bf16, f16};
use std::ops::{Add, Div, Mul, Sub};

/// No instructions that the compiler does not find.
#[derive(Clone, Copy)]
pub struct Portable;

/// Lanes in an array.
#[derive(Clone, Copy)]
pub struct Array<A>(pub(super) [A; LANES]);

macro_rules! lane_by_lane {
    ($($Operation:ident $operation:ident)+) => {
        $(impl<A: Real> $Operation for Array<A> {
            type Output = Self;

            #[inline(always)]
            fn $operation(mut self, other: Self) -> Self {
                for (value, other) in self.0.iter_mut().zip(other.0) {
                    *value = value.$operation(other);
                }
                self
            }
        })+
    };
}
lane_by_lane!(Add add Sub sub Mul mul Div div);

/// Long functions and conversions are calls, which compile once for each type and not at each use.
impl<A: Real> Number for Array<A> {
    #[inline(always)]
    fn like(self, value: f64) -> Self {
        Self([A::of(value); LANES])
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        self * factor + term
    }

    #[inline(never)]
    fn exp(mut self) -> Self {
        for value in &mut self.0 {
            *value = value.exp();
        }
        self
    }

    #[inline(never)]
    fn tanh(mut self) -> Self {
        for value in &mut self.0 {
            *value = value.tanh();
        }
        self
    }

    #[inline(never)]
    fn ln_1p(mut self) -> Self {
        for value in &mut self.0 {
            *value = value.ln_1p();
        }
        self
    }

    #[inline(never)]
    fn normal(self) -> (Self, Self) {
        let mut both = (self, self);
        for (phi, density) in both.0.0.iter_mut().zip(&mut both.1.0) {
            (*phi, *density) = phi.normal();
        }
        both
    }

    #[inline(never)]
    fn at_most(mut self, limit: Self) -> Self {
        for (value, limit) in self.0.iter_mut().zip(limit.0) {
            *value = value.at_most(limit);
        }
        self
    }

    #[inline(never)]
    fn at_least(mut self, limit: Self) -> Self {
        for (value, limit) in self.0.iter_mut().zip(limit.0) {
            *value = value.at_least(limit);
        }
        self
    }

    #[inline(never)]
    fn where_at_most(mut self, limit: Self, yes: Self, no: Self) -> Self {
        for (i, value) in self.0.iter_mut().enumerate() {
            *value = value.where_at_most(limit.0[i], yes.0[i], no.0[i]);
        }
        self
    }
}

impl<A: Real, C> Lanes<A, C> for Array<A> {
    #[inline(always)]
    fn splat(_: C, value: A) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    fn read(_: C, values: &[A; LANES]) -> Self {
        Self(*values)
    }

    #[inline(always)]
    fn values(self) -> [A; LANES] {
        self.0
    }

    #[inline(always)]
    fn total(self) -> A {
        let mut values = self.0;
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                values[i] += values[i + half];
            }
            half /= 2;
        }
        values[0]
    }
}

impl Context for Portable {
    type Of<A: Real> = Array<A>;

    #[inline(always)]
    fn of_bf16(self, values: &[bf16; LANES]) -> Array<f32> {
        loaded(values)
    }

    #[inline(always)]
    fn of_f16(self, values: &[f16; LANES]) -> Array<f32> {
        loaded(values)
    }

    #[inline(always)]
    fn of_i8(self, values: &[i8; LANES]) -> Array<f32> {
        Array(values.map(f32::from))
    }

    #[inline(always)]
    fn of_table(self, table: &[f32; LANES], places: &[u8; LANES]) -> Array<f32> {
        Array(places.map(|place| table[usize::from(place & 0xf)]))
    }

    #[inline(always)]
    fn to_bf16(self, values: Array<f32>) -> [bf16; LANES] {
        rounded(&values)
    }

    #[inline(always)]
    fn to_f16(self, values: Array<f32>) -> [f16; LANES] {
        rounded(&values)
    }
}

#[inline(never)]
fn loaded<T: Element>(values: &[T; LANES]) -> Array<T::Acc> {
    let mut lanes = [T::Acc::ZERO; LANES];
    for (lane, value) in lanes.iter_mut().zip(values) {
        *lane = value.load();
    }
    Array(lanes)
}

#[inline(never)]
fn rounded<T: Element>(lanes: &Array<T::Acc>) -> [T; LANES] {
    let mut values = [T::zeroed(); LANES];
    for (value, lane) in values.iter_mut().zip(lanes.0) {
        *value = T::round(lane);
    }
    values
}
