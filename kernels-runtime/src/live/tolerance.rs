//! The allowed distance of results from the exact ones.
//!
//! A **kernel** has to meet the budget of its dtype ([`Budget`]), element by element. The reference is run a second time
//! in the tensors' own dtype, and twice *its* largest error is allowed in addition. Where a result has few elements, the
//! operands state how large its terms are ([`Operands::terms`](crate::kernel::Operands::terms)).
//!
//! A **body** may round in every one of its operations, so it is compared as a whole. The Euclidean norm of its error
//! may be 16 roundings of bf16 or f16, or 2¹¹ roundings of f32 or f64 (long sums accumulate in the dtype), of the norm
//! of the exact result, plus four times the reference's own error in the dtype. Bodies that differ in the maths differ
//! by a hundredth or more: SiLU and GELU of normal inputs differ by a sixth. In f32, GELU and its tanh form are also
//! distinguished (they differ by 3·10⁻⁴). In half types this is not possible.
//!
//! The terms that a result is a sum of may **cancel**: equal scores of attention have a gradient of zero, and a row of
//! equal elements has the LayerNorm zero, but what roundings leave of their terms is not zero. So a call that is outside
//! of these tolerances is judged once more, by the size of its terms. The reference runs in f64 with random
//! [noise](crate::kernel::rounded) in its operands, its results and the intermediate results that it marks, and in
//! the gradients that come back through them. What the noise changes is what roundings may change. An element of a kernel
//! may be off by as much in addition, for noise of one rounding of a half type, which its key may demand of intermediate
//! results, or 32 of f32 or f64. A body may be off by twice as much in place of the fraction of its norm, for noise of a
//! quarter of that fraction: well-conditioned results gain nothing by it, since their terms are about as large as they
//! are. Where noise is not finite, as in the results of a router's token that two experts fit equally, nothing is
//! compared. This costs some runs of the reference, and only calls that would otherwise be reported.
//!
//! A body that overflows in its dtype, such as a norm that squares numbers of 10⁴ in f16, is not right, since it
//! gives other numbers than its attribute states.
//!
//! The rows of a run and each slice of probes are judged separately, because they differ in size, and the larger ones
//! would hide the smaller.

use super::run::{Split, Values};
use crate::registry::FloatType;
use crate::verify::Budget;
use burn::tensor::DType;
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
        /// The type that a body's result has to be cast to, if the type alone differs.
        cast: Option<DType>,
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
    /// A body that computes with another epsilon than the kernel.
    Epsilon {
        miss: Box<Miss>,
        kernel: f64,
        body: f64,
    },
}

impl Miss {
    /// Adds the epsilon that a body uses in place of the kernel's.
    pub(super) fn by_epsilon(self, kernel: f64, body: f64) -> Self {
        Self::Epsilon {
            miss: Box::new(self),
            kernel,
            body,
        }
    }
}

/// The one to judge.
#[derive(Clone, Copy)]
pub(super) enum Who {
    Kernel,
    Body,
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
    /// What noise changed, if the result is judged by it.
    pub(super) noise: Option<&'a Values>,
    /// The slices that are judged separately.
    pub(super) split: Option<Split>,
}

impl Three<'_> {
    /// Returns the largest error of a kernel as a fraction of the allowed error.
    pub(super) fn kernel(self) -> Result<f64, Miss> {
        self.in_parts(Who::Kernel, Self::kernel_in)
    }

    /// Returns the error of a body as a fraction of the allowed error.
    pub(super) fn body(self) -> Result<f64, Miss> {
        self.in_parts(Who::Body, Self::body_in)
    }

    fn in_parts(
        self,
        who: Who,
        judge: impl Fn(&Self, &Range<usize>) -> Result<f64, Miss>,
    ) -> Result<f64, Miss> {
        self.same_type(who)?;
        let mut parts = self.exact.parts(self.split).into_iter();
        parts.try_fold(0.0_f64, |worst, part| Ok(worst.max(judge(&self, &part)?)))
    }

    fn kernel_in(&self, part: &Range<usize>) -> Result<f64, Miss> {
        let budget = Budget::of(self.dtype);
        let largest = largest(self.pairs(self.exact, part).map(|(_, exact, _)| exact));
        let of_plain = largest_error(self.pairs(self.plain, part));
        let changed = self.changes(part).fold(0.0, f64::max);
        let mut worst = 0.0_f64;
        for (element, expected, got) in self.pairs(self.got, part) {
            let allowed = budget.allowed(expected, largest + self.terms)
                + 2.0 * of_plain
                + changed
                + smallest(self.dtype);
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
        let of_plain = error(self.plain);
        let of_plain = if of_plain.is_finite() { of_plain } else { 0.0 };
        let distance = error(self.got);
        let changed = 2.0 * norm(self.changes(part));
        let least = 16.0 * smallest(self.dtype) * (part.len() as f64).sqrt();
        let allowed = (body_roundings(self.dtype) * size).max(changed) + 4.0 * of_plain + least;
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

    /// Returns what noise changed, of the elements that are compared.
    fn changes(&self, part: &Range<usize>) -> impl Iterator<Item = f64> {
        let noise = self.noise.into_iter();
        noise.flat_map(|noise| self.pairs(noise, part).map(|(_, _, change)| change))
    }

    /// Returns the index, the exact value and the value of `of`, for elements whose exact value is finite in the dtype
    /// and whose noise is finite.
    fn pairs<'a>(
        &self,
        of: &'a Values,
        part: &Range<usize>,
    ) -> impl Iterator<Item = (usize, f64, f64)> + use<'a, '_> {
        let limit = largest_finite(self.dtype);
        let both = self.exact.elements.iter().zip(&of.elements).enumerate();
        let both = both.skip(part.start).take(part.len());
        let noise = self.noise.map(|noise| &noise.elements[..]);
        let is_finite = move |element: usize| noise.is_none_or(|noise| noise[element].is_finite());
        both.filter(move |(element, (exact, _))| exact.abs() <= limit && is_finite(*element))
            .map(|(element, (exact, got))| (element, *exact, *got))
    }

    fn same_type(&self, who: Who) -> Result<(), Miss> {
        let describe = |values: &Values| format!("{} {:?}", values.dtype.name(), values.shape);
        if describe(self.got) == describe(self.plain) {
            return Ok(());
        }
        let is_cast = matches!(who, Who::Body) && self.got.shape == self.plain.shape;
        Err(Miss::Type {
            result: self.exact.name.clone(),
            got: describe(self.got),
            expected: describe(self.plain),
            cast: is_cast.then_some(self.plain.dtype),
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

/// Returns the size of the noise by which bodies and kernels are judged.
pub(super) fn noise_of(who: Who, dtype: FloatType) -> [f64; 2] {
    match who {
        Who::Body => [body_roundings(dtype) / 4.0, smallest(dtype)],
        Who::Kernel => [Budget::of(dtype).allowed(1.0, 0.0), smallest(dtype)],
    }
}

/// Returns the distance of the numbers around zero. In f32 and types of its range, devices may take the smallest ones
/// for zero.
fn smallest(dtype: FloatType) -> f64 {
    match dtype {
        FloatType::F16 => 2.0_f64.powi(-24),
        _ => f64::from(f32::MIN_POSITIVE),
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
