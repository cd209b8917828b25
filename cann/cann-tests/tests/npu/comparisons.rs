//! Tests of the comparisons that tests of operations use: each can fail.

use crate::npu::{FLOATS, assert_close, assert_close_on_the_whole};
use burn_cann::DType;

#[test]
fn what_is_not_near_fails() {
    type Compare = fn(&str, &[f64], &[f64], DType);
    let whole: Compare = |what, found, expected, dtype| {
        assert_close_on_the_whole(what, found, expected, dtype);
    };
    let each: Compare = |what, found, expected, dtype| assert_close(what, found, expected, dtype);
    let expected = [1e-3, -2e-3, 0.0];
    let infinite = [f64::INFINITY, 1.0, 0.0];
    for (compare, dtype) in [each, whole]
        .into_iter()
        .flat_map(|one| FLOATS.map(|dtype| (one, dtype)))
    {
        let passes = |found: &[f64], expected: &[f64]| {
            std::panic::catch_unwind(|| compare("", found, expected, dtype)).is_ok()
        };
        assert!(passes(&expected, &expected) && passes(&[0.0], &[0.0]));
        // Small gradients that were not computed, that have other signs, or that are of other rows.
        assert!(!passes(&[0.0; 3], &expected));
        assert!(!passes(&expected.map(|x| -x), &expected));
        assert!(!passes(&[1e-3, -2e-3, 1e-3], &expected));
        assert!(!passes(&[f64::NAN; 3], &expected));
        assert!(!passes(&[1e-3, f64::NAN, 0.0], &expected));
        assert!(!passes(&expected, &[1e-3, f64::NAN, 0.0]));
        assert!(!passes(&infinite.map(|x| -x), &infinite));
        assert!(!passes(&expected[..2], &expected));
        assert!(!passes(&[], &[]));
    }
}
