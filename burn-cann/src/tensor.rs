//! Tensors: typed views of device memory.

use std::ops::Range;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Layout, LayoutError};
use crate::memory::Memory;
use crate::stream::Stream;

/// What an operator's check looks at: a tensor without its data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The type of the elements.
    pub dtype: DType,
    /// How they lie.
    pub layout: Layout,
}

impl Spec {
    /// A contiguous tensor.
    ///
    /// # Errors
    ///
    /// The shape is too large to be addressed.
    pub fn contiguous(dtype: DType, shape: impl AsRef<[usize]>) -> Result<Self, LayoutError> {
        let layout = Layout::contiguous(shape)?;
        Ok(Self { dtype, layout })
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }
}

/// A typed view of device memory. Cheap to clone; views share their memory.
///
/// Fresh tensors are not initialised. What a program reads from one that nothing was written to is
/// any number, and harmless.
#[derive(Debug, Clone)]
pub struct Tensor {
    spec: Spec,
    /// None for no elements: CANN does not allocate nothing.
    memory: Option<Memory>,
    device: Device,
}

impl Tensor {
    /// A contiguous tensor that is not initialised, for use on `stream` first.
    ///
    /// # Errors
    ///
    /// The device is out of memory, or the shape is too large to be addressed.
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

    /// [`Tensor::empty`] of the type and shape of `spec`.
    pub(crate) fn like(stream: &Stream, spec: &Spec) -> Result<Self> {
        Self::empty(stream, spec.dtype, spec.shape())
    }

    /// Another view of the same memory.
    ///
    /// # Errors
    ///
    /// The view reaches beyond the memory.
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

    /// A view with two dimensions exchanged.
    ///
    /// # Errors
    ///
    /// There is no such dimension.
    pub fn transpose(&self, one: usize, other: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().transpose(one, other)?)
    }

    /// A view of a part of a dimension.
    ///
    /// # Errors
    ///
    /// There is no such dimension, or the range is not within it.
    pub fn slice(&self, dim: usize, range: Range<usize>) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().slice(dim, range)?)
    }

    /// A view in another shape.
    ///
    /// # Errors
    ///
    /// The number of elements differs, or they don't lie one after the other.
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().reshape(shape)?)
    }

    /// A view with the dimensions in another order: see [`Layout::permute`].
    ///
    /// # Errors
    ///
    /// `order` does not name each dimension once.
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().permute(order)?)
    }

    /// A view repeated to a larger shape without a copy: see [`Layout::expand`].
    ///
    /// # Errors
    ///
    /// A dimension of more than one element would change its size.
    pub fn expand(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().expand(shape)?)
    }

    /// A view of one element of a dimension, without that dimension.
    ///
    /// # Errors
    ///
    /// There is no such dimension or element.
    pub fn select(&self, dim: usize, index: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().select(dim, index)?)
    }

    /// A view without a dimension of one element.
    ///
    /// # Errors
    ///
    /// There is no such dimension, or it has another size.
    pub fn squeeze(&self, dim: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().squeeze(dim)?)
    }

    /// A view with a new dimension of one element before `dim`, or behind all.
    ///
    /// # Errors
    ///
    /// There is no such place.
    pub fn unsqueeze(&self, dim: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().unsqueeze(dim)?)
    }

    /// A view of every `step`-th element of a dimension.
    ///
    /// # Errors
    ///
    /// There is no such dimension, or `step` is zero.
    pub fn step(&self, dim: usize, step: usize) -> Result<Self> {
        self.with_layout(self.spec.layout.clone().step(dim, step)?)
    }

    /// The type and the layout.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// How the elements lie.
    pub fn layout(&self) -> &Layout {
        &self.spec.layout
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        self.spec.shape()
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether no other tensor is a view of the same memory, so that it may be written over.
    pub fn is_exclusive(&mut self) -> bool {
        self.memory.as_mut().is_none_or(Memory::is_exclusive)
    }

    /// The memory; none for no elements.
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }
}
