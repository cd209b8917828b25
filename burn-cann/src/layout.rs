//! Shape, strides and offset of a view, in elements.

use std::fmt;
use std::ops::Range;

use smallvec::{SmallVec, smallvec};

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

/// Sizes or strides. Those of up to five dimensions are kept in place, as Burn keeps its shapes: layouts are made
/// and compared on every call, and allocate nothing there.
pub(crate) type Dimensions = SmallVec<[usize; 5]>;

/// How the elements of a view lie in its memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Dimensions,
    strides: Dimensions,
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
    pub fn contiguous(shape: impl AsRef<[usize]>) -> Result<Self, LayoutError> {
        let shape = shape.as_ref();
        let mut strides: Dimensions = smallvec![1; shape.len()];
        // A dimension of nothing counts as one here, so that the strides stay usable.
        let mut step = 1usize;
        for (stride, &size) in strides.iter_mut().zip(shape).rev() {
            *stride = step;
            step = step
                .checked_mul(size.max(1))
                .ok_or_else(|| LayoutError::TooLarge {
                    shape: shape.to_vec(),
                })?;
        }
        Self::of(shape.into(), strides, 0)
    }

    /// Any strides and an offset.
    ///
    /// # Errors
    ///
    /// The lengths differ, or the view can't be addressed.
    pub fn strided(
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[usize]>,
        offset: usize,
    ) -> Result<Self, LayoutError> {
        Self::of(shape.as_ref().into(), strides.as_ref().into(), offset)
    }

    fn of(shape: Dimensions, strides: Dimensions, offset: usize) -> Result<Self, LayoutError> {
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
                shape: layout.shape.into_vec(),
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
    pub fn reshape(self, shape: impl AsRef<[usize]>) -> Result<Self, LayoutError> {
        let mut to = Self::contiguous(shape)?;
        if to.len() != self.len() || !self.is_contiguous() {
            return Err(LayoutError::Reshape {
                from: format!("{self:?}"),
                to: to.shape.into_vec(),
            });
        }
        to.offset = self.offset;
        Ok(to)
    }

    /// Dimensions in another order: dimension `order[i]` becomes dimension `i`.
    ///
    /// # Errors
    ///
    /// `order` does not name each dimension once.
    pub fn permute(self, order: &[usize]) -> Result<Self, LayoutError> {
        let mut sorted = Dimensions::from(order);
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.rank()) {
            return Err(LayoutError::Order {
                order: order.to_vec(),
                rank: self.rank(),
            });
        }
        Ok(Self {
            shape: order.iter().map(|&dim| self.shape[dim]).collect(),
            strides: order.iter().map(|&dim| self.strides[dim]).collect(),
            offset: self.offset,
        })
    }

    /// The elements repeated to a larger shape, by steps of zero: dimensions of one element take any size,
    /// and new ones come in front.
    ///
    /// # Errors
    ///
    /// Another dimension would change its size, or there are fewer than before.
    pub fn expand(self, shape: impl AsRef<[usize]>) -> Result<Self, LayoutError> {
        let shape = shape.as_ref();
        let refused = || LayoutError::Expand {
            from: self.shape.to_vec(),
            to: shape.to_vec(),
        };
        let fits = |new: usize, dim: usize| self.shape[dim] == new || self.shape[dim] == 1;
        let Some(added) = shape.len().checked_sub(self.rank()) else {
            return Err(refused());
        };
        if !(0..self.rank()).all(|dim| fits(shape[added + dim], dim)) {
            return Err(refused());
        }
        let kept = |dim: usize| {
            if self.shape[dim] == 1 {
                0
            } else {
                self.strides[dim]
            }
        };
        let mut strides: Dimensions = smallvec![0; added];
        strides.extend((0..self.rank()).map(kept));
        Self::of(shape.into(), strides, self.offset)
    }

    /// Without a dimension: its element `index`.
    ///
    /// # Errors
    ///
    /// There is no such dimension or element.
    pub fn select(self, dim: usize, index: usize) -> Result<Self, LayoutError> {
        self.dimension(dim)?;
        let end = index.saturating_add(1);
        self.slice(dim, index..end)?.squeeze(dim)
    }

    /// Without a dimension of one element.
    ///
    /// # Errors
    ///
    /// There is no such dimension, or it has another size.
    pub fn squeeze(mut self, dim: usize) -> Result<Self, LayoutError> {
        self.dimension(dim)?;
        if self.shape[dim] != 1 {
            return Err(LayoutError::Squeeze {
                dim,
                size: self.shape[dim],
            });
        }
        self.shape.remove(dim);
        self.strides.remove(dim);
        Ok(self)
    }

    /// With a new dimension of one element before `dim`, or behind all.
    ///
    /// # Errors
    ///
    /// There is no such place.
    pub fn unsqueeze(mut self, dim: usize) -> Result<Self, LayoutError> {
        let rank = self.rank();
        if dim > rank {
            return Err(LayoutError::Dimension { dim, rank });
        }
        // As in a contiguous layout, where a dimension of one element steps over those behind it.
        let step = match (self.shape.get(dim), self.strides.get(dim)) {
            (Some(&size), Some(&stride)) => size.max(1).saturating_mul(stride),
            _ => 1,
        };
        self.shape.insert(dim, 1);
        self.strides.insert(dim, step);
        Self::of(self.shape, self.strides, self.offset)
    }

    /// Every `step`-th element of a dimension, from the first.
    ///
    /// # Errors
    ///
    /// There is no such dimension, `step` is zero, or it leads further than can be addressed.
    pub fn step(mut self, dim: usize, step: usize) -> Result<Self, LayoutError> {
        self.dimension(dim)?;
        if step == 0 {
            return Err(LayoutError::Step);
        }
        self.shape[dim] = self.shape[dim].div_ceil(step);
        self.strides[dim] =
            self.strides[dim].saturating_mul(if self.shape[dim] > 1 { step } else { 1 });
        Self::of(self.shape, self.strides, self.offset)
    }

    /// Whether two elements may be the same memory. Exact but for interleaved views, of which it may say yes.
    pub fn is_overlapping(&self) -> bool {
        let mut dims: SmallVec<[_; 5]> = self
            .strides
            .iter()
            .zip(&self.shape)
            .filter(|(_, size)| **size != 1)
            .collect();
        dims.sort_unstable();
        let mut reach = 0;
        !self.is_empty()
            && dims.into_iter().any(|(&stride, &size)| {
                let apart = stride > reach;
                reach += (size - 1) * stride;
                !apart
            })
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

    #[test]
    fn dimensions_are_reordered_repeated_and_left_out() {
        let layout = Layout::contiguous([2, 1, 4]).unwrap();
        let turned = layout.clone().permute(&[2, 0, 1]).unwrap();
        assert_eq!(
            (turned.shape(), turned.strides()),
            (&[4, 2, 1][..], &[1, 4, 4][..])
        );
        assert!(layout.clone().permute(&[0, 0, 1]).is_err());
        assert!(layout.clone().permute(&[0, 1]).is_err());

        let wide = layout.clone().expand([5, 2, 3, 4]).unwrap();
        assert_eq!(wide.strides(), [0, 4, 0, 1]);
        assert_eq!(wide.reach(), 8);
        assert!(layout.clone().expand([3, 1, 4]).is_err());
        assert!(layout.clone().expand([1, 4]).is_err());

        assert_eq!(layout.clone().squeeze(1).unwrap().shape(), [2, 4]);
        assert!(layout.clone().squeeze(0).is_err());
        let one = layout.clone().select(2, 3).unwrap();
        assert_eq!((one.shape(), one.offset()), (&[2, 1][..], 3));
        assert!(layout.clone().select(2, 4).is_err());
        for dim in 0..=3 {
            let more = layout.clone().unsqueeze(dim).unwrap();
            assert_eq!(more.shape()[dim], 1);
            assert!(more.is_contiguous());
            assert_eq!(more.squeeze(dim).unwrap(), layout);
        }
        assert!(layout.unsqueeze(4).is_err());
    }

    #[test]
    fn steps_take_some_of_the_elements() {
        let layout = Layout::contiguous([7]).unwrap();
        let some = layout.clone().slice(0, 1..7).unwrap().step(0, 4).unwrap();
        assert_eq!(
            (some.shape(), some.strides(), some.offset()),
            (&[2][..], &[4][..], 1)
        );
        assert_eq!(layout.clone().step(0, 100).unwrap().reach(), 1);
        assert!(layout.step(0, 0).is_err());
    }

    #[test]
    fn shared_elements_are_seen() {
        let over = |shape: &[usize], strides: &[usize]| {
            Layout::strided(shape, strides, 0).unwrap().is_overlapping()
        };
        assert!(!over(&[2, 3], &[3, 1]) && !over(&[2, 3], &[1, 2]) && !over(&[1, 3], &[0, 1]));
        assert!(over(&[2, 3], &[0, 1]) && over(&[2, 3], &[2, 1]));
        assert!(!over(&[0, 3], &[0, 0]));
    }
}
