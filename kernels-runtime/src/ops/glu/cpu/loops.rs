//! The loops over elements that each activation is compiled into.

use crate::cpu::{Element, Function, with_function};
use crate::semantics::Activation;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// `y = f(gate) · up` of slices of one length; writes every place.
pub(super) type Forward<T> = fn(&[T], &[T], &mut [MaybeUninit<T>]);

/// The gradients of gate and up, from `dy`, gate and up, all of one length; writes every place.
pub(super) type Backward<T> = fn([&[T]; 3], [&mut [MaybeUninit<T>]; 2]);

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
                pulp::Arch::new().dispatch(ForwardLoop {
                    gate,
                    up,
                    y,
                    function,
                });
            },
            backward: |inputs, outputs| {
                let function = PhantomData::<F>;
                pulp::Arch::new().dispatch(BackwardLoop {
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
    y: &'a mut [MaybeUninit<T>],
    function: PhantomData<F>,
}

impl<T: Element, F: Function> pulp::WithSimd for ForwardLoop<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for ((y, gate), up) in self.y.iter_mut().zip(self.gate).zip(self.up) {
            y.write(T::round(F::value(gate.load()) * up.load()));
        }
    }
}

struct BackwardLoop<'a, T, F> {
    inputs: [&'a [T]; 3],
    outputs: [&'a mut [MaybeUninit<T>]; 2],
    function: PhantomData<F>,
}

impl<T: Element, F: Function> pulp::WithSimd for BackwardLoop<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let [dy, gate, up] = self.inputs;
        let [d_gate, d_up] = self.outputs;
        let outputs = d_gate.iter_mut().zip(d_up);
        for (((dy, gate), up), (d_gate, d_up)) in dy.iter().zip(gate).zip(up).zip(outputs) {
            let dy = dy.load();
            let (value, slope) = F::with_slope(gate.load());
            d_gate.write(T::round(dy * up.load() * slope));
            d_up.write(T::round(dy * value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slopes beside central differences, in f64, away from the kinks at zero.
    #[test]
    fn slopes_are_those_of_the_values() {
        const STEP: f64 = 1e-5;
        for activation in Activation::ALL {
            let loops = Loops::<f64>::of(activation);
            for gate in [-30.0, -5.0, -1.3, -0.2, 0.3, 1.0, 4.0, 19.9, 40.0_f64] {
                let value = |gate: f64| {
                    let mut y = [MaybeUninit::new(f64::NAN)];
                    (loops.forward)(&[gate], &[1.0], &mut y);
                    // SAFETY: it was initialised above.
                    unsafe { y[0].assume_init() }
                };
                let (mut slope, mut same) =
                    ([MaybeUninit::new(f64::NAN)], [MaybeUninit::new(f64::NAN)]);
                (loops.backward)([&[1.0], &[gate], &[1.0]], [&mut slope, &mut same]);
                // SAFETY: both were initialised above.
                let (slope, same) = unsafe { (slope[0].assume_init(), same[0].assume_init()) };
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
                let mut y = [MaybeUninit::new(f32::NAN)];
                (loops.forward)(&[gate], &[1.0], &mut y);
                let (mut slope, mut value) =
                    ([MaybeUninit::new(f32::NAN)], [MaybeUninit::new(f32::NAN)]);
                (loops.backward)([&[1.0], &[gate], &[1.0]], [&mut slope, &mut value]);
                // SAFETY: all were initialised above.
                let results = unsafe {
                    [
                        y[0].assume_init(),
                        slope[0].assume_init(),
                        value[0].assume_init(),
                    ]
                };
                assert!(
                    results.iter().all(|result| result.is_finite()),
                    "{}({gate}): {results:?}",
                    activation.name()
                );
            }
        }
    }
}
