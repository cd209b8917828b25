//! Errors of weights whose parts do not go together.

use crate::Dtype;

/// The reason why parts don't form a weight of an encoding.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// The encoding has no matrices of this shape.
    #[error("{encoding} has no weights of shape {shape:?}: {problem}")]
    Shape {
        /// The encoding.
        encoding: String,
        /// The shape, rows and columns.
        shape: [usize; 2],
        /// The mismatch.
        problem: String,
    },
    /// A setting of the encoding is not supported.
    #[error("{encoding} with these settings is not supported: {problem}")]
    Setting {
        /// The encoding.
        encoding: String,
        /// The setting, and which are supported.
        problem: String,
    },
    /// A part is missing.
    #[error("{encoding}: part {part:?} is missing")]
    Missing {
        /// The encoding.
        encoding: String,
        /// The name of the part.
        part: String,
    },
    /// A part has no meaning in the encoding.
    #[error("{encoding}: unexpected part {part:?} with these settings")]
    Unexpected {
        /// The encoding.
        encoding: String,
        /// The name of the part.
        part: String,
    },
    /// Two parts have one name.
    #[error("two parts have the name {part:?}")]
    Twice {
        /// The name.
        part: String,
    },
    /// The elements of a part have another type.
    #[error("part {part:?} is {found}; expected {}", listed(expected))]
    Dtype {
        /// The name of the part.
        part: String,
        /// The types that the encoding has.
        expected: Vec<Dtype>,
        /// The type of the part.
        found: Dtype,
    },
    /// A part has another shape.
    #[error("part {part:?} has shape {found:?}; expected {expected:?}")]
    PartShape {
        /// The name of the part.
        part: String,
        /// The shape that follows from that of the weight.
        expected: Vec<usize>,
        /// The shape of the part.
        found: Vec<usize>,
    },
    /// The length of a part is not that of its type and shape.
    #[error("part {part:?} has {found} bytes, which do not match {dtype} of shape {shape:?}")]
    Bytes {
        /// The name of the part.
        part: String,
        /// The type of its elements.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<usize>,
        /// The number of its bytes.
        found: usize,
    },
    /// A number has no code.
    #[error("element {at} is {number}, which {encoding} cannot hold")]
    Number {
        /// The encoding.
        encoding: String,
        /// The place of the number among those that were to be encoded.
        at: usize,
        /// The number.
        number: f32,
    },
    /// The content of a part contradicts the rest.
    #[error("part {part:?}: {problem}")]
    Content {
        /// The name of the part.
        part: String,
        /// The contradiction.
        problem: String,
    },
}

impl QuantError {
    pub(crate) fn content(part: &str, problem: impl Into<String>) -> Self {
        Self::Content {
            part: part.into(),
            problem: problem.into(),
        }
    }
}

fn listed(dtypes: &[Dtype]) -> String {
    let names: Vec<String> = dtypes.iter().map(Dtype::to_string).collect();
    names.join(" or ")
}
