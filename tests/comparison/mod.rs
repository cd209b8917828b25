//! Distances of results that a test may rely on: each panics where a fold with `f64::max` would pass. That function drops
//! NaN, and the largest of no differences is zero.

#![allow(dead_code)] // Each program of tests uses a part of it.

/// Returns the largest absolute difference. Infinities of one sign don't differ.
///
/// # Panics
/// Panics if there is nothing to compare, if the lengths differ, and at a NaN or an infinity that the other lacks.
#[track_caller]
pub fn difference(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "results have other lengths");
    assert!(!expected.is_empty(), "there is nothing to compare");
    let mut most = 0.0;
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        if found == expected {
            continue;
        }
        let apart = (found - expected).abs();
        assert!(apart.is_finite(), "element {at} is {found}, not {expected}");
        if apart > most {
            most = apart;
        }
    }
    most
}

/// Returns the largest absolute difference as a part of [`largest`] of the expected values, at least `least`.
///
/// # Panics
/// Panics as [`difference`] does.
#[track_caller]
pub fn relative_to(least: f64, found: &[f64], expected: &[f64]) -> f64 {
    match difference(found, expected) {
        0.0 => 0.0,
        apart => apart / largest(expected).max(least),
    }
}

/// Returns the largest absolute difference as a part of the largest expected value.
///
/// # Panics
/// Panics as [`difference`] does.
#[track_caller]
pub fn relative(found: &[f64], expected: &[f64]) -> f64 {
    relative_to(0.0, found, expected)
}

/// Returns the largest finite absolute value, or zero.
///
/// # Panics
/// Panics at a NaN.
#[track_caller]
pub fn largest(values: &[f64]) -> f64 {
    let mut most = 0.0;
    for (at, value) in values.iter().enumerate() {
        assert!(!value.is_nan(), "element {at} is NaN");
        if value.is_finite() && value.abs() > most {
            most = value.abs();
        }
    }
    most
}
