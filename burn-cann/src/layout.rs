//! Shape, strides and offset of a view, in elements.

use std::fmt;
use std::ops::Range;

/// A view that is malformed or reaches beyond its memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// Another number of elements, or elements that don't lie one after the other.
    #[error("{from} can't be seen as shape {to:?} without a copy")]
    Reshape {
        /// The layout.
        from: String,
        /// The shape that was asked for.
        to: Vec<usize>,
    },
}

/// How the elements of a view lie in its memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
}

impl fmt::Debug for Layout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shape,
            strides,
            offset,
        } = self;
        write!(out, "shape {shape:?}, strides {strides:?}, offset {offset}")
    }
}

impl Layout {
    /// Elements one after the other, the last dimension fastest.
    ///
    /// # Errors
    ///
    /// The shape is too large to be addressed.
    pub fn contiguous(shape: impl Into<Vec<usize>>) -> Result<Self, LayoutError> {
        let shape = shape.into();
        let mut strides = vec![1; shape.len()];
        // A dimension of nothing counts as one here, so that the strides stay usable.
        let mut step = 1usize;
        for (stride, &size) in strides.iter_mut().zip(&shape).rev() {
            *stride = step;
            step = step
                .checked_mul(size.max(1))
                .ok_or_else(|| LayoutError::TooLarge {
                    shape: shape.clone(),
                })?;
        }
        Self::strided(shape, strides, 0)
    }

    /// Any strides and an offset.
    ///
    /// # Errors
    ///
    /// The lengths differ, or the view can't be addressed.
    pub fn strided(
        shape: impl Into<Vec<usize>>,
        strides: impl Into<Vec<usize>>,
        offset: usize,
    ) -> Result<Self, LayoutError> {
        let (shape, strides) = (shape.into(), strides.into());
        if shape.len() != strides.len() {
            return Err(LayoutError::Ranks {
                shape: shape.len(),
                strides: strides.len(),
            });
        }
        let layout = Self {
            shape,
            strides,
            offset,
        };
        if layout.is_addressable() {
            Ok(layout)
        } else {
            Err(LayoutError::TooLarge {
                shape: layout.shape,
            })
        }
    }

    /// Whether places stay far from what CANN's signed sizes and offsets in bytes hold. Dimensions of
    /// nothing count as one here: CANN multiplies the others.
    fn is_addressable(&self) -> bool {
        const LIMIT: usize = 1 << 55;
        let mut elements = 1usize;
        let mut last = self.offset;
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            let size = size.max(1);
            elements = elements.saturating_mul(size);
            last = last.saturating_add((size - 1).saturating_mul(stride));
            if stride > LIMIT {
                return false;
            }
        }
        elements <= LIMIT && last < LIMIT
    }

    /// Sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Steps between neighbours of each dimension.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// The first element's place.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// One past the last element of the memory that the view reaches.
    pub fn reach(&self) -> usize {
        if self.is_empty() {
            return self.offset;
        }
        let steps = self.shape.iter().zip(&self.strides);
        // In range, which was checked when the layout was made.
        self.offset
            + steps
                .map(|(&size, &stride)| (size - 1) * stride)
                .sum::<usize>()
            + 1
    }

    /// Whether the elements lie one after the other. Steps of dimensions of one element don't matter.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.is_empty()
            || self
                .shape
                .iter()
                .zip(&self.strides)
                .rev()
                .all(|(&size, &stride)| {
                    let fits = size == 1 || stride == step;
                    step *= size;
                    fits
                })
    }

    /// Two dimensions exchanged.
    ///
    /// # Errors
    ///
    /// There is no such dimension.
    pub fn transpose(mut self, one: usize, other: usize) -> Result<Self, LayoutError> {
        self.dimension(one)?;
        self.dimension(other)?;
        self.shape.swap(one, other);
        self.strides.swap(one, other);
        Ok(self)
    }

    /// A part of a dimension.
    ///
    /// # Errors
    ///
    /// There is no such dimension, or the range is not within it.
    pub fn slice(mut self, dim: usize, range: Range<usize>) -> Result<Self, LayoutError> {
        self.dimension(dim)?;
        let size = self.shape[dim];
        if range.start > range.end || range.end > size {
            return Err(LayoutError::Slice { range, size });
        }
        self.shape[dim] = range.len();
        if !self.is_empty() {
            self.offset += range.start * self.strides[dim];
        }
        Ok(self)
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    ///
    /// The number of elements differs, or they don't lie one after the other.
    pub fn reshape(self, shape: impl Into<Vec<usize>>) -> Result<Self, LayoutError> {
        let mut to = Self::contiguous(shape)?;
        if to.len() != self.len() || !self.is_contiguous() {
            return Err(LayoutError::Reshape {
                from: format!("{self:?}"),
                to: to.shape,
            });
        }
        to.offset = self.offset;
        Ok(to)
    }

    fn dimension(&self, dim: usize) -> Result<(), LayoutError> {
        let rank = self.rank();
        if dim < rank {
            Ok(())
        } else {
            Err(LayoutError::Dimension { dim, rank })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_views_and_those_that_are_not() {
        let layout = Layout::contiguous([2, 3, 4]).unwrap();
        assert_eq!(layout.strides(), [12, 4, 1]);
        assert_eq!((layout.len(), layout.reach()), (24, 24));
        assert!(layout.is_contiguous());
        let turned = layout.clone().transpose(0, 2).unwrap();
        assert_eq!(
            (turned.shape(), turned.strides()),
            (&[4, 3, 2][..], &[1, 4, 12][..])
        );
        assert!(!turned.is_contiguous());
        let part = layout.slice(0, 1..2).unwrap();
        assert_eq!((part.offset(), part.reach()), (12, 24));
        assert!(part.is_contiguous());
    }

    #[test]
    fn steps_of_single_elements_do_not_matter() {
        assert!(
            Layout::strided([1, 4], [999, 1], 3)
                .unwrap()
                .is_contiguous()
        );
        assert!(
            !Layout::strided([2, 4], [999, 1], 3)
                .unwrap()
                .is_contiguous()
        );
    }

    #[test]
    fn a_scalar_has_one_element() {
        let layout = Layout::contiguous([]).unwrap();
        assert_eq!((layout.len(), layout.reach(), layout.rank()), (1, 1, 0));
    }

    #[test]
    fn nothing_reaches_nothing() {
        let layout = Layout::contiguous([3, 0, 5]).unwrap();
        assert_eq!((layout.len(), layout.reach()), (0, 0));
        assert!(layout.is_empty() && layout.is_contiguous());
        assert_eq!(Layout::strided([0, 5], [7, 1], 9).unwrap().reach(), 9);
    }

    #[test]
    fn overflow_is_an_error() {
        let huge = usize::MAX / 2;
        assert!(Layout::contiguous([huge, 3]).is_err());
        assert!(Layout::contiguous([0, huge, huge]).is_err());
        assert!(Layout::strided([2], [usize::MAX], 0).is_err());
        assert!(Layout::strided([2], [1], usize::MAX).is_err());
        assert!(Layout::strided([2, 2], [1], 0).is_err());
    }

    #[test]
    fn reshapes_only_what_lies_together() {
        let layout = Layout::contiguous([2, 6]).unwrap();
        assert_eq!(layout.clone().reshape([3, 4]).unwrap().strides(), [4, 1]);
        assert!(layout.clone().reshape([5]).is_err());
        assert!(layout.transpose(0, 1).unwrap().reshape([12]).is_err());
    }
}
