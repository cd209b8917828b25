//! Tests of the comparison that tests use: nothing passes because it is hidden.

use crate::comparison::{difference, largest, relative, relative_to};
use std::panic::catch_unwind;

const INFINITY: f64 = f64::INFINITY;

type Compare = fn(&[f64], &[f64]) -> f64;

#[test]
fn differences_are_the_largest() {
    assert_eq!(difference(&[1.0, -2.0, 0.5], &[1.0, 1.0, 1.0]), 3.0);
    assert_eq!(relative(&[1.0, -2.0], &[1.0, -4.0]), 0.5);
    assert_eq!(relative_to(8.0, &[1.0, -2.0], &[1.0, -4.0]), 0.25);
    assert_eq!(largest(&[1.0, -4.0, -INFINITY]), 4.0);
    // Equal infinities don't differ, and hide no difference beside them.
    assert_eq!(relative(&[INFINITY, 3.0], &[INFINITY, 2.0]), 0.5);
    assert_eq!(relative(&[0.0], &[0.0]), 0.0);
    assert_eq!(relative(&[1e-300], &[0.0]), INFINITY);
}

#[test]
fn what_can_not_be_compared_fails() {
    const NAN: f64 = f64::NAN;
    let cases: [(&[f64], &[f64], &str); 8] = [
        (&[], &[], "nothing to compare"),
        (&[1.0], &[1.0, 1.0], "other lengths"),
        (&[1.0, NAN], &[1.0, 1.0], "element 1 is NaN, not 1"),
        (&[NAN, NAN], &[1.0, 1.0], "element 0 is NaN, not 1"),
        (&[NAN], &[NAN], "element 0 is NaN, not NaN"),
        (&[1.0], &[NAN], "element 0 is 1, not NaN"),
        (&[-INFINITY], &[INFINITY], "element 0 is -inf, not inf"),
        (&[1.0], &[INFINITY], "element 0 is 1, not inf"),
    ];
    for (found, expected, words) in cases {
        let compare: [Compare; 3] = [difference, relative, |found, expected| {
            relative_to(1.0, found, expected)
        }];
        for compare in compare {
            let panic = catch_unwind(|| compare(found, expected)).expect_err("they differ");
            let message = panic.downcast::<String>().map(|message| *message);
            let message =
                message.unwrap_or_else(|panic| panic.downcast_ref::<&str>().unwrap().to_string());
            assert!(
                message.contains(words),
                "{found:?}, {expected:?}: {message}"
            );
        }
    }
    assert!(catch_unwind(|| largest(&[1.0, NAN])).is_err());
}
