//! The gated unit of an expert, forward and backward, row by row.

use super::super::Settings;
use crate::cpu::product::Gemm;
use crate::cpu::{Element, Function, Real, Unwritten, sum_of};
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

    /// Returns the clamped gate. A NaN fails the comparison and stays.
    #[inline(always)]
    fn clamp_gate(self, gate: A) -> A {
        if gate > self.limit { self.limit } else { gate }
    }

    #[inline(always)]
    fn clamp_up(self, up: A) -> A {
        let up = if up > self.limit { self.limit } else { up };
        if up < -self.limit { -self.limit } else { up }
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

impl<T: Element, F: Function> pulp::WithSimd for Forward<'_, T, F>
where
    T::Acc: Gemm,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let (unit, width) = (self.unit, self.width);
        if width == 0 {
            return;
        }
        if let Some(mut kept) = self.kept {
            let gates = self.gate.chunks_exact(width);
            for (gate, up) in gates.zip(self.up.chunks_exact(width)) {
                for values in [gate, up] {
                    let rounded = values.iter().map(|value| T::round(*value));
                    kept.row(width).write(rounded);
                }
            }
        }
        for (gate, up) in self.gate.iter_mut().zip(self.up) {
            let g = unit.clamp_gate(T::round(*gate).load());
            let u = unit.clamp_up(T::round(*up).load());
            *gate = (unit.up_offset + u) * F::value(g);
        }
    }
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

impl<T: Element, F: Function> pulp::WithSimd for Backward<'_, T, F>
where
    T::Acc: Gemm,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let (unit, width) = (self.unit, self.width);
        let zero = <T::Acc as Gemm>::ZERO;
        for (row, d_routing) in self.d_routing.iter_mut().enumerate() {
            let (kept_gate, kept_up) =
                self.kept[2 * row * width..2 * (row + 1) * width].split_at(width);
            let span = row * width..(row + 1) * width;
            let (d_gate, d_up) = (&mut self.gate[span.clone()], &mut self.up[span.clone()]);
            let result = &mut self.result[span];
            for (((result, d_up), gate), up) in result
                .iter_mut()
                .zip(d_up.iter_mut())
                .zip(kept_gate)
                .zip(kept_up)
            {
                let g = unit.clamp_gate(gate.load());
                let activated = F::value(g);
                *result = (unit.up_offset + unit.clamp_up(up.load())) * activated;
                *d_up = activated;
            }
            *d_routing += sum_of(result, d_gate, d_gate, |result, d, _| result * d);
            let weight = self.routing[row];
            for (((d_gate, d_up), gate), up) in d_gate
                .iter_mut()
                .zip(d_up.iter_mut())
                .zip(kept_gate)
                .zip(kept_up)
            {
                let (gate, up) = (gate.load(), up.load());
                let d = weight * *d_gate;
                let g = unit.clamp_gate(gate);
                let (_, slope) = F::with_slope(g);
                let d_gate_there = d * (unit.up_offset + unit.clamp_up(up)) * slope;
                *d_gate = if gate > unit.limit {
                    zero
                } else {
                    d_gate_there
                };
                let beyond = up > unit.limit || up < -unit.limit;
                *d_up = if beyond { zero } else { d * *d_up };
            }
        }
    }
}
