//! Numbers of slots, such as routing weights: in the type of the rows `T`, in the one that is computed in, or in f32.

use crate::{DType, Element, Real, Values, View};

/// Returns the elements of a contiguous tensor in the type that is computed in.
///
/// # Panics
/// Panics if it has another type, or if it is not contiguous.
pub(super) fn load<T: Element>(numbers: &View<'_>) -> Vec<T::Acc> {
    match numbers.dtype() {
        dtype if dtype == T::DTYPE => {
            let numbers = numbers.contiguous::<T>().iter();
            numbers.map(|number| number.load()).collect()
        }
        DType::F32 => {
            let numbers = numbers.contiguous::<f32>().iter();
            numbers
                .map(|number| T::Acc::of(f64::from(*number)))
                .collect()
        }
        _ => numbers.contiguous::<T::Acc>().to_vec(),
    }
}

/// Returns numbers in a type, rounded.
///
/// # Panics
/// Panics if it is another type than those.
pub(super) fn store<T: Element>(numbers: impl Iterator<Item = T::Acc>, dtype: DType) -> Values {
    match dtype {
        _ if dtype == T::DTYPE => T::values(numbers.map(T::round).collect()),
        DType::F32 => Values::F32(numbers.map(|number| number.into_f64() as f32).collect()),
        _ => {
            let wide = <T::Acc as Element>::DTYPE;
            assert!(
                dtype == wide,
                "numbers beside rows in {:?} are not in {dtype:?}",
                T::DTYPE
            );
            T::Acc::values(numbers.collect())
        }
    }
}
