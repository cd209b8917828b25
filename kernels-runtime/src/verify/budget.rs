use crate::registry::FloatType;

/// The allowed distance of a kernel's result `a` from the exact result `g`, if both are computed from inputs that are
/// already rounded to the dtype: `|a − g| ≤ roundings · rounding · |g| + sum · terms`.
///
/// `rounding` is the rounding of the result: at most 2⁻⁸ of a value in bf16 and 2⁻¹¹ in f16. `roundings` is the largest
/// number of times that the semantics round: twice, or three times if a gate follows Llama's norm. For f32 and f64,
/// each of these counts as 32 roundings, for chains of operations and the approximated `exp`.
///
/// `terms` is the sum of the magnitudes of a result's terms, which may cancel. `sum` is the rounding of such a sum: 16
/// roundings of the accumulation type (f32, or f64 for f64). If the terms are themselves rounded to the dtype before
/// they are added, as autodiff does with the parts of a gradient, `sum` is that rounding.
///
/// For comparison: the public precision standard of Ascend operators allows 2⁻⁶, 2⁻⁹ and 2⁻¹⁰ of the value (bf16, f16,
/// f32) and the same absolute error for the half types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    rounding: f64,
    sum: f64,
    sum_of_rounded: f64,
}

/// The exact values of a result, and the properties of the sums they are.
#[derive(Clone, Debug)]
pub(super) struct Exact<'a> {
    pub(super) values: &'a [f64],
    /// The largest sum of magnitudes of the terms of an element.
    pub(super) terms: f64,
    /// True if terms are rounded to the dtype before they are added.
    pub(super) rounded_terms: bool,
    /// The number of times that a value is rounded to the dtype.
    pub(super) roundings: u32,
    /// An additional allowed error, for intermediate roundings that the other fields do not cover.
    pub(super) noise: f64,
}

/// An element outside the budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Miss {
    pub(super) element: usize,
    pub(super) got: f64,
    pub(super) expected: f64,
    pub(super) allowed: f64,
}

impl Budget {
    /// Returns the budget of a dtype.
    pub fn of(dtype: FloatType) -> Self {
        let powers = |rounding: i32, sum: i32, sum_of_rounded: i32| Self {
            rounding: 2.0_f64.powi(-rounding),
            sum: 2.0_f64.powi(-sum),
            sum_of_rounded: 2.0_f64.powi(-sum_of_rounded),
        };
        match dtype {
            FloatType::F64 => powers(48, 49, 49),
            FloatType::F32 => powers(19, 20, 20),
            FloatType::F16 => powers(11, 20, 11),
            FloatType::Bf16 => powers(8, 20, 8),
        }
    }

    /// Returns the allowed error of a result, if it is a sum of terms whose magnitudes add up to `terms`.
    pub(crate) fn allowed(&self, expected: f64, terms: f64) -> f64 {
        self.rounding * expected.abs() + self.sum * terms
    }

    /// Returns the largest error as a fraction of the allowed error, or the first element outside the budget.
    pub(super) fn worst(&self, got: &[f64], exact: &Exact<'_>) -> Result<f64, Miss> {
        assert_eq!(got.len(), exact.values.len(), "results of different sizes");
        let sum = if exact.rounded_terms {
            self.sum_of_rounded
        } else {
            self.sum
        };
        let mut worst = 0.0_f64;
        for (element, (&got, &expected)) in got.iter().zip(exact.values).enumerate() {
            let rounding = self.rounding * f64::from(exact.roundings);
            let allowed = rounding * expected.abs() + sum * exact.terms + exact.noise;
            let error = (got - expected).abs();
            // The comparison is written so that a NaN is outside.
            let within = error <= allowed;
            if !within {
                return Err(Miss {
                    element,
                    got,
                    expected,
                    allowed,
                });
            }
            if error > 0.0 {
                worst = worst.max(error / allowed);
            }
        }
        Ok(worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_found() {
        let budget = Budget::of(FloatType::Bf16);
        let mut exact = Exact {
            values: &[1.0, 100.0, 0.0],
            terms: 100.0,
            rounded_terms: false,
            roundings: 2,
            noise: 0.0,
        };
        let miss = |got: &[f64], exact: &Exact<'_>| budget.worst(got, exact).unwrap_err().element;
        assert!(budget.worst(&[1.007, 100.7, 0.00009], &exact).unwrap() < 1.0);
        assert_eq!(miss(&[1.009, 100.0, 0.0], &exact), 0);
        assert_eq!(miss(&[1.0, 101.0, 0.0], &exact), 1);
        assert_eq!(miss(&[1.0, 100.0, 0.01], &exact), 2);
        assert_eq!(miss(&[1.0, 100.0, f64::NAN], &exact), 2);
        exact.rounded_terms = true;
        assert!(budget.worst(&[1.0, 100.0, 0.01], &exact).is_ok());
        assert_eq!(miss(&[1.0, 100.0, 0.6], &exact), 2);
        exact.noise = 0.5;
        assert!(budget.worst(&[1.0, 100.0, 0.6], &exact).is_ok());
    }
}
