//! Views that can't be.

use std::ops::Range;

/// A view that is malformed or reaches beyond its memory.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Shape and strides differ in length.
    #[error("a shape of {shape} dimensions with {strides} strides")]
    Ranks {
        /// Dimensions.
        shape: usize,
        /// Strides.
        strides: usize,
    },
    /// Sizes or strides are too large for an address.
    #[error("shape {shape:?} is too large to be addressed")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// The view reaches beyond its memory.
    #[error("the view reaches element {reach} of a memory of {held}")]
    OutOfBounds {
        /// One past the last element that is reached.
        reach: usize,
        /// Elements of the memory.
        held: usize,
    },
    /// A dimension that there is not.
    #[error("dimension {dim} of a tensor with {rank} dimensions")]
    Dimension {
        /// The dimension.
        dim: usize,
        /// How many there are.
        rank: usize,
    },
    /// A range that is not within a dimension.
    #[error("elements {}..{} of a dimension of {size}", .range.start, .range.end)]
    Slice {
        /// The range.
        range: Range<usize>,
        /// The dimension's size.
        size: usize,
    },
    /// Not an order of the dimensions.
    #[error("{order:?} does not name each of {rank} dimensions once")]
    Order {
        /// What was asked for.
        order: Vec<usize>,
        /// How many dimensions there are.
        rank: usize,
    },
    /// A shape that elements can't be repeated to.
    #[error("shape {from:?} can't be repeated to {to:?}: only dimensions of one element can")]
    Expand {
        /// The shape.
        from: Vec<usize>,
        /// What was asked for.
        to: Vec<usize>,
    },
    /// A dimension of more or less than one element that was to go.
    #[error("dimension {dim} has {size} elements, so it can't be left out")]
    Squeeze {
        /// The dimension.
        dim: usize,
        /// Its size.
        size: usize,
    },
    /// A step of zero.
    #[error("a step of zero leads nowhere; steps are 1 or more")]
    Step,
    /// Another number of elements, or elements that don't lie one after the other.
    #[error("{from} can't be seen as shape {to:?} without a copy")]
    Reshape {
        /// The layout.
        from: String,
        /// The shape that was asked for.
        to: Vec<usize>,
    },
}
