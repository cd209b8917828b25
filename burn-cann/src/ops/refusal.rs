//! Why an operator does not take its operands.

use crate::DType;
use crate::layout::LayoutError;

/// Why an operator was not called. The text says what to change.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The processor's limits are not those that were checked, or it can't compute it.
    #[error("{what} needs Ascend910B or later; this is {soc}")]
    Processor {
        /// What is not there.
        what: &'static str,
        /// The processor.
        soc: String,
    },
    /// The toolkit is too old, or its version is not known.
    #[error("{what} needs CANN {needed} or later; this is {found}")]
    Version {
        /// What is not there.
        what: &'static str,
        /// The first version that has it.
        needed: &'static str,
        /// The toolkit's version.
        found: String,
    },
    /// An operand's type.
    #[error("{operand} is of type {found}; the operator takes {expected}")]
    Dtype {
        /// The operand.
        operand: &'static str,
        /// Its type.
        found: DType,
        /// What it may be.
        expected: String,
    },
    /// An operand's number of dimensions.
    #[error("{operand} has {found} dimensions; the operator takes {least} to {most}")]
    Rank {
        /// The operand.
        operand: &'static str,
        /// Its dimensions.
        found: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// An operand's shape.
    #[error("{operand} has shape {found:?}; the operator needs {expected}")]
    Shape {
        /// The operand.
        operand: &'static str,
        /// Its shape.
        found: Vec<usize>,
        /// What it must be.
        expected: String,
    },
    /// An operand's elements don't lie one after the other.
    #[error("{operand} is not contiguous: copy it first")]
    Strides {
        /// The operand.
        operand: &'static str,
    },
    /// An operand has no elements.
    #[error("{operand} has no elements")]
    Empty {
        /// The operand.
        operand: &'static str,
    },
    /// A size beyond its limit.
    #[error("{what} is {found}; the operator takes at most {limit}")]
    Size {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: usize,
        /// The most.
        limit: usize,
    },
    /// A parameter that has no meaning.
    #[error("{what} is {found}; it must be {expected}")]
    Value {
        /// The parameter.
        what: &'static str,
        /// Its value.
        found: String,
        /// What it must be.
        expected: &'static str,
    },
    /// The outputs can't be addressed.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// The kind of a [`Refusal`], for those who count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The device or its toolkit.
    Platform,
    /// A type.
    Dtype,
    /// A shape or size.
    Shape,
    /// Strides.
    Layout,
    /// A parameter.
    Value,
}

impl Refusal {
    /// Its kind.
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
