//! Refusals: the reasons why an operator does not take its operands.

use crate::DType;
use crate::layout::LayoutError;

/// The reason why an operator was not called. Its text says what to change.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The limits that this crate checks are not those of the processor, or the processor can't compute the operation.
    #[error("{what} needs Ascend910B or later; this is {soc}")]
    Processor {
        /// The missing ability.
        what: &'static str,
        /// The processor.
        soc: String,
    },
    /// The toolkit is too old, or its version is not known.
    #[error("{what} needs CANN {needed} or later; this is {found}")]
    Version {
        /// The missing ability.
        what: &'static str,
        /// The first version of CANN that has it.
        needed: &'static str,
        /// The toolkit's version.
        found: String,
    },
    /// The operator does not take this dtype.
    #[error("{operand} is of type {found}; the operator takes {expected}")]
    Dtype {
        /// The operand.
        operand: &'static str,
        /// Its dtype.
        found: DType,
        /// The dtypes that the operator takes.
        expected: String,
    },
    /// The operator does not take this number of dimensions.
    #[error("{operand} has {found} dimensions; the operator takes {least} to {most}")]
    Rank {
        /// The operand.
        operand: &'static str,
        /// Its number of dimensions.
        found: usize,
        /// The smallest number of dimensions.
        least: usize,
        /// The largest number of dimensions.
        most: usize,
    },
    /// The operator does not take this shape.
    #[error("{operand} has shape {found:?}; the operator needs {expected}")]
    Shape {
        /// The operand.
        operand: &'static str,
        /// Its shape.
        found: Vec<usize>,
        /// A description of the shape that the operator needs.
        expected: String,
    },
    /// The operand is not contiguous.
    #[error("{operand} is not contiguous: copy it first")]
    Strides {
        /// The operand.
        operand: &'static str,
    },
    /// The operand has no elements.
    #[error("{operand} has no elements")]
    Empty {
        /// The operand.
        operand: &'static str,
    },
    /// A size exceeds its limit.
    #[error("{what} is {found}; the operator takes at most {limit}")]
    Size {
        /// The size that is too large.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The largest value.
        limit: usize,
    },
    /// The value of a parameter has no meaning.
    #[error("{what} is {found}; it must be {expected}")]
    Value {
        /// The parameter.
        what: &'static str,
        /// Its value.
        found: String,
        /// A description of the values that it may have.
        expected: &'static str,
    },
    /// The outputs can't be addressed.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// The kind of a [`Refusal`], for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The device or its toolkit refuses.
    Platform,
    /// A dtype is refused.
    Dtype,
    /// A shape or size is refused.
    Shape,
    /// Strides are refused.
    Layout,
    /// A parameter is refused.
    Value,
}

impl Refusal {
    /// Returns the kind of the refusal.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Processor { .. } | Self::Version { .. } => Kind::Platform,
            Self::Dtype { .. } => Kind::Dtype,
            Self::Rank { .. } | Self::Shape { .. } | Self::Empty { .. } | Self::Size { .. } => {
                Kind::Shape
            }
            Self::Layout(_) => Kind::Shape,
            Self::Strides { .. } => Kind::Layout,
            Self::Value { .. } => Kind::Value,
        }
    }
}
