//! The allowed distance of results from the exact ones.
//!
//! A **kernel** has to meet the budget of its dtype ([`Budget`]), element by element. The terms that a result is a sum
//! of are not known here, and they may cancel. The reference is therefore run a second time in the tensors' own dtype,
//! and twice *its* largest error is allowed in addition. Where a result has too few elements to tell it so, the operands
//! state how large the terms are ([`Operands::terms`](crate::kernel::Operands::terms)).
//!
//! A **body** may round in every one of its operations, so it is compared as a whole. The Euclidean norm of its error
//! may be 16 roundings of bf16 or f16, or 2¹¹ roundings of f32 or f64 (long sums accumulate in the dtype), of the norm
//! of the exact result, plus four times the reference's own error in the dtype. Bodies that differ in the maths differ
//! by a hundredth or more: SiLU and GELU of normal inputs differ by a sixth. In f32, GELU and its tanh form are also
//! distinguished (they differ by 3·10⁻⁴). In half types this is not possible.
//!
//! The rows of a run and each slice of probes are judged separately, because they differ in size, and the larger ones
//! would hide the smaller.

use super::run::{Split, Values};
use crate::registry::FloatType;
use crate::verify::Budget;
use std::ops::Range;

/// A deviation outside the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Miss {
    /// A single element.
    Element {
        result: String,
        element: usize,
        got: f64,
        expected: f64,
        allowed: f64,
    },
    /// A result as a whole. The element is the one with the largest error.
    Norm {
        result: String,
        distance: f64,
        allowed: f64,
        element: usize,
        got: f64,
        expected: f64,
    },
    /// The shape or dtype of a result.
    Type {
        result: String,
        got: String,
        expected: String,
    },
    /// An operand without a gradient, although the result depends on it.
    NoGradient { result: String },
    /// A result on a half type that is rounded in another order than its key states.
    Order {
        result: String,
        order: &'static str,
        /// The number of differing elements that have the value of `order`.
        agree: usize,
        differ: usize,
    },
}

/// Three versions of one result: the exact one, the reference's in the tensors' dtype, and the one to judge.
#[derive(Clone, Copy)]
pub(super) struct Three<'a> {
    pub(super) exact: &'a Values,
    pub(super) plain: &'a Values,
    pub(super) got: &'a Values,
    pub(super) dtype: FloatType,
    /// The size of the terms that the operands state.
    pub(super) terms: f64,
    /// The slices that are judged separately.
    pub(super) split: Option<Split>,
}

impl Three<'_> {
    /// Returns the largest error of a kernel as a fraction of the allowed error.
    pub(super) fn kernel(self) -> Result<f64, Miss> {
        self.in_parts(Self::kernel_in)
    }

    /// Returns the error of a body as a fraction of the allowed error.
    pub(super) fn body(self) -> Result<f64, Miss> {
        self.in_parts(Self::body_in)
    }

    fn in_parts(
        self,
        judge: impl Fn(&Self, &Range<usize>) -> Result<f64, Miss>,
    ) -> Result<f64, Miss> {
        self.same_type()?;
        let mut parts = self.exact.parts(self.split).into_iter();
        parts.try_fold(0.0_f64, |worst, part| Ok(worst.max(judge(&self, &part)?)))
    }

    fn kernel_in(&self, part: &Range<usize>) -> Result<f64, Miss> {
        let budget = Budget::of(self.dtype);
        let largest = largest(self.pairs(self.exact, part).map(|(_, exact, _)| exact));
        let noise = largest_error(self.pairs(self.plain, part));
        let mut worst = 0.0_f64;
        for (element, expected, got) in self.pairs(self.got, part) {
            let allowed = budget.allowed(expected, largest + self.terms) + 2.0 * noise;
            let error = (got - expected).abs();
            // The comparison is written so that a NaN is outside.
            let within = error <= allowed;
            if !within {
                return Err(Miss::Element {
                    result: self.exact.name.clone(),
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

    fn body_in(&self, part: &Range<usize>) -> Result<f64, Miss> {
        let size = norm(self.pairs(self.exact, part).map(|(_, exact, _)| exact));
        let error = |of| norm(self.pairs(of, part).map(|(_, exact, got)| got - exact));
        let noise = error(self.plain);
        let noise = if noise.is_finite() { noise } else { 0.0 };
        let distance = error(self.got);
        let allowed =
            body_roundings(self.dtype) * size + 4.0 * noise + f64::from(f32::MIN_POSITIVE);
        let within = distance <= allowed;
        if within {
            return Ok(distance / allowed);
        }
        let off = |(_, expected, got): &(usize, f64, f64)| (got - expected).abs();
        let farthest = self
            .pairs(self.got, part)
            .max_by(|a, b| off(a).total_cmp(&off(b)));
        let (element, expected, got) = farthest.expect("a distance needs an element");
        Err(Miss::Norm {
            result: self.exact.name.clone(),
            distance: distance / size,
            allowed: allowed / size,
            element,
            got,
            expected,
        })
    }

    /// Returns the index, the exact value and the value of `of`, for elements whose exact value is finite in the dtype.
    fn pairs<'a>(
        &self,
        of: &'a Values,
        part: &Range<usize>,
    ) -> impl Iterator<Item = (usize, f64, f64)> + use<'a, '_> {
        let limit = largest_finite(self.dtype);
        let both = self.exact.elements.iter().zip(&of.elements).enumerate();
        let both = both.skip(part.start).take(part.len());
        both.filter(move |(_, (exact, _))| exact.abs() <= limit)
            .map(|(element, (exact, got))| (element, *exact, *got))
    }

    fn same_type(&self) -> Result<(), Miss> {
        let describe = |values: &Values| format!("{} {:?}", values.dtype.name(), values.shape);
        if describe(self.got) == describe(self.plain) {
            return Ok(());
        }
        Err(Miss::Type {
            result: self.exact.name.clone(),
            got: describe(self.got),
            expected: describe(self.plain),
        })
    }
}

/// Returns the error that roundings may add to a body's result, as a fraction of the exact result's norm.
fn body_roundings(dtype: FloatType) -> f64 {
    match dtype {
        FloatType::F64 => 2.0_f64.powi(11 - 53),
        FloatType::F32 => 2.0_f64.powi(11 - 24),
        FloatType::F16 => 2.0_f64.powi(4 - 11),
        FloatType::Bf16 => 2.0_f64.powi(4 - 8),
    }
}

fn largest_finite(dtype: FloatType) -> f64 {
    match dtype {
        FloatType::F64 => f64::MAX,
        FloatType::F32 => f64::from(f32::MAX),
        FloatType::F16 => burn::tensor::f16::MAX.to_f64(),
        FloatType::Bf16 => burn::tensor::bf16::MAX.to_f64(),
    }
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |max, value| max.max(value.abs()))
}

/// Returns the largest of the finite errors.
fn largest_error(pairs: impl Iterator<Item = (usize, f64, f64)>) -> f64 {
    largest(
        pairs
            .map(|(_, exact, got)| got - exact)
            .filter(|error| error.is_finite()),
    )
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}
