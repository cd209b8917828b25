//! Shape, strides and offset of a view, in elements.

mod error;
#[cfg(test)]
mod tests;

pub use self::error::LayoutError;

use std::fmt;
use std::ops::Range;

use smallvec::{SmallVec, smallvec};

/// Sizes or strides. Those of up to five dimensions are stored in place, as Burn stores its shapes: layouts are made
/// and compared on every call, and allocate nothing there.
pub(crate) type Dimensions = SmallVec<[usize; 5]>;

/// The shape, strides and offset of a view, in elements of its memory.
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
    /// Returns the layout of contiguous elements, with the last dimension fastest.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape is too large to be addressed.
    pub fn contiguous(shape: impl AsRef<[usize]>) -> Result<Self, LayoutError> {
        let shape = shape.as_ref();
        let mut strides: Dimensions = smallvec![1; shape.len()];
        // A dimension of size 0 counts as one here, so that the strides stay usable.
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

    /// Returns a layout with the given strides and offset.
    ///
    /// # Errors
    ///
    /// Returns an error if the lengths differ or the view can't be addressed.
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

    /// Returns `true` if all positions stay far below the limits of CANN's signed sizes and offsets in bytes.
    /// Dimensions of size 0 count as one here, because CANN multiplies the others.
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

    /// Returns the sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the strides: the distance between neighbours along each dimension.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Returns the position of the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns `true` without elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the position after the last element of the memory that the view reaches.
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

    /// Returns `true` if the elements are contiguous. Strides of dimensions of size 1 don't matter.
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

    /// Returns the layout with two dimensions exchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist.
    pub fn transpose(mut self, one: usize, other: usize) -> Result<Self, LayoutError> {
        self.dimension(one)?;
        self.dimension(other)?;
        self.shape.swap(one, other);
        self.strides.swap(one, other);
        Ok(self)
    }

    /// Returns the layout of a range of a dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist or the range is not within it.
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

    /// Returns the layout of the same elements in another shape.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements differs or they are not contiguous.
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

    /// Returns the layout with the dimensions in another order: dimension `order[i]` becomes dimension `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if `order` does not name each dimension once.
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

    /// Returns the layout of the elements repeated to a larger shape, with strides of zero. Dimensions of size 1 take
    /// any size, and new dimensions come first.
    ///
    /// # Errors
    ///
    /// Returns an error if another dimension would change its size or `shape` has fewer dimensions than before.
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

    /// Returns the layout of element `index` of a dimension, without that dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension or the element does not exist.
    pub fn select(self, dim: usize, index: usize) -> Result<Self, LayoutError> {
        self.dimension(dim)?;
        let end = index.saturating_add(1);
        self.slice(dim, index..end)?.squeeze(dim)
    }

    /// Returns the layout without a dimension of size 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist or its size is not 1.
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

    /// Returns the layout with a new dimension of size 1 before `dim`, or after the last one.
    ///
    /// # Errors
    ///
    /// Returns an error if `dim` is larger than the number of dimensions.
    pub fn unsqueeze(mut self, dim: usize) -> Result<Self, LayoutError> {
        let rank = self.rank();
        if dim > rank {
            return Err(LayoutError::Dimension { dim, rank });
        }
        // The stride is that of a contiguous layout, where a dimension of size 1 steps over those after it.
        let step = match (self.shape.get(dim), self.strides.get(dim)) {
            (Some(&size), Some(&stride)) => size.max(1).saturating_mul(stride),
            _ => 1,
        };
        self.shape.insert(dim, 1);
        self.strides.insert(dim, step);
        Self::of(self.shape, self.strides, self.offset)
    }

    /// Returns the layout of every `step`-th element of a dimension, from the first on.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist, if `step` is zero, or if it leads further than can be
    /// addressed.
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

    /// Returns `true` if two elements may share memory. Exact except for interleaved views, which may be reported
    /// although no elements share memory.
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
