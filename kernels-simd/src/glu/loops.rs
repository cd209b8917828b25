//! The compiled loops over elements of each activation.

use crate::activation::with_function;
use crate::keys::Activation;
use crate::lanes::{Task, dispatch};
use crate::{Blocks, Context, Element, Function, LANES, Pairs, Read, Row, block};
use std::marker::PhantomData;

/// Writes `y = f(gate) · up`. All slices have one length.
pub(super) type Forward<T> = fn(&[T], &[T], Row<'_, T>);

/// Writes the gradients of gate and up, given `dy`, gate and up. All slices have one length.
pub(super) type Backward<T> = fn([&[T]; 3], [Row<'_, T>; 2]);

/// The loops of an activation, each compiled for the widest SIMD of this machine.
#[derive(Clone, Copy)]
pub(super) struct Loops<T> {
    pub(super) forward: Forward<T>,
    pub(super) backward: Backward<T>,
}

impl<T: Element> Loops<T> {
    pub(super) fn of(activation: Activation) -> Self {
        with_function!(activation, F => Self::compiled::<F>())
    }

    fn compiled<F: Function>() -> Self {
        Self {
            forward: |gate, up, y| {
                let function = PhantomData::<F>;
                dispatch(ForwardLoop {
                    gate,
                    up,
                    y,
                    function,
                });
            },
            backward: |inputs, outputs| {
                let function = PhantomData::<F>;
                dispatch(BackwardLoop {
                    inputs,
                    outputs,
                    function,
                });
            },
        }
    }
}

struct ForwardLoop<'a, T, F> {
    gate: &'a [T],
    up: &'a [T],
    y: Row<'a, T>,
    function: PhantomData<F>,
}

impl<T: Element, F: Function> Task for ForwardLoop<'_, T, F> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let Self { gate, up, y, .. } = self;
        let function = self.function;
        let _ = y.write_blocks(&Values::<T, F, C> {
            gate,
            up,
            c,
            function,
        });
    }
}

/// The results of a row.
struct Values<'a, T, F, C> {
    gate: &'a [T],
    up: &'a [T],
    c: C,
    function: PhantomData<F>,
}

impl<T: Element, F: Function, C: Context> Blocks<T> for Values<'_, T, F, C> {
    #[inline(always)]
    fn at<B: Read>(&self, at: usize) -> [T; LANES] {
        let gate = block::<C, T, B>(self.c, self.gate, at);
        let up = block::<C, T, B>(self.c, self.up, at);
        T::rounded(self.c, F::value(gate) * up)
    }
}

struct BackwardLoop<'a, T, F> {
    inputs: [&'a [T]; 3],
    outputs: [Row<'a, T>; 2],
    function: PhantomData<F>,
}

impl<T: Element, F: Function> Task for BackwardLoop<'_, T, F> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let [d_gate, d_up] = self.outputs;
        let (inputs, function) = (self.inputs, self.function);
        d_gate.write_blocks_with(
            d_up,
            &Slopes::<T, F, C> {
                inputs,
                c,
                function,
            },
        );
    }
}

/// The gradients of a row.
struct Slopes<'a, T, F, C> {
    inputs: [&'a [T]; 3],
    c: C,
    function: PhantomData<F>,
}

impl<T: Element, F: Function, C: Context> Pairs<T> for Slopes<'_, T, F, C> {
    #[inline(always)]
    fn at<B: Read>(&self, at: usize) -> [[T; LANES]; 2] {
        let c = self.c;
        let [dy, gate, up] = self.inputs;
        let (dy, up) = (block::<C, T, B>(c, dy, at), block::<C, T, B>(c, up, at));
        let (value, slope) = F::with_slope(block::<C, T, B>(c, gate, at));
        [T::rounded(c, dy * up * slope), T::rounded(c, dy * value)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    /// Compares slopes with central differences, in f64, away from the kinks at zero.
    #[test]
    fn slopes_are_those_of_the_values() {
        const STEP: f64 = 1e-5;
        for activation in Activation::ALL {
            let loops = Loops::<f64>::of(activation);
            for gate in [-30.0, -5.0, -1.3, -0.2, 0.3, 1.0, 4.0, 19.9, 40.0_f64] {
                let value = |gate: f64| {
                    let mut y = Scratch::new();
                    (loops.forward)(&[gate], &[1.0], y.row(1, f64::NAN));
                    y.values()[0]
                };
                let [mut slope, mut same] = [(); 2].map(|()| Scratch::new());
                let rows = [slope.row(1, f64::NAN), same.row(1, f64::NAN)];
                (loops.backward)([&[1.0], &[gate], &[1.0]], rows);
                let (slope, same) = (slope.values()[0], same.values()[0]);
                let difference = (value(gate + STEP) - value(gate - STEP)) / (2.0 * STEP);
                let name = activation.name();
                assert!(
                    (slope - difference).abs() < 1e-8 * (1.0 + difference.abs()),
                    "{name}({gate}): {slope} and {difference}"
                );
                assert!(
                    (same - value(gate)).abs() <= 1e-15 * same.abs(),
                    "{name}({gate})"
                );
            }
        }
    }

    #[test]
    fn extreme_gates_stay_finite() {
        for activation in Activation::ALL {
            let loops = Loops::<f32>::of(activation);
            for gate in [-1e4, -200.0, 200.0, 1e4, 0.0, -0.0_f32] {
                let [mut y, mut slope, mut value] = [(); 3].map(|()| Scratch::new());
                (loops.forward)(&[gate], &[1.0], y.row(1, f32::NAN));
                let rows = [slope.row(1, f32::NAN), value.row(1, f32::NAN)];
                (loops.backward)([&[1.0], &[gate], &[1.0]], rows);
                let results = [&y, &slope, &value].map(|row| row.values()[0]);
                assert!(
                    results.iter().all(|result| result.is_finite()),
                    "{}({gate}): {results:?}",
                    activation.name()
                );
            }
        }
    }
}
