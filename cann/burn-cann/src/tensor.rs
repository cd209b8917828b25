//! Tensors: typed views of device memory.

use std::ops::Range;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Layout, LayoutError};
use crate::memory::Memory;
use crate::stream::Stream;

/// The dtype and layout of a tensor, without its data. Operators' checks look at these.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The dtype of the elements.
    pub dtype: DType,
    /// The positions of the elements in memory.
    pub layout: Layout,
}

impl Spec {
    /// Returns the spec of a contiguous tensor.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape is too large to be addressed.
    pub fn contiguous(dtype: DType, shape: impl AsRef<[usize]>) -> Result<Self, LayoutError> {
        let layout = Layout::contiguous(shape)?;
        Ok(Self { dtype, layout })
    }

    /// Returns the sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Returns `true` without elements.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }
}

/// A typed view of device memory. Cheap to clone; views share their memory.
///
/// New tensors are not initialised. Reading one before it is written yields arbitrary numbers, and does no harm.
#[derive(Debug, Clone)]
pub struct Tensor {
    spec: Spec,
    /// `None` without elements, because CANN does not allocate zero bytes.
    memory: Option<Memory>,
    device: Device,
}

impl Tensor {
    /// Makes a contiguous tensor that is not initialised and whose first use is on `stream`.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory or the shape is too large to be addressed.
    pub fn empty(stream: &Stream, dtype: DType, shape: impl AsRef<[usize]>) -> Result<Self> {
        let spec = Spec::contiguous(dtype, shape)?;
        let bytes = spec.len() * dtype.size();
        let memory = match bytes {
            0 => None,
            bytes => Some(stream.allocate(bytes)?),
        };
        Ok(Self {
            spec,
            memory,
            device: stream.device(),
        })
    }

    /// Makes an uninitialised tensor as [`Tensor::empty`] does, with the dtype and shape of `spec`.
    pub(crate) fn like(stream: &Stream, spec: &Spec) -> Result<Self> {
        Self::empty(stream, spec.dtype, spec.shape())
    }

    /// Returns another view of the same memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the view reaches beyond the memory.
    pub fn with_layout(&self, layout: Layout) -> Result<Self> {
        let held = self.memory.as_ref().map_or(0, Memory::size) / self.dtype().size();
        let reach = layout.reach();
        if reach > held && !layout.is_empty() {
            return Err(LayoutError::OutOfBounds { reach, held }.into());
        }
        Ok(Self {
            spec: Spec {
                dtype: self.spec.dtype,
                layout,
            },
            memory: self.memory.clone(),
            device: self.device.clone(),
        })
    }

    /// Returns a view with two dimensions exchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist.
    pub fn transpose(&self, one: usize, other: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().transpose(one, other)?)
    }

    /// Returns a view of a range of a dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist or the range is not within it.
    pub fn slice(&self, dim: usize, range: Range<usize>) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().slice(dim, range)?)
    }

    /// Returns a view with another shape.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements differs or the tensor is not contiguous.
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().reshape(shape)?)
    }

    /// Returns a view with the dimensions in another order: see [`Layout::permute`].
    ///
    /// # Errors
    ///
    /// Returns an error if `order` does not name each dimension once.
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().permute(order)?)
    }

    /// Returns a view repeated to a larger shape without a copy: see [`Layout::expand`].
    ///
    /// # Errors
    ///
    /// Returns an error if a dimension of more than one element would change its size.
    pub fn expand(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().expand(shape)?)
    }

    /// Returns a view of one element of a dimension, without that dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension or the element does not exist.
    pub fn select(&self, dim: usize, index: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().select(dim, index)?)
    }

    /// Returns a view without a dimension of size 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist or its size is not 1.
    pub fn squeeze(&self, dim: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().squeeze(dim)?)
    }

    /// Returns a view with a new dimension of size 1 before `dim`, or after the last one.
    ///
    /// # Errors
    ///
    /// Returns an error if `dim` is larger than the number of dimensions.
    pub fn unsqueeze(&self, dim: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().unsqueeze(dim)?)
    }

    /// Returns a view of every `step`-th element of a dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist or `step` is zero.
    pub fn step(&self, dim: usize, step: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().step(dim, step)?)
    }

    /// Returns the dtype and the layout.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Returns the layout of the elements.
    pub fn layout(&self) -> &Layout {
        &self.spec.layout
    }

    /// Returns the sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        self.spec.shape()
    }

    /// Returns the device that the tensor is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns `true` if no other tensor is a view of the same memory, so that it may be overwritten.
    pub fn is_exclusive(&mut self) -> bool {
        self.memory.as_mut().is_none_or(Memory::is_exclusive)
    }

    /// Returns the memory, or none if the tensor has no elements.
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }
}
