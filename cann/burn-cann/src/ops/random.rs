//! Filling tensors with random numbers on the device (`aclnnInplaceUniform`, `aclnnInplaceNormal`,
//! `aclnnInplaceBernoulli`, `aclnnInplaceRandom`).
//!
//! The numbers depend only on [`Seed`]. CANN chooses the generator, so the numbers may differ between its versions.

use super::aclnn::aclnn;
use super::check;
use super::types::{FLOATS, NUMBERS, USUAL};
use super::{Checked, Refusal};
use crate::call::{Constant, Scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The state of a generator. The same seed and offset yield the same numbers; the caller advances the offset with
/// every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    /// The generator's seed.
    pub seed: u64,
    /// The number of steps from the seed.
    pub offset: u64,
}

/// A distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Distribution {
    /// Uniform from `low` to below `high`. For floats but f64.
    Uniform {
        /// The lower bound.
        low: f64,
        /// The upper bound, which is not reached.
        high: f64,
    },
    /// Normal. For floats but f64.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        deviation: f32,
    },
    /// 1 or true with a probability, else 0 or false. For any dtype but u16, u32 and u64.
    Bernoulli {
        /// The probability, from 0 to 1.
        probability: f64,
    },
    /// Whole numbers from `low` to below `high`. For all numbers.
    Whole {
        /// The lower bound.
        low: i64,
        /// The upper bound, which is not reached.
        high: i64,
    },
}

impl Distribution {
    fn takes(self) -> &'static [DType] {
        match self {
            Self::Uniform { .. } | Self::Normal { .. } => FLOATS,
            Self::Bernoulli { .. } => USUAL,
            Self::Whole { .. } => NUMBERS,
        }
    }

    /// Checks the tensor that [`fill`] writes to. No elements may share memory.
    ///
    /// # Errors
    ///
    /// Returns a refusal if CANN does not take the tensor or the parameters describe no distribution.
    pub fn check(self, platform: &Platform, target: &Spec) -> Checked<()> {
        check::processor(platform, "random numbers")?;
        check::writable(("target", target), self.takes())?;
        let expected = match self {
            Self::Uniform { low, high } if low <= high && (high - low).is_finite() => return Ok(()),
            Self::Uniform { .. } => "finite, the low end not above the high end",
            Self::Normal { mean, deviation } if mean.is_finite() && deviation >= 0.0 => {
                return Ok(());
            }
            Self::Normal { .. } => "a finite mean and a deviation that is not negative",
            Self::Bernoulli { probability } if (0.0..=1.0).contains(&probability) => return Ok(()),
            Self::Bernoulli { .. } => "a probability from 0 to 1",
            Self::Whole { low, high } if low < high => return Ok(()),
            Self::Whole { .. } => "the low end below the high end",
        };
        Err(Refusal::Value {
            what: "the distribution",
            found: format!("{self:?}"),
            expected,
        })
    }
}

/// Fills `target` with random numbers of a distribution.
///
/// # Errors
///
/// Returns an error if [`Distribution::check`] refuses the operands or a call fails.
pub fn fill(stream: &Stream, target: &Tensor, of: Distribution, at: Seed) -> Result<()> {
    of.check(stream.device().platform(), target.spec())?;
    if target.spec().is_empty() {
        return Ok(());
    }
    let (seed, offset) = (at.seed.cast_signed(), at.offset.cast_signed());
    match of {
        Distribution::Uniform { low, high } => aclnn!(
            once stream, create.aclnnInplaceUniformGetWorkspaceSize, aclnnInplaceUniform,
            tensors [target], constants [], attributes [],
            call(target, low, high, at.seed, at.offset), (),
        ),
        Distribution::Normal { mean, deviation } => aclnn!(
            once stream, create.aclnnInplaceNormalGetWorkspaceSize, aclnnInplaceNormal,
            tensors [target], constants [], attributes [],
            call(target, mean, deviation, seed, offset), (),
        ),
        Distribution::Bernoulli { probability } => aclnn!(
            once stream, create.aclnnInplaceBernoulliGetWorkspaceSize, aclnnInplaceBernoulli,
            tensors [target],
            constants [p: scalar = Constant::Scalar(Scalar::Float(probability))], attributes [],
            call(target, p, seed, offset), (),
        ),
        Distribution::Whole { low, high } => aclnn!(
            once stream, create.aclnnInplaceRandomGetWorkspaceSize, aclnnInplaceRandom,
            tensors [target], constants [], attributes [],
            call(target, low, high, seed, offset), (),
        ),
    }
}
