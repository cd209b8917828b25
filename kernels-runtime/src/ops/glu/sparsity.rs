//! The threshold of the Gaussian top-k above the mean, in standard deviations.

use crate::ops::operands::{Mismatch, require};
use burn::tensor::{DType, bf16, f16};
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

/// Checks that the sparsity is a number below 1 in f32.
pub(super) fn check(sparsity: f64) -> Result<(), Mismatch> {
    // Rounded to f32 because f32 is used later: 0.99999999 is 1 in f32, and its quantile is infinite.
    require!(
        (sparsity as f32) < 1.0,
        "GLU: the sparsity is {sparsity}; it must be a number below 1 in f32"
    );
    Ok(())
}

/// Returns `Φ⁻¹(sparsity)`, computed for f32 and then rounded to `dtype`. Returns `None` if the sparsity,
/// rounded to f32, is not above 0; the gate then stays unchanged.
///
/// Rounds in the same places as transformers' Gemma 3n, which computes `√2 · erf⁻¹(2p − 1)` in f32.
pub(super) fn multiplier(sparsity: f64, dtype: DType) -> Option<f64> {
    let sparsity = sparsity as f32;
    if sparsity <= 0.0 {
        return None;
    }
    let doubled = 2.0 * sparsity - 1.0;
    // At −1 the quantile would be infinite.
    let p = if doubled > -1.0 {
        (1.0 + f64::from(doubled)) / 2.0
    } else {
        f64::from(sparsity)
    };
    let value = (normal_quantile(p) * FRAC_1_SQRT_2) as f32 * SQRT_2 as f32;
    Some(match dtype {
        DType::F16 => f16::from_f32(value).to_f64(),
        DType::BF16 => bf16::from_f32(value).to_f64(),
        _ => f64::from(value),
    })
}

/// Returns `Φ⁻¹(p)` for `0 < p < 1`, by Newton's method on the logarithm of the tail `Q`. The logarithm is
/// concave and decreasing. The start `√(−2 ln tail)` is above the root, because `Q(z) < e^(−z²/2)`. So the
/// iterates decrease towards the root and can't miss it.
fn normal_quantile(p: f64) -> f64 {
    let tail = p.min(1.0 - p);
    let mut z = (-2.0 * tail.ln()).sqrt();
    loop {
        let q = 0.5 * libm::erfc(z * FRAC_1_SQRT_2);
        let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        let step = (q / tail).ln() * q / density;
        z += step;
        if step > -1e-15 * z.max(1.0) {
            break;
        }
    }
    if p < 0.5 { -z } else { z }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        // Abramowitz & Stegun, table 26.5, and the usual confidence bounds.
        for (p, expected) in [
            (0.5, 0.0),
            (0.841_344_746_068_542_9, 1.0),
            (0.95, 1.644_853_626_951_472_7),
            (0.975, 1.959_963_984_540_054),
            (0.999, 3.090_232_306_167_813_6),
            (0.025, -1.959_963_984_540_054),
        ] {
            let value = normal_quantile(p);
            assert!((value - expected).abs() < 1e-14, "{p}: {value}");
        }
    }

    #[test]
    fn quantiles_are_found_everywhere_in_f32() {
        for p in [
            f64::from(f32::from_bits(1)),
            1e-30,
            0.1,
            0.499_999,
            0.500_001,
            f64::from(1.0_f32.next_down()),
        ] {
            let z = normal_quantile(p);
            let back = 0.5 * libm::erfc(-z * FRAC_1_SQRT_2);
            assert!((back - p).abs() <= 1e-12 * p, "{p:e}: {z}, back {back:e}");
        }
    }

    #[test]
    fn the_multiplier_has_the_dtype() {
        // The values that torch 2.15 computes. The quantile of 0.95 in f32 is 1.64485351.
        assert_eq!(multiplier(0.95, DType::F32), Some(1.644_853_591_918_945_3));
        assert!(multiplier(1e-30, DType::F32).unwrap().is_finite());
        assert_eq!(multiplier(0.95, DType::BF16), Some(1.648_437_5));
        assert_eq!(multiplier(0.0, DType::F32), None);
        assert_eq!(multiplier(-1.0, DType::F32), None);
    }

    #[test]
    #[should_panic(expected = "the sparsity is NaN")]
    fn nan_is_no_sparsity() {
        check(f64::NAN).unwrap();
    }

    #[test]
    #[should_panic(expected = "must be a number below 1")]
    fn one_is_no_sparsity() {
        check(0.999_999_999).unwrap();
    }
}
