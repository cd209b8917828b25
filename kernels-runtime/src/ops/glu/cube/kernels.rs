//! The kernels. A unit of a cube computes one vector of the result. Packed projections are read and written as vectors of
//! the same size, two for each of the result.

use super::activation::with_slope;
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
pub(super) fn forward<N: Size>(
    first: &[Vector<f32, N>],
    up: ComptimeOption<&[Vector<f32, N>]>,
    y: &mut [Vector<f32, N>],
    numbers: &Numbers,
    #[comptime] projections: Projections,
    #[comptime] activation: Activation,
    #[comptime] clamp: Clamp,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.all {
        terminate!();
    }
    let (gate, up) = match comptime!(projections) {
        Projections::Separate => (first[i], up.unwrap()[i]),
        Projections::Chunked | Projections::Interleaved => unpacked(first, i, numbers, projections),
    };
    let (gate, up) = clamped(gate, up, numbers, clamp);
    let (value, _) = with_slope(gate, activation);
    y[i] = value * (up + Vector::new(numbers.offset));
}

/// Writes the gradients of gate and up.
#[cube(launch_unchecked)]
pub(super) fn backward<N: Size>(
    dy: &[Vector<f32, N>],
    gate: &[Vector<f32, N>],
    up: &[Vector<f32, N>],
    d_gate: &mut [Vector<f32, N>],
    d_up: &mut [Vector<f32, N>],
    numbers: &Numbers,
    #[comptime] activation: Activation,
    #[comptime] clamp: Clamp,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.all {
        terminate!();
    }
    let (of_gate, of_up) = gradients(dy[i], gate[i], up[i], numbers, activation, clamp);
    d_gate[i] = of_gate;
    d_up[i] = of_up;
}

/// Writes the gradients of packed projections.
#[cube(launch_unchecked)]
pub(super) fn packed_backward<N: Size>(
    dy: &[Vector<f32, N>],
    gate_up: &[Vector<f32, N>],
    d_gate_up: &mut [Vector<f32, N>],
    numbers: &Numbers,
    #[comptime] projections: Projections,
    #[comptime] activation: Activation,
    #[comptime] clamp: Clamp,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.all {
        terminate!();
    }
    let (gate, up) = unpacked(gate_up, i, numbers, projections);
    let (of_gate, of_up) = gradients(dy[i], gate, up, numbers, activation, clamp);
    if comptime!(projections == Projections::Interleaved) {
        let (first, second) = by_turns(of_gate, of_up);
        d_gate_up[2 * i] = first;
        d_gate_up[2 * i + 1] = second;
    } else {
        let at = place(i, numbers);
        d_gate_up[at] = of_gate;
        d_gate_up[at + numbers.vectors] = of_up;
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
fn unpacked<N: Size>(
    gate_up: &[Vector<f32, N>],
    i: usize,
    numbers: &Numbers,
    #[comptime] projections: Projections,
) -> (Vector<f32, N>, Vector<f32, N>) {
    if comptime!(projections == Projections::Interleaved) {
        apart(gate_up[2 * i], gate_up[2 * i + 1])
    } else {
        let at = place(i, numbers);
        (gate_up[at], gate_up[at + numbers.vectors])
    }
}
