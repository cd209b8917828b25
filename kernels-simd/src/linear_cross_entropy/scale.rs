//! The last step of the gradients: the factor, and the rounding of half types.

use crate::{
    CHUNK, DType, Element, Output, Real, SliceMut, Values, View, share, with_type, write_scaled,
};
use std::any::TypeId;

/// Returns contiguous numbers in f32, or in f64 for f64, times the gradient of a loss, rounded to a type.
///
/// # Panics
/// Panics if a type is not that of numbers that this one is computed in, or if `dy` is not one number.
pub fn scaled(kept: &View<'_>, dy: &View<'_>, dtype: DType) -> Values {
    with_type!(dtype, T => scaled_in::<T>(kept, dy))
}

fn scaled_in<T: Element>(kept: &View<'_>, dy: &View<'_>) -> Values {
    let (values, factor) = (kept.contiguous::<T::Acc>(), one::<T::Acc>(dy));
    T::values(match is_number(factor) {
        true => rounded_times::<T>(values, factor),
        false => {
            let product = times_no_number::<T::Acc>(values, factor);
            rounded_times::<T>(&product, <T::Acc as Real>::ONE)
        }
    })
}

/// Returns the rows of contiguous numbers in f32, or in f64 for f64, each times the gradient of its own loss, rounded to a type.
///
/// # Panics
/// Panics if a type is not that of numbers that this one is computed in, or if rows and gradients are not as many.
pub fn scaled_rows(kept: &View<'_>, dy: &View<'_>, dtype: DType) -> Values {
    with_type!(dtype, T => scaled_rows_in::<T>(kept, dy))
}

fn scaled_rows_in<T: Element>(kept: &View<'_>, dy: &View<'_>) -> Values {
    let (values, factors) = (kept.contiguous::<T::Acc>(), dy.contiguous::<T::Acc>());
    let &[rows, width] = kept.sizes() else {
        panic!("numbers of sizes {:?} are not rows", kept.sizes())
    };
    assert!(
        rows == factors.len(),
        "{rows} rows have {} gradients of losses",
        factors.len()
    );
    if factors.iter().all(|factor| is_number(*factor)) {
        return T::values(rounded_rows::<T>((values, width), factors));
    }
    let rows = values.chunks(width.max(1)).zip(factors);
    let products = rows.flat_map(|(row, factor)| match is_number(*factor) {
        true => row.iter().map(|value| *value * *factor).collect(),
        false => times_no_number::<T::Acc>(row, *factor),
    });
    rounded::<T>(products.collect())
}

/// Multiplies numbers by the gradient of a loss in their memory. Returns `false` if that is infinite or NaN, and then changes
/// nothing.
///
/// # Panics
/// Panics if types differ, or if `dy` is not one number.
pub fn multiply(kept: SliceMut<'_>, dy: &View<'_>) -> bool {
    with_type!(kept.dtype(), T => multiply_in::<T>(kept, dy))
}

fn multiply_in<T: Element>(kept: SliceMut<'_>, dy: &View<'_>) -> bool {
    let factor = one::<T>(dy);
    let is_number = is_number(factor.load());
    if is_number && factor.load() != <T::Acc as Real>::ONE {
        let parts = kept.into_slice::<T>().chunks_mut(CHUNK).collect();
        share::each_of_many(parts, |part: &mut [T]| {
            let product = |value: T| T::round(value.load() * factor.load());
            part.iter_mut().for_each(|value| *value = product(*value));
        });
    }
    is_number
}

/// Returns the only number of a tensor.
fn one<T: Element>(tensor: &View<'_>) -> T {
    match tensor.contiguous::<T>() {
        [one] => *one,
        others => panic!("the gradient of a loss has {} elements", others.len()),
    }
}

/// Rounds gradients. Those that are not rounded keep their memory.
pub(super) fn rounded<T: Element>(gradient: Vec<T::Acc>) -> Values {
    match TypeId::of::<T>() == TypeId::of::<T::Acc>() {
        true => T::Acc::values(gradient),
        false => T::values(rounded_times::<T>(&gradient, <T::Acc as Real>::ONE)),
    }
}

/// Returns numbers times an infinite factor or NaN. Zeros stay: those of ignored tokens, of whose logits nothing
/// has a gradient, are not told from others.
pub(super) fn times_no_number<T: Element>(values: &[T], factor: T::Acc) -> Vec<T> {
    let zero = <T::Acc as Real>::ZERO;
    let products = values.iter().map(|value| match value.load() {
        value if value == zero => T::round(zero),
        value => T::round(value * factor),
    });
    products.collect()
}

/// Returns whether a factor is neither infinite nor NaN.
pub(super) fn is_number<A: Real>(factor: A) -> bool {
    // Infinity and NaN times zero are NaN.
    factor * A::ZERO == A::ZERO
}

/// Returns rows of so many numbers, each times a factor of its own, rounded.
fn rounded_rows<T: Element>((values, width): (&[T::Acc], usize), factors: &[T::Acc]) -> Vec<T> {
    let mut rounded = Output::<T>::new([values.len()]);
    let mut rest = rounded.rest();
    let together = (CHUNK / width.max(1)).max(1);
    let mut parts = Vec::new();
    for (values, factors) in values
        .chunks((together * width).max(1))
        .zip(factors.chunks(together))
    {
        parts.push((values, factors, rest.part(values.len())));
    }
    drop(rest);
    share::each_of_many(parts, |(values, factors, mut part)| {
        write_scaled(values, width, factors, &mut part);
    });
    rounded.into_values()
}

/// Returns numbers times a factor, rounded.
fn rounded_times<T: Element>(values: &[T::Acc], factor: T::Acc) -> Vec<T> {
    let mut rounded = Output::<T>::new([values.len()]);
    let mut rest = rounded.rest();
    let mut parts = Vec::new();
    for values in values.chunks(CHUNK) {
        parts.push((values, rest.part(values.len())));
    }
    drop(rest);
    share::each_of_many(parts, |(values, mut part)| {
        write_scaled(values, values.len(), &[factor], &mut part);
    });
    rounded.into_values()
}
