//! Errors of views.

use std::ops::Range;

/// A view that is malformed or reaches beyond its memory.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Shape and strides have different lengths.
    #[error("a shape of {shape} dimensions with {strides} strides")]
    Ranks {
        /// The length of the shape.
        shape: usize,
        /// The length of the strides.
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
        /// The position after the last element that the view reaches.
        reach: usize,
        /// The number of elements of the memory.
        held: usize,
    },
    /// The dimension does not exist.
    #[error("dimension {dim} of a tensor with {rank} dimensions")]
    Dimension {
        /// The dimension.
        dim: usize,
        /// The number of dimensions.
        rank: usize,
    },
    /// The range is not within the dimension.
    #[error("elements {}..{} of a dimension of {size}", .range.start, .range.end)]
    Slice {
        /// The range.
        range: Range<usize>,
        /// The size of the dimension.
        size: usize,
    },
    /// The order does not name each dimension once.
    #[error("{order:?} does not name each of {rank} dimensions once")]
    Order {
        /// The requested order.
        order: Vec<usize>,
        /// The number of dimensions.
        rank: usize,
    },
    /// Elements can't be repeated to the requested shape.
    #[error("shape {from:?} can't be repeated to {to:?}: only dimensions of one element can")]
    Expand {
        /// The shape.
        from: Vec<usize>,
        /// The requested shape.
        to: Vec<usize>,
    },
    /// The dimension to be removed does not have size 1.
    #[error("dimension {dim} has {size} elements, so it can't be left out")]
    Squeeze {
        /// The dimension.
        dim: usize,
        /// The size of the dimension.
        size: usize,
    },
    /// The step is zero.
    #[error("a step of zero leads nowhere; steps are 1 or more")]
    Step,
    /// The shape has another number of elements, or the elements are not contiguous.
    #[error("{from} can't be seen as shape {to:?} without a copy")]
    Reshape {
        /// The layout.
        from: String,
        /// The requested shape.
        to: Vec<usize>,
    },
}
