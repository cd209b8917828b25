//! The gated unit of an expert, forward and backward.

use super::Settings;
use crate::activation::{Gate, PIECE};
use crate::lanes::{Padded, Rounded, Task};
use crate::{
    Context, Element, LANES, Lanes, Number, Read, Real, Unwritten, Whole, block, load_blocks,
};

/// The settings of the unit besides its activation.
#[derive(Clone, Copy)]
pub(super) struct Unit<A> {
    /// The limit of the clamp, infinite without a clamp.
    limit: A,
    up_offset: A,
}

impl<A: Real> Unit<A> {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            limit: A::of(settings.limit.unwrap_or(f64::INFINITY)),
            up_offset: A::of(settings.up_offset),
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
pub(super) struct Forward<'a, T: Element> {
    pub(super) activation: Gate<T::Acc>,
    pub(super) unit: Unit<T::Acc>,
    pub(super) width: usize,
    pub(super) gate: &'a mut [T::Acc],
    pub(super) up: &'a [T::Acc],
    pub(super) kept: Option<Unwritten<'a, T>>,
}

impl<T: Element> Task for Forward<'_, T> {
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
        let (activation, bounds) = (self.activation, self.unit.in_lanes(c));
        let (gates, last) = self.gate.as_chunks_mut::<LANES>();
        let (ups, last_ups) = self.up.as_chunks::<LANES>();
        for start in (0..gates.len()).step_by(PIECE) {
            let part = start..gates.len().min(start + PIECE);
            let (gates, ups) = (&mut gates[part.clone()], &ups[part]);
            results::<C, T>(c, activation, bounds, gates, ups);
        }
        if !last.is_empty() {
            let (mut gate, up) = ([Padded::block(last, 0)], [Padded::block(last_ups, 0)]);
            results::<C, T>(c, activation, bounds, &mut gate, &up);
            last.copy_from_slice(&gate[0][..last.len()]);
        }
    }
}

/// Replaces gates by the unit's results.
#[inline(always)]
fn results<C: Context, T: Element>(
    c: C,
    activation: Gate<T::Acc>,
    bounds: Bounds<C::Of<T::Acc>>,
    gates: &mut [[T::Acc; LANES]],
    ups: &[[T::Acc; LANES]],
) {
    for gate in &mut *gates {
        let held = T::held(c, C::Of::<T::Acc>::read(c, gate));
        *gate = bounds.gate(held).values();
    }
    (activation.values)(gates);
    for (at, gate) in gates.iter_mut().enumerate() {
        let up = T::held(c, C::Of::<T::Acc>::read(c, &ups[at]));
        *gate = (bounds.up(up) * C::Of::<T::Acc>::read(c, gate)).values();
    }
}

/// The backward pass. Given the kept tensor and the gradient of the result without the routing weight, it computes
/// the result again and the gradients of gate, up and routing weight.
pub(super) struct Backward<'a, T: Element> {
    pub(super) activation: Gate<T::Acc>,
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

impl<T: Element> Task for Backward<'_, T> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let width = self.width;
        let bounds = self.unit.in_lanes(c);
        let mut activated = [[[T::Acc::ZERO; LANES]; PIECE]; 2];
        for (row, d_routing) in self.d_routing.iter_mut().enumerate() {
            let (gate, up) = self.kept[2 * row * width..2 * (row + 1) * width].split_at(width);
            let weight = C::Of::<T::Acc>::splat(c, self.routing[row]);
            let mut sum = C::Of::<T::Acc>::splat(c, T::Acc::ZERO);
            for start in (0..width).step_by(PIECE * LANES) {
                let part = start..width.min(start + PIECE * LANES);
                let place = row * width + start..row * width + part.end;
                let (gate, up) = (&gate[part.clone()], &up[part]);
                let slopes = Slopes::<C, T>::new(
                    c,
                    bounds,
                    weight,
                    [gate, up],
                    &mut activated,
                    self.activation,
                );
                let (d_gates, last_gates) = self.gate[place.clone()].as_chunks_mut::<LANES>();
                let (d_ups, last_ups) = self.up[place.clone()].as_chunks_mut::<LANES>();
                let (results, last_results) = self.result[place].as_chunks_mut::<LANES>();
                let whole = d_gates.len();
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
                    let found = slopes.at::<Padded>(whole, d);
                    sum = found.result.mul_add(d, sum);
                    let len = last_gates.len();
                    last_gates.copy_from_slice(&found.d_gate.values()[..len]);
                    last_ups.copy_from_slice(&found.d_up.values()[..len]);
                    last_results.copy_from_slice(&found.result.values()[..len]);
                }
            }
            *d_routing += sum.total();
        }
    }
}

/// The derivatives of the results of a piece of a row.
struct Slopes<'a, C: Context, T: Element> {
    c: C,
    bounds: Bounds<C::Of<T::Acc>>,
    /// The routing weight.
    weight: C::Of<T::Acc>,
    gate: &'a [T],
    up: &'a [T],
    /// The activated gates, and their slopes.
    activated: &'a [[[T::Acc; LANES]; PIECE]; 2],
}

/// The results of a block, and the gradients of its gates and ups.
struct Found<L> {
    result: L,
    d_gate: L,
    d_up: L,
}

impl<'a, C: Context, T: Element> Slopes<'a, C, T> {
    /// Activates the gates of a piece.
    #[inline(always)]
    fn new(
        c: C,
        bounds: Bounds<C::Of<T::Acc>>,
        weight: C::Of<T::Acc>,
        [gate, up]: [&'a [T]; 2],
        activated: &'a mut [[[T::Acc; LANES]; PIECE]; 2],
        activation: Gate<T::Acc>,
    ) -> Self {
        let [values, slopes] = activated;
        let values = &mut values[..gate.len().div_ceil(LANES)];
        load_blocks(c, gate, values);
        for value in &mut *values {
            let clamped = bounds.gate(C::Of::<T::Acc>::read(c, value));
            *value = clamped.values();
        }
        (activation.slopes)(values, slopes);
        Self {
            c,
            bounds,
            weight,
            gate,
            up,
            activated,
        }
    }

    /// Returns what is found for a block, given the gradient `d` of the result without the routing weight.
    #[inline(always)]
    fn at<R: Read>(&self, at: usize, d: C::Of<T::Acc>) -> Found<C::Of<T::Acc>> {
        let (c, bounds) = (self.c, self.bounds);
        let [values, slopes] = self.activated;
        let activated = C::Of::<T::Acc>::read(c, &values[at]);
        let slope = C::Of::<T::Acc>::read(c, &slopes[at]);
        let gate = block::<C, T, R>(c, self.gate, at);
        let up = block::<C, T, R>(c, self.up, at);
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
    use crate::Output;
    use crate::keys::Activation;
    use crate::lanes::dispatch;

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
        let mut kept = Output::new([1, 2 * width]);
        dispatch(Forward {
            activation: Gate::of(Activation::Silu),
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
            activation: Gate::of(Activation::Silu),
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
            let (value, slope) = clamped.silu_with_slope();
            // At exactly the limit, the gradient is zero, as in PyTorch 2.15.
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
                let ours = ours.into_f64();
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
