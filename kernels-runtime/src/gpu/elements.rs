//! Elements of tensors, f32, f16 or bf16, and the numbers that kernels compute with, in f32.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Returns elements as numbers. None changes.
#[cube]
pub(crate) fn wide<E: Float, N: Size>(elements: Vector<E, N>) -> Vector<f32, N> {
    Vector::<f32, N>::cast_from(elements)
}

/// Returns numbers rounded to elements.
#[cube]
pub(crate) fn narrow<E: Float, N: Size>(numbers: Vector<f32, N>) -> Vector<E, N> {
    Vector::<E, N>::cast_from(numbers)
}

/// Returns numbers that were rounded to elements, if `is_rounded`.
#[cube]
pub(crate) fn stepped<E: Float, N: Size>(
    numbers: Vector<f32, N>,
    #[comptime] is_rounded: bool,
) -> Vector<f32, N> {
    if comptime!(is_rounded) {
        wide(narrow::<E, N>(numbers))
    } else {
        numbers
    }
}
