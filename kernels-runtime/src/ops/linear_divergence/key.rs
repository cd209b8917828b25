use crate::semantics::{Dtypes, Shift, compute_dtype, differ};
use burn::tensor::DType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// The settings that change the result of a divergence of a student's tokens from a teacher's.
///
/// The mixture, the temperature and the caps are run-time values of the site, not part of the key. On half types everything is
/// computed in f32: logits are never rounded, and the result stays in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinearDivergenceKey {
    /// The learned biases of the logits: both the student and the teacher have one, or neither.
    pub shift: Shift,
}

impl LinearDivergenceKey {
    /// Output layers without a bias.
    pub const PLAIN: Self = Self { shift: Shift::None };
}

impl Dtypes for LinearDivergenceKey {
    /// Returns whether the dtypes of student and teacher differ, or the last one, that of factors, is not the compute dtype.
    fn mixes(&self, dtypes: impl ExactSizeIterator<Item = DType>) -> bool {
        let dtypes: SmallVec<[DType; 7]> = dtypes.collect();
        match dtypes[..] {
            [hidden, ref others @ .., factors] => {
                let others = others.iter().copied();
                differ(others.chain([hidden])) || factors != compute_dtype(hidden)
            }
            _ => false,
        }
    }
}

impl fmt::Display for LinearDivergenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.shift {
            Shift::None => "linear_divergence",
            Shift::Bias => "linear_divergence(shift=bias)",
        })
    }
}
