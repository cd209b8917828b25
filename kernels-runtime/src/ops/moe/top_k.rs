use burn::tensor::{Bool, Int, Tensor};

/// Returns the places of the `k` largest values of each row, largest first. Of equal values, the lower place comes
/// first. NaN counts as +∞, so that it is chosen and visible. `excluded` places are never taken; at
/// least `k` places of each row must not be excluded.
///
/// Burn's own top-k sorts unstably, so equal values come in any order. This function takes the largest value `k`
/// times, with plain operations that mean the same on every backend. It passes no gradient.
///
/// `values` is `[rows, n]`, the result is `[rows, k]`.
pub(super) fn top_k(
    values: Tensor<2>,
    excluded: Option<Tensor<2, Bool>>,
    k: usize,
) -> Tensor<2, Int> {
    let [rows, n] = values.dims();
    let device = values.device();
    if rows == 0 {
        return Tensor::zeros([0, k], &device);
    }
    let values = nan_as_largest(values.detach());
    let places: Tensor<2, Int> = Tensor::<1, Int>::arange(0..n as i64, &device)
        .unsqueeze::<2>()
        .expand([rows, n]);
    let mut taken = excluded.unwrap_or_else(|| places.clone().lower_elem(0));
    let mut columns = Vec::with_capacity(k);
    for _ in 0..k {
        let open = values.clone().mask_fill(taken.clone(), f64::NEG_INFINITY);
        let largest = open.clone().max_dim(1).expand([rows, n]);
        // A value of −∞ equals those of the taken places, which must not be chosen again.
        let passed = open.not_equal(largest).bool_or(taken.clone());
        let first = places.clone().mask_fill(passed, n as i64).min_dim(1);
        taken = taken.bool_or(places.clone().equal(first.clone().expand([rows, n])));
        columns.push(first);
    }
    Tensor::cat(columns, 1)
}

/// Replaces NaN by +∞.
pub(super) fn nan_as_largest(values: Tensor<2>) -> Tensor<2> {
    let nan = values.clone().is_nan();
    values.mask_fill(nan, f64::INFINITY)
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn places(values: &[f32], excluded: Option<&[bool]>, k: usize) -> Vec<i64> {
        let device = Device::flex();
        let values = Tensor::<1>::from_data(values, &device).unsqueeze();
        let excluded = excluded.map(|mask| Tensor::<1, Bool>::from_data(mask, &device).unsqueeze());
        top_k(values, excluded, k).into_data().iter().collect()
    }

    #[test]
    fn equal_values_keep_their_order() {
        assert_eq!(places(&[1.0, 3.0, 3.0, 2.0, 3.0], None, 4), [1, 2, 4, 3]);
        assert_eq!(places(&[0.0, -0.0, 0.0], None, 3), [0, 1, 2]);
        // More than 20 elements: below that, an unstable sort happens to be stable.
        assert_eq!(places(&[1.0; 64], None, 5), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_ends_of_the_number_line_are_values_like_others() {
        const INF: f32 = f32::INFINITY;
        assert_eq!(places(&[1.0, f32::NAN, INF, 2.0], None, 3), [1, 2, 3]);
        assert_eq!(places(&[-INF, -INF, 1.0], None, 3), [2, 0, 1]);
        let last = Some(&[true, false, true, false][..]);
        assert_eq!(places(&[9.0, -INF, INF, -INF], last, 2), [1, 3]);
    }
}
