//! Shape, strides and offset of a view, in elements.

mod error;
#[cfg(test)]
mod tests;

pub use self::error::LayoutError;

use std::fmt;
use std::ops::Range;

use smallvec::{SmallVec, smallvec};

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
