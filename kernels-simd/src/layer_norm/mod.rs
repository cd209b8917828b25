//! LayerNorm over the last axis: `y = x̂ · w + b`, `x̂ = (x − mean(x)) · rstd`, `rstd = 1 / sqrt(var(x) + eps)`.
//!
//! The passes over a row, for its mean, its variance and its result, find it in the first-level cache: memory is read once
//! and written once.

mod backward;
mod forward;

use crate::{Element, Real, Rows, Values, View, with_type};

/// The results of the forward pass. The statistics, one of each row that has elements, are in f32, or in f64 for f64.
#[derive(Clone, Debug)]
pub struct Normalised {
    /// The result.
    pub y: Values,
    /// The mean of each row.
    pub mean: Values,
    /// The reciprocal of the standard deviation of each row.
    pub rstd: Values,
}

/// The gradients. Those that are not wanted are `None`.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of `x`.
    pub x: Values,
    /// The gradient of the weight.
    pub weight: Option<Values>,
    /// The gradient of the bias.
    pub bias: Option<Values>,
}

/// The tensors of a backward pass.
#[derive(Clone, Debug)]
pub struct Backward<'a> {
    /// The gradient of the result, `[.., n]`, with contiguous rows.
    pub dy: View<'a>,
    /// The tensor that was normalised, `[.., n]`, with contiguous rows.
    pub x: View<'a>,
    /// The mean of each row, contiguous.
    pub mean: View<'a>,
    /// The reciprocal of the standard deviation of each row, contiguous.
    pub rstd: View<'a>,
    /// The weight, `[n]`, contiguous.
    pub weight: View<'a>,
    /// True if the gradient of the weight is wanted.
    pub wants_weight: bool,
    /// True if the gradient of the bias is wanted.
    pub wants_bias: bool,
}

/// Returns the result, the mean of each row and the reciprocals of the standard deviations, of `x`, `[.., n]`, whose rows
/// are contiguous, and of contiguous parameters, `[n]`.
///
/// # Panics
/// Panics if sizes or types don't go together, or if a tensor can't be read in place.
pub fn forward(x: &View<'_>, weight: &View<'_>, bias: Option<&View<'_>>, eps: f64) -> Normalised {
    with_type!(x.dtype(), T => forward::forward::<T>(x, weight, bias, eps))
}

/// Returns the wanted gradients.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()).
pub fn backward(given: &Backward<'_>) -> Gradients {
    with_type!(given.x.dtype(), T => backward::backward::<T>(given))
}

/// Returns the number of rows that have elements. Others need no memory, however many there are.
fn with_elements<T: Element>(rows: &Rows<'_, T>) -> usize {
    match rows.width() {
        0 => 0,
        _ => rows.count(),
    }
}

/// Returns a parameter of `width` elements in the accumulation precision.
fn parameter<T: Element>(tensor: &View<'_>, width: usize) -> Vec<T::Acc> {
    let values = tensor.contiguous::<T>();
    assert!(
        values.len() == width,
        "a parameter of {} elements is not one of rows of {width}",
        values.len()
    );
    values.iter().map(|w| w.load()).collect()
}

/// Returns a row's number of elements as a divisor.
#[inline(always)]
fn divisor<A: Real>(width: usize) -> A {
    A::of(width as f64)
}
