//! The kernels. A unit of a cube computes one vector of the result. Packed projections are read and written as vectors of
//! the same size, two for each of the result.

use super::activation::with_slope;
use crate::gpu::elements::{narrow, wide};
use crate::gpu::parts::{apart, at_least, at_most, by_turns};
use crate::semantics::{Activation, Clamp, Projections};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The numbers of a call.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Numbers {
    /// The number of vectors of a row of the result.
    vectors: usize,
    /// The number of vectors of the result.
    all: usize,
    /// The limit of the clamp.
    limit: f32,
    /// The offset of up.
    offset: f32,
}

/// Writes the result, given the gate, or the tensor that holds gate and up.
#[cube(launch_unchecked)]
pub(super) fn forward<E: Float, N: Size>(
    first: &[Vector<E, N>],
    up: ComptimeOption<&[Vector<E, N>]>,
    y: &mut [Vector<E, N>],
    numbers: &Numbers,
    #[comptime] projections: Projections,
    #[comptime] activation: Activation,
    #[comptime] clamp: Clamp,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.all {
        terminate!();
    }
    let (gate, up) = match comptime!(projections) {
        Projections::Separate => (wide(first[i]), wide(up.unwrap()[i])),
        Projections::Chunked | Projections::Interleaved => unpacked(first, i, numbers, projections),
    };
    let (gate, up) = clamped(gate, up, numbers, clamp);
    let (value, _) = with_slope(gate, activation);
    y[i] = narrow(value * (up + Vector::new(numbers.offset)));
}

/// Writes the gradients of gate and up.
#[cube(launch_unchecked)]
pub(super) fn backward<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    gate: &[Vector<E, N>],
    up: &[Vector<E, N>],
    d_gate: &mut [Vector<E, N>],
    d_up: &mut [Vector<E, N>],
    numbers: &Numbers,
    #[comptime] activation: Activation,
    #[comptime] clamp: Clamp,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.all {
        terminate!();
    }
    let (dy, gate, up) = (wide(dy[i]), wide(gate[i]), wide(up[i]));
    let (of_gate, of_up) = gradients(dy, gate, up, numbers, activation, clamp);
    d_gate[i] = narrow(of_gate);
    d_up[i] = narrow(of_up);
}

/// Writes the gradients of packed projections.
#[cube(launch_unchecked)]
pub(super) fn packed_backward<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    gate_up: &[Vector<E, N>],
    d_gate_up: &mut [Vector<E, N>],
    numbers: &Numbers,
    #[comptime] projections: Projections,
    #[comptime] activation: Activation,
    #[comptime] clamp: Clamp,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.all {
        terminate!();
    }
    let (gate, up) = unpacked(gate_up, i, numbers, projections);
    let (of_gate, of_up) = gradients(wide(dy[i]), gate, up, numbers, activation, clamp);
    if comptime!(projections == Projections::Interleaved) {
        let (first, second) = by_turns(of_gate, of_up);
        d_gate_up[2 * i] = narrow(first);
        d_gate_up[2 * i + 1] = narrow(second);
    } else {
        let at = place(i, numbers);
        d_gate_up[at] = narrow(of_gate);
        d_gate_up[at + numbers.vectors] = narrow(of_up);
    }
}

/// Returns the gradients of gate and up.
#[cube]
fn gradients<N: Size>(
    dy: Vector<f32, N>,
    gate: Vector<f32, N>,
    up: Vector<f32, N>,
    numbers: &Numbers,
    #[comptime] activation: Activation,
    #[comptime] clamp: Clamp,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let (inner_gate, inner_up) = clamped(gate, up, numbers, clamp);
    let (value, slope) = with_slope(inner_gate, activation);
    let d_gate = dy * (inner_up + Vector::new(numbers.offset)) * slope;
    let d_up = dy * value;
    if comptime!(clamp == Clamp::Limit) {
        let (zero, limit) = (Vector::new(0.0), Vector::new(numbers.limit));
        (
            select_many(gate.less_than(&limit), d_gate, zero),
            select_many(Vector::abs(up).less_than(&limit), d_up, zero),
        )
    } else {
        (d_gate, d_up)
    }
}

/// Returns gate and up, clamped if the key has a clamp.
#[cube]
fn clamped<N: Size>(
    gate: Vector<f32, N>,
    up: Vector<f32, N>,
    numbers: &Numbers,
    #[comptime] clamp: Clamp,
) -> (Vector<f32, N>, Vector<f32, N>) {
    if comptime!(clamp == Clamp::Limit) {
        let limit = Vector::new(numbers.limit);
        (at_most(gate, limit), at_least(at_most(up, limit), -limit))
    } else {
        (gate, up)
    }
}

/// Returns the place of the gate in chunked projections. Up is a row of the result further.
#[cube]
fn place(i: usize, numbers: &Numbers) -> usize {
    i + i / numbers.vectors * numbers.vectors
}

/// Returns gate and up for the vector `i` of the result.
#[cube]
fn unpacked<E: Float, N: Size>(
    gate_up: &[Vector<E, N>],
    i: usize,
    numbers: &Numbers,
    #[comptime] projections: Projections,
) -> (Vector<f32, N>, Vector<f32, N>) {
    if comptime!(projections == Projections::Interleaved) {
        apart(wide(gate_up[2 * i]), wide(gate_up[2 * i + 1]))
    } else {
        let at = place(i, numbers);
        (wide(gate_up[at]), wide(gate_up[at + numbers.vectors]))
    }
}
