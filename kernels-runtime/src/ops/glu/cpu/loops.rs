//! The activations, and the loops over elements that each is compiled into.

use crate::cpu::{Element, Real};
use crate::semantics::Activation;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A function of the gate, without branches so that its loops vectorise.
trait Function {
    fn value<A: Real>(a: A) -> A;
    /// The value and its derivative.
    fn with_slope<A: Real>(a: A) -> (A, A);
}

struct Silu;
struct Gelu;
struct GeluTanh;
struct QuickGelu;
struct Relu;
struct Relu2;
struct Sigmoid;
struct Identity;

impl Function for Silu {
    #[inline(always)]
    fn value<A: Real>(a: A) -> A {
        a * a.sigmoid()
    }

    #[inline(always)]
    fn with_slope<A: Real>(a: A) -> (A, A) {
        a.silu_with_slope()
    }
}

impl Function for Gelu {
    #[inline(always)]
    fn value<A: Real>(a: A) -> A {
        a * a.normal().0
    }

    #[inline(always)]
    fn with_slope<A: Real>(a: A) -> (A, A) {
        let (phi, density) = a.normal();
        (a * phi, phi + a * density)
    }
}

/// `(1 + tanh(z)) / 2 = σ(2z)`, with `2z = a · (LINEAR + CUBIC · a²)`.
impl GeluTanh {
    /// `2 · √(2/π)`
    const LINEAR: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::SQRT_2;
    const CUBIC: f64 = Self::LINEAR * 0.044715;

    /// Beyond 20 the sigmoid is 0 or 1 and flat; the bound keeps its powers finite.
    #[inline(always)]
    fn bounded<A: Real>(a: A) -> A {
        a.at_most(A::of(20.0)).at_least(A::of(-20.0))
    }

    /// `2z`.
    #[inline(always)]
    fn argument<A: Real>(b: A) -> A {
        b * (A::of(Self::LINEAR) + A::of(Self::CUBIC) * b * b)
    }
}

impl Function for GeluTanh {
    #[inline(always)]
    fn value<A: Real>(a: A) -> A {
        a * Self::argument(Self::bounded(a)).sigmoid()
    }

    #[inline(always)]
    fn with_slope<A: Real>(a: A) -> (A, A) {
        let b = Self::bounded(a);
        let (s, rest) = Self::argument(b).sigmoid_and_rest();
        let inner = A::of(Self::LINEAR) + A::of(3.0 * Self::CUBIC) * b * b;
        (a * s, s + s * rest * (b * inner))
    }
}

impl QuickGelu {
    const ALPHA: f64 = 1.702;
}

impl Function for QuickGelu {
    #[inline(always)]
    fn value<A: Real>(a: A) -> A {
        a * (A::of(Self::ALPHA) * a).sigmoid()
    }

    #[inline(always)]
    fn with_slope<A: Real>(a: A) -> (A, A) {
        let scaled = A::of(Self::ALPHA) * a;
        let (s, rest) = scaled.sigmoid_and_rest();
        (a * s, s * (A::ONE + scaled * rest))
    }
}

impl Function for Relu {
    #[inline(always)]
    fn value<A: Real>(a: A) -> A {
        a.at_least(A::ZERO)
    }

    #[inline(always)]
    fn with_slope<A: Real>(a: A) -> (A, A) {
        let slope = if a <= A::ZERO { A::ZERO } else { A::ONE };
        (a.at_least(A::ZERO), slope)
    }
}

impl Function for Relu2 {
    #[inline(always)]
    fn value<A: Real>(a: A) -> A {
        let positive = a.at_least(A::ZERO);
        positive * positive
    }

    #[inline(always)]
    fn with_slope<A: Real>(a: A) -> (A, A) {
        let positive = a.at_least(A::ZERO);
        (positive * positive, positive + positive)
    }
}

impl Function for Sigmoid {
    #[inline(always)]
    fn value<A: Real>(a: A) -> A {
        a.sigmoid()
    }

    #[inline(always)]
    fn with_slope<A: Real>(a: A) -> (A, A) {
        let (s, rest) = a.sigmoid_and_rest();
        (s, s * rest)
    }
}

impl Function for Identity {
    #[inline(always)]
    fn value<A: Real>(a: A) -> A {
        a
    }

    #[inline(always)]
    fn with_slope<A: Real>(a: A) -> (A, A) {
        (a, A::ONE)
    }
}

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
        match activation {
            Activation::Silu => Self::compiled::<Silu>(),
            Activation::Gelu => Self::compiled::<Gelu>(),
            Activation::GeluTanh => Self::compiled::<GeluTanh>(),
            Activation::QuickGelu => Self::compiled::<QuickGelu>(),
            Activation::Relu => Self::compiled::<Relu>(),
            Activation::Relu2 => Self::compiled::<Relu2>(),
            Activation::Sigmoid => Self::compiled::<Sigmoid>(),
            Activation::Identity => Self::compiled::<Identity>(),
        }
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
