use crate::Real;

/// The `k` largest of the offered values, largest first. Of equal values, those that were offered first come
/// first. If `k` is small, most values are compared only once, and no others are stored. Otherwise all are sorted.
pub(super) struct Largest<A> {
    kept: Vec<(A, usize)>,
    k: usize,
}

/// The largest number of values that are kept in order while others are offered.
const FEW: usize = 32;

impl<A: Real> Largest<A> {
    /// Makes a collection of `k` values, at least one.
    pub(super) fn new(k: usize) -> Self {
        Self {
            kept: Vec::with_capacity(k),
            k,
        }
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Offers a value that is not NaN and its index.
    #[inline(always)]
    pub(super) fn offer(&mut self, value: A, index: usize) {
        if self.k > FEW {
            return self.kept.push((value, index));
        }
        if self.kept.len() == self.k {
            if value <= self.kept[self.k - 1].0 {
                return;
            }
            self.kept.pop();
        }
        let mut place = self.kept.len();
        while place > 0 && value > self.kept[place - 1].0 {
            place -= 1;
        }
        self.kept.insert(place, (value, index));
    }

    /// Ends the offers. Keeps the largest values alone.
    pub(super) fn settle(&mut self) {
        if self.k > FEW {
            // Stable, so that equal values stay as they came.
            let order = |one: &(A, usize), other: &(A, usize)| other.0.partial_cmp(&one.0);
            self.kept
                .sort_by(|one, other| order(one, other).expect("no value is NaN"));
            self.kept.truncate(self.k);
        }
    }

    /// Returns the indices of a [settled](Self::settle) collection, in the order of their values.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> {
        self.kept.iter().map(|(_, index)| *index)
    }

    /// Sorts by index, so that [`Largest::indices`] ascend.
    pub(super) fn sort_by_index(&mut self) {
        self.kept.sort_unstable_by_key(|(_, index)| *index);
    }
}

/// Returns +∞ for NaN, and other values unchanged.
#[inline(always)]
pub(super) fn nan_as_largest<A: Real>(value: A) -> A {
    if value.partial_cmp(&value).is_some() {
        value
    } else {
        A::of(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(values: &[f64], k: usize) -> Vec<usize> {
        let mut largest = Largest::new(k);
        for (index, value) in values.iter().enumerate() {
            largest.offer(*value, index);
        }
        largest.settle();
        largest.indices().collect()
    }

    #[test]
    fn the_largest_are_kept_in_order_and_equal_ones_as_they_came() {
        let values = [1.0, 3.0, -0.0, 3.0, 0.0, 2.0, f64::NEG_INFINITY, 3.0];
        let expected = [1, 3, 7, 5, 0, 2, 4, 6];
        for k in 1..=values.len() {
            assert_eq!(indices(&values, k), expected[..k], "{k}");
        }
    }

    #[test]
    fn many_are_those_of_few() {
        let values: Vec<f64> = (0..200_u32).map(|i| f64::from(i * 37 % 23)).collect();
        let all = indices(&values, values.len());
        for k in [1, FEW, FEW + 1, 100] {
            assert_eq!(indices(&values, k), all[..k], "{k}");
        }
    }

    #[test]
    fn nan_is_largest() {
        assert_eq!(nan_as_largest(f32::NAN), f32::INFINITY);
        assert_eq!(nan_as_largest(-1.0_f64), -1.0);
    }
}
