use crate::registry::FloatType;

/// How far a kernel's result `a` may be from the exact one `g`, both computed from inputs that
/// are already rounded to the dtype: `|a − g| ≤ roundings · rounding · |g| + sum · terms`.
///
/// `rounding` is that of the result: at most 2⁻⁸ of a value in bf16 and 2⁻¹¹ in f16. `roundings` is
/// how often the semantics round at most: twice, or three times where a gate follows Llama's norm.
/// f32 and f64 results are allowed 32 roundings for each, for chains of operations and the
/// approximated `exp`.
///
/// `sum` is that of sums, whose terms may cancel; `terms` is how large they are together: 16
/// roundings of the accumulation (f32, or f64 for f64). Where a sum's terms are themselves rounded
/// to the dtype before they are added, as autodiff does with the parts of a gradient, `sum` is
/// that rounding.
///
/// For comparison: the public precision standard of Ascend operators allows 2⁻⁶, 2⁻⁹ and 2⁻¹⁰ of
/// the value (bf16, f16, f32) and as much absolutely for the half types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    rounding: f64,
    sum: f64,
    sum_of_rounded: f64,
}

/// The exact values of a result, and what they are sums of.
#[derive(Clone, Debug)]
pub(super) struct Exact<'a> {
    pub(super) values: &'a [f64],
    /// The largest sum of magnitudes.
    pub(super) terms: f64,
    /// Whether terms are rounded to the dtype before they are added.
    pub(super) rounded_terms: bool,
    /// How often a value is rounded to the dtype.
    pub(super) roundings: u32,
    /// How far the result may be off besides, where roundings in between are more than these.
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
    /// The budget of a dtype.
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

    /// How far a result that is a sum of terms as large as `terms` may be from `expected`.
    pub(crate) fn allowed(&self, expected: f64, terms: f64) -> f64 {
        self.rounding * expected.abs() + self.sum * terms
    }

    /// The largest error as a part of what is allowed, or the first element outside.
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
            // Written so that a NaN is outside.
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
