use super::{Element, Output, Real};
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;

/// Returns the sum of vectors of length `n`, rounded once. Partial sums of a parameter's gradient are added in the
/// order of their rows, whichever thread computed them.
pub(crate) fn total<'a, T: Element>(
    parts: impl Iterator<Item = &'a [T::Acc]>,
    n: usize,
) -> FlexTensor {
    let mut sum = vec![T::Acc::ZERO; n];
    for part in parts {
        for (sum, part) in sum.iter_mut().zip(part) {
            *sum += *part;
        }
    }
    let mut rounded = Output::<T>::new(Shape::new([n]));
    let values = sum.iter().map(|value| T::round(*value));
    rounded.rest().row(n).write(values);
    rounded.finish()
}
