use super::{Element, Real};

/// Returns the sum of vectors of length `n`, rounded once. Partial sums of a parameter's gradient are added in the
/// order of their rows, whichever thread computed them.
pub fn total<'a, T: Element>(parts: impl Iterator<Item = &'a [T::Acc]>, n: usize) -> Vec<T> {
    let mut sum = vec![T::Acc::ZERO; n];
    for part in parts {
        for (sum, part) in sum.iter_mut().zip(part) {
            *sum += *part;
        }
    }
    sum.iter().map(|value| T::round(*value)).collect()
}
