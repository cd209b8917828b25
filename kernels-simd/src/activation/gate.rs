//! Activations as values, on blocks of numbers.

use super::Function;
use crate::Real;
use crate::keys::Activation;
use crate::lanes::{Context, LANES, Lanes as _, Task, dispatch};
use std::marker::PhantomData;

/// Compiles an expression for the [`Function`] of an activation.
macro_rules! with_function {
    ($activation:expr, $F:ident => $body:expr) => {{
        use $crate::activation as functions;
        use $crate::keys::Activation;
        match $activation {
            Activation::Silu => with_function!(@ functions::Silu, $F, $body),
            Activation::Gelu => with_function!(@ functions::Gelu, $F, $body),
            Activation::GeluTanh => with_function!(@ functions::GeluTanh, $F, $body),
            Activation::QuickGelu => with_function!(@ functions::QuickGelu, $F, $body),
            Activation::Relu => with_function!(@ functions::Relu, $F, $body),
            Activation::Relu2 => with_function!(@ functions::Relu2, $F, $body),
            Activation::Sigmoid => with_function!(@ functions::Sigmoid, $F, $body),
            Activation::Identity => with_function!(@ functions::Identity, $F, $body),
        }
    }};
    (@ $function:ty, $F:ident, $body:expr) => {{
        type $F = $function;
        $body
    }};
}
pub(crate) use with_function;

/// The number of blocks to which a [`Gate`] is best applied at once: few enough to stay in the first-level cache.
pub(crate) const PIECE: usize = 32;

/// An activation and its slope on blocks of numbers, compiled for the widest SIMD of this machine. Kernels call them on
/// pieces of rows, so that the kernels themselves are compiled once for all activations.
#[derive(Clone, Copy)]
pub(crate) struct Gate<A> {
    /// Replaces each number by the value.
    pub(crate) values: fn(&mut [[A; LANES]]),
    /// Replaces each number by the value, and its counterpart in the second list by the slope.
    ///
    /// # Panics
    /// Panics if the second list is shorter.
    pub(crate) slopes: fn(&mut [[A; LANES]], &mut [[A; LANES]]),
}

impl<A: Real> Gate<A> {
    pub(crate) fn of(activation: Activation) -> Self {
        with_function!(activation, F => Self::compiled::<F>())
    }

    fn compiled<F: Function>() -> Self {
        Self {
            values: |numbers| {
                let function = PhantomData::<F>;
                dispatch(Values { numbers, function });
            },
            slopes: |numbers, slopes| {
                let (slopes, function) = (&mut slopes[..numbers.len()], PhantomData::<F>);
                dispatch(Slopes {
                    numbers,
                    slopes,
                    function,
                });
            },
        }
    }
}

struct Values<'a, A, F> {
    numbers: &'a mut [[A; LANES]],
    function: PhantomData<F>,
}

impl<A: Real, F: Function> Task for Values<'_, A, F> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        for block in self.numbers {
            *block = F::value(C::Of::<A>::read(c, block)).values();
        }
    }
}

struct Slopes<'a, A, F> {
    numbers: &'a mut [[A; LANES]],
    /// As many blocks.
    slopes: &'a mut [[A; LANES]],
    function: PhantomData<F>,
}

impl<A: Real, F: Function> Task for Slopes<'_, A, F> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        for at in 0..self.numbers.len() {
            let (value, slope) = F::with_slope(C::Of::<A>::read(c, &self.numbers[at]));
            self.numbers[at] = value.values();
            self.slopes[at] = slope.values();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value and the slope at a point.
    fn at<A: Real>(activation: Activation, point: A) -> [A; 2] {
        let (mut values, mut slopes) = ([[point; LANES]], [[A::ZERO; LANES]]);
        (Gate::of(activation).slopes)(&mut values, &mut slopes);
        [values[0][0], slopes[0][LANES - 1]]
    }

    /// Returns the value alone.
    fn value<A: Real>(activation: Activation, point: A) -> A {
        let mut values = [[point; LANES]];
        (Gate::of(activation).values)(&mut values);
        values[0][0]
    }

    /// Compares slopes with central differences, in f64, away from the kinks at zero.
    #[test]
    fn slopes_are_those_of_the_values() {
        const STEP: f64 = 1e-5;
        for activation in Activation::ALL {
            for gate in [-30.0, -5.0, -1.3, -0.2, 0.3, 1.0, 4.0, 19.9, 40.0_f64] {
                let [same, slope] = at(activation, gate);
                let of = |gate: f64| value(activation, gate);
                let difference = (of(gate + STEP) - of(gate - STEP)) / (2.0 * STEP);
                let name = activation.name();
                assert!(
                    (slope - difference).abs() < 1e-8 * (1.0 + difference.abs()),
                    "{name}({gate}): {slope} and {difference}"
                );
                assert!(
                    (same - of(gate)).abs() <= 1e-15 * same.abs(),
                    "{name}({gate})"
                );
            }
        }
    }

    #[test]
    fn extreme_gates_stay_finite() {
        for activation in Activation::ALL {
            for gate in [-1e4, -200.0, 200.0, 1e4, 0.0, -0.0_f32] {
                let [same, slope] = at(activation, gate);
                let results = [value(activation, gate), same, slope];
                assert!(
                    results.iter().all(|result| result.is_finite()),
                    "{}({gate}): {results:?}",
                    activation.name()
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn slopes_have_a_place_each() {
        (Gate::<f32>::of(Activation::Silu).slopes)(&mut [[0.0; LANES]; 2], &mut [[0.0; LANES]]);
    }
}
