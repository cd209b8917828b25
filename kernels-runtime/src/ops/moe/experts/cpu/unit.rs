//! The gated unit of an expert, forward and backward.

use super::super::Settings;
use crate::cpu::lanes::{Padded, Rounded, Task};
use crate::cpu::{
    Context, Element, Function, LANES, Lanes, Number, Read, Real, Unwritten, Whole, block,
};
use std::marker::PhantomData;

/// The settings of the unit besides its activation.
#[derive(Clone, Copy)]
pub(super) struct Unit<A> {
    /// The limit of the clamp, infinite if there is none.
    limit: A,
    up_offset: A,
}

impl<A: Real> Unit<A> {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            limit: A::of(settings.limit.unwrap_or(f64::INFINITY)),
            up_offset: A::of(settings.key.up_offset.value()),
        }
    }

    #[inline(always)]
    fn in_lanes<C: Context>(self, c: C) -> Bounds<C::Of<A>> {
        let splat = |value| C::Of::<A>::splat(c, value);
        Bounds {
            highest: splat(self.limit),
            lowest: splat(-self.limit),
            up_offset: splat(self.up_offset),
        }
    }
}

/// The settings in every lane.
#[derive(Clone, Copy)]
struct Bounds<L> {
    highest: L,
    lowest: L,
    up_offset: L,
}

impl<L: Number> Bounds<L> {
    /// Returns the clamped gate. NaN stays.
    #[inline(always)]
    fn gate(self, gate: L) -> L {
        gate.at_most(self.highest)
    }

    /// Returns the clamped up with its offset. NaN stays.
    #[inline(always)]
    fn up(self, up: L) -> L {
        self.up_offset + up.at_most(self.highest).at_least(self.lowest)
    }

    /// Returns the gradient of a gate, which is zero where the gate is not below its limit. That of NaN stays.
    #[inline(always)]
    fn d_gate(self, gate: L, gradient: L) -> L {
        self.highest.where_at_most(gate, gate.like(0.0), gradient)
    }

    /// Works like [`d_gate`](Self::d_gate) for an up, which has two limits.
    #[inline(always)]
    fn d_up(self, up: L, gradient: L) -> L {
        let above = up.where_at_most(self.lowest, up.like(0.0), gradient);
        self.d_gate(up, above)
    }
}

/// The forward pass, which replaces `gate` by the unit's result. Gate and up are rounded to the tensor's type first,
/// and are written to `kept`, gate before up, if the backward pass will need them.
pub(super) struct Forward<'a, T: Element, F> {
    pub(super) function: PhantomData<F>,
    pub(super) unit: Unit<T::Acc>,
    pub(super) width: usize,
    pub(super) gate: &'a mut [T::Acc],
    pub(super) up: &'a [T::Acc],
    pub(super) kept: Option<Unwritten<'a, T>>,
}

impl<T: Element, F: Function> Task for Forward<'_, T, F> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let width = self.width;
        if width == 0 {
            return;
        }
        if let Some(mut kept) = self.kept {
            let gates = self.gate.chunks_exact(width);
            for (gate, up) in gates.zip(self.up.chunks_exact(width)) {
                let _ = kept.row(width).write_blocks(&Rounded { c, values: gate });
                let _ = kept.row(width).write_blocks(&Rounded { c, values: up });
            }
        }
        let bounds = self.unit.in_lanes(c);
        let (gates, last) = self.gate.as_chunks_mut::<LANES>();
        let whole = gates.len();
        for (at, gate) in gates.iter_mut().enumerate() {
            let up = Whole::block(self.up, at);
            *gate = result::<C, T, F>(c, bounds, gate, &up);
        }
        if !last.is_empty() {
            let (gate, up) = (Padded::block(last, 0), Padded::block(self.up, whole));
            let result = result::<C, T, F>(c, bounds, &gate, &up);
            last.copy_from_slice(&result[..last.len()]);
        }
    }
}

/// Returns the unit's result for a block of gates and ups.
#[inline(always)]
fn result<C: Context, T: Element, F: Function>(
    c: C,
    bounds: Bounds<C::Of<T::Acc>>,
    gate: &[T::Acc; LANES],
    up: &[T::Acc; LANES],
) -> [T::Acc; LANES] {
    let gate = T::held(c, C::Of::<T::Acc>::read(c, gate));
    let up = T::held(c, C::Of::<T::Acc>::read(c, up));
    (bounds.up(up) * F::value(bounds.gate(gate))).values()
}

/// The backward pass. Given the kept tensor and the gradient of the result without the routing weight, it computes
/// the result again and the gradients of gate, up and routing weight.
pub(super) struct Backward<'a, T: Element, F> {
    pub(super) function: PhantomData<F>,
    pub(super) unit: Unit<T::Acc>,
    pub(super) width: usize,
    /// Gate and up, `2 · width` elements for each row.
    pub(super) kept: &'a [T],
    /// The routing weight of each row.
    pub(super) routing: &'a [T::Acc],
    /// The gradient of the result, replaced by that of the gate.
    pub(super) gate: &'a mut [T::Acc],
    /// Memory for the gradient of up.
    pub(super) up: &'a mut [T::Acc],
    /// Memory for the result.
    pub(super) result: &'a mut [T::Acc],
    /// The gradients of the routing weights. The gradient of each row's weight is added.
    pub(super) d_routing: &'a mut [T::Acc],
}

impl<T: Element, F: Function> Task for Backward<'_, T, F> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let width = self.width;
        let zero = C::Of::<T::Acc>::splat(c, T::Acc::ZERO);
        for (row, d_routing) in self.d_routing.iter_mut().enumerate() {
            let (gate, up) = self.kept[2 * row * width..2 * (row + 1) * width].split_at(width);
            let slopes = Slopes::<C, T, F> {
                c,
                bounds: self.unit.in_lanes(c),
                weight: C::Of::<T::Acc>::splat(c, self.routing[row]),
                gate,
                up,
                function: PhantomData,
            };
            let span = row * width..(row + 1) * width;
            let (d_gates, last_gates) = self.gate[span.clone()].as_chunks_mut::<LANES>();
            let (d_ups, last_ups) = self.up[span.clone()].as_chunks_mut::<LANES>();
            let (results, last_results) = self.result[span].as_chunks_mut::<LANES>();
            let mut sum = zero;
            for (at, d_gate) in d_gates.iter_mut().enumerate() {
                let d = C::Of::<T::Acc>::read(c, d_gate);
                let found = slopes.at::<Whole>(at, d);
                sum = found.result.mul_add(d, sum);
                *d_gate = found.d_gate.values();
                d_ups[at] = found.d_up.values();
                results[at] = found.result.values();
            }
            if !last_gates.is_empty() {
                // Zeros in place of gradients add nothing to the sum.
                let d = C::Of::<T::Acc>::read(c, &Padded::block(last_gates, 0));
                let found = slopes.at::<Padded>(d_gates.len(), d);
                sum = found.result.mul_add(d, sum);
                let len = last_gates.len();
                last_gates.copy_from_slice(&found.d_gate.values()[..len]);
                last_ups.copy_from_slice(&found.d_up.values()[..len]);
                last_results.copy_from_slice(&found.result.values()[..len]);
            }
            *d_routing += sum.total();
        }
    }
}

/// The derivatives of a row's results.
struct Slopes<'a, C: Context, T: Element, F> {
    c: C,
    bounds: Bounds<C::Of<T::Acc>>,
    /// The routing weight.
    weight: C::Of<T::Acc>,
    gate: &'a [T],
    up: &'a [T],
    function: PhantomData<F>,
}

/// The results of a block, and the gradients of its gates and ups.
struct Found<L> {
    result: L,
    d_gate: L,
    d_up: L,
}

impl<C: Context, T: Element, F: Function> Slopes<'_, C, T, F> {
    /// Returns what is found for a block, given the gradient `d` of the result without the routing weight.
    #[inline(always)]
    fn at<R: Read>(&self, at: usize, d: C::Of<T::Acc>) -> Found<C::Of<T::Acc>> {
        let (c, bounds) = (self.c, self.bounds);
        let gate = block::<C, T, R>(c, self.gate, at);
        let up = block::<C, T, R>(c, self.up, at);
        let (activated, slope) = F::with_slope(bounds.gate(gate));
        let factor = bounds.up(up);
        let weighted = self.weight * d;
        Found {
            result: factor * activated,
            d_gate: bounds.d_gate(gate, weighted * factor * slope),
            d_up: bounds.d_up(up, weighted * activated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Output;
    use crate::cpu::activation::Silu;
    use crate::cpu::lanes::dispatch;
    use burn::backend::Shape;

    const LIMIT: f64 = 7.0;
    const OFFSET: f64 = 1.0;
    const ROUTING: f64 = 0.5;

    /// Gates and ups inside the clamp, at its ends, beyond them, and NaN.
    fn values() -> [Vec<f64>; 2] {
        let each = [0.5, -3.0, LIMIT, -LIMIT, 7.5, -7.5, 1e30, -1e30, f64::NAN];
        let pairs = || each.iter().flat_map(|gate| each.map(|up| (*gate, up)));
        [
            pairs().map(|(gate, _)| gate).collect(),
            pairs().map(|(_, up)| up).collect(),
        ]
    }

    /// Compares the unit with the same formula of single numbers in f64.
    fn check<T: Element<Acc = T> + Real>() {
        let unit = Unit {
            limit: T::of(LIMIT),
            up_offset: T::of(OFFSET),
        };
        let [gates, ups] = values();
        let width = gates.len();
        let of = |values: &[f64]| values.iter().map(|value| T::of(*value)).collect::<Vec<T>>();
        let (mut gate, up) = (of(&gates), of(&ups));
        let mut kept = Output::new(Shape::new([1, 2 * width]));
        dispatch(Forward {
            function: PhantomData::<Silu>,
            unit,
            width,
            gate: &mut gate,
            up: &up,
            kept: Some(kept.rest()),
        });
        let kept: Vec<T> = kept.into_values();
        let (forward, mut d_gate) = (gate, vec![T::ONE; width]);
        let [mut d_up, mut result] = [vec![T::ZERO; width], vec![T::ZERO; width]];
        dispatch(Backward {
            function: PhantomData::<Silu>,
            unit,
            width,
            kept: &kept,
            routing: &[T::of(ROUTING)],
            gate: &mut d_gate,
            up: &mut d_up,
            result: &mut result,
            d_routing: &mut [T::ZERO],
        });
        for (at, (gate, up)) in gates.into_iter().zip(ups).enumerate() {
            let clamped = if gate > LIMIT { LIMIT } else { gate };
            let (value, slope) = Silu::with_slope(clamped);
            // At exactly the limit, there is no gradient, as in PyTorch 2.15.
            let is_clamped = up.abs() >= LIMIT;
            let factor = OFFSET + if is_clamped { LIMIT.copysign(up) } else { up };
            let expected = [
                (forward[at], factor * value),
                (result[at], factor * value),
                (
                    d_gate[at],
                    if gate >= LIMIT {
                        0.0
                    } else {
                        ROUTING * factor * slope
                    },
                ),
                (d_up[at], if is_clamped { 0.0 } else { ROUTING * value }),
            ];
            for (number, (ours, exact)) in expected.into_iter().enumerate() {
                let ours: f64 = ours.elem();
                assert!(
                    (ours - exact).abs() <= 1e-5 * exact.abs().max(1e-20)
                        || ours.is_nan() && exact.is_nan(),
                    "result {number} of {gate} and {up}: {ours}, not {exact}"
                );
            }
        }
    }

    #[test]
    fn clamped_numbers_have_no_gradient_and_nan_stays() {
        check::<f32>();
        check::<f64>();
    }
}
