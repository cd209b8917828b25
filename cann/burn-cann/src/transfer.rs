//! Copies between host and device.

use std::ffi::c_void;

use cann_sys::runtime::{ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE};

use crate::cann::call;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::layout::LayoutError;
use crate::memory::Pinned;
use crate::stream::Stream;
use crate::tensor::Tensor;

/// A copy to the device that is under way. Dropping it does not stop the copy.
#[derive(Debug)]
#[must_use = "the buffer comes back from `wait`"]
pub struct Upload<E: Element> {
    buffer: Pinned<E>,
    stream: Stream,
}

/// A copy from the device that is under way. Dropping it does not stop the copy.
#[derive(Debug)]
#[must_use = "the elements come from `wait`"]
pub struct Download<E: Element> {
    buffer: Pinned<E>,
    stream: Stream,
}

impl<E: Element> Upload<E> {
    /// Waits for the stream and returns the buffer. Only this wait shows whether the stream's work failed.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream's work failed.
    pub fn wait(self) -> Result<Pinned<E>> {
        self.stream.synchronise()?;
        Ok(self.buffer)
    }
}

impl<E: Element> Download<E> {
    /// Waits for the stream and returns the elements. Only this wait shows whether the stream's work failed.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream's work failed.
    pub fn wait(self) -> Result<Pinned<E>> {
        self.stream.synchronise()?;
        Ok(self.buffer)
    }
}

impl Tensor {
    /// Copies elements of the host to a new contiguous tensor. Returns while the copy is under way.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of `elements` is not that of `shape`, or if memory is short.
    pub fn from_slice<E: Element>(
        stream: &Stream,
        elements: &[E],
        shape: impl AsRef<[usize]>,
    ) -> Result<Self> {
        let tensor = Self::empty(stream, E::DTYPE, shape)?;
        let buffer = Pinned::from_slice(tensor.device(), elements)?;
        tensor.fill(stream, &buffer)?;
        Ok(tensor)
    }

    /// Copies booleans of the host to a new contiguous tensor.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Tensor::from_slice`] does.
    pub fn from_bools(
        stream: &Stream,
        values: &[bool],
        shape: impl AsRef<[usize]>,
    ) -> Result<Self> {
        let tensor = Self::empty(stream, DType::Bool, shape)?;
        let bytes: Vec<u8> = values.iter().copied().map(u8::from).collect();
        let buffer = Pinned::from_slice(tensor.device(), &bytes)?;
        tensor.fill(stream, &buffer)?;
        Ok(tensor)
    }

    /// Copies bytes of the host, in the host's byte order, to a new contiguous tensor. Returns while the copy is under
    /// way.
    ///
    /// Not public, because bytes are not checked: a boolean of 2, for example, is copied as it is.
    #[cfg(feature = "backend")]
    pub(crate) fn from_bytes(
        stream: &Stream,
        bytes: &[u8],
        dtype: DType,
        shape: impl AsRef<[usize]>,
    ) -> Result<Self> {
        let tensor = Self::empty(stream, dtype, shape)?;
        let buffer = Pinned::from_slice(tensor.device(), bytes)?;
        tensor.fill_bytes(stream, &buffer, bytes.len())?;
        Ok(tensor)
    }

    /// Copies `buffer` to this tensor, which must be contiguous. [`Upload::wait`] returns the buffer.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer has another dtype or length, or if the tensor is not contiguous.
    pub fn upload<E: Element>(&self, stream: &Stream, buffer: Pinned<E>) -> Result<Upload<E>> {
        self.has_dtype(E::DTYPE)?;
        self.fill(stream, &buffer)?;
        let stream = stream.clone();
        Ok(Upload { buffer, stream })
    }

    /// Copies this tensor, which must be contiguous, to the host. Returns while the copy is under way.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor has another dtype or is not contiguous, or if the host has no memory to pin.
    pub fn download<E: Element>(&self, stream: &Stream) -> Result<Download<E>> {
        self.has_dtype(E::DTYPE)?;
        self.fetch(stream)
    }

    /// Waits for the stream and returns the elements. The tensor must be contiguous.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Tensor::download`] does, or if the stream's work failed.
    pub fn to_vec<E: Element>(&self, stream: &Stream) -> Result<Vec<E>> {
        Ok(self.download(stream)?.wait()?.to_vec())
    }

    /// Waits for the stream and returns the booleans. The tensor must be contiguous.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Tensor::to_vec`] does.
    pub fn to_bools(&self, stream: &Stream) -> Result<Vec<bool>> {
        self.has_dtype(DType::Bool)?;
        let bytes = self.fetch::<u8>(stream)?.wait()?;
        Ok(bytes.iter().map(|&byte| byte != 0).collect())
    }

    /// Copies a buffer that has as many elements as this tensor here. The stream keeps the buffer.
    fn fill<E: Element>(&self, stream: &Stream, buffer: &Pinned<E>) -> Result<()> {
        self.fill_bytes(stream, buffer, buffer.len() * size_of::<E>())
    }

    /// Copies as [`Tensor::fill`] does, with the buffer's length in bytes and elements of any type.
    fn fill_bytes<E: Element>(
        &self,
        stream: &Stream,
        buffer: &Pinned<E>,
        length: usize,
    ) -> Result<()> {
        let Some((address, bytes)) = self.run(length / self.dtype().size())? else {
            return Ok(());
        };
        let memory: Vec<_> = self.memory().into_iter().collect();
        let cann = stream.inner_device().cann();
        stream.submit(&memory, |raw| {
            let (source, kind) = (buffer.pointer(), ACL_MEMCPY_HOST_TO_DEVICE);
            // SAFETY: both have `bytes` bytes. The stream keeps the host's, which nobody can write to meanwhile
            // (`Upload` hides them), and orders the reuse of the device's.
            unsafe {
                call!(
                    cann,
                    runtime.aclrtMemcpyAsync(address, bytes, source, bytes, kind, raw)
                )
            }?;
            stream.keep(buffer.pages())
        })
    }

    /// Copies as [`Tensor::download`] does, to elements of any type of the same size.
    pub(crate) fn fetch<E: Element>(&self, stream: &Stream) -> Result<Download<E>> {
        let buffer = Pinned::uninitialised(stream.inner_device(), self.spec().len())?;
        let Some((address, bytes)) = self.run(buffer.len())? else {
            let stream = stream.clone();
            return Ok(Download { buffer, stream });
        };
        let memory: Vec<_> = self.memory().into_iter().collect();
        let cann = stream.inner_device().cann();
        stream.submit(&memory, |raw| {
            let (target, kind) = (buffer.pointer(), ACL_MEMCPY_DEVICE_TO_HOST);
            // SAFETY: both have `bytes` bytes. The stream keeps the host's, which nobody can read meanwhile
            // (`Download` hides them), and orders the reuse of the device's.
            unsafe {
                call!(
                    cann,
                    runtime.aclrtMemcpyAsync(target, bytes, address, bytes, kind, raw)
                )
            }?;
            stream.keep(buffer.pages())
        })?;
        let stream = stream.clone();
        Ok(Download { buffer, stream })
    }

    /// Returns the address of the contiguous elements and their number of bytes, or `None` without elements.
    pub(crate) fn run(&self, on_host: usize) -> Result<Option<(*mut c_void, usize)>> {
        let expected = self.spec().len();
        if on_host != expected {
            return Err(Error::Length {
                found: on_host,
                expected,
            });
        }
        if !self.layout().is_contiguous() {
            return Err(LayoutError::Reshape {
                from: format!("{:?}", self.layout()),
                to: vec![expected],
            }
            .into());
        }
        let Some(memory) = self.memory().filter(|_| expected > 0) else {
            return Ok(None);
        };
        let size = self.dtype().size();
        // The address is within the block, since the layout was checked. The host does not follow it.
        let start = memory
            .address()
            .pointer()
            .wrapping_byte_add(self.layout().offset() * size);
        Ok(Some((start, expected * size)))
    }

    fn has_dtype(&self, found: DType) -> Result<()> {
        let expected = self.dtype();
        if found == expected {
            Ok(())
        } else {
            Err(Error::Dtype { found, expected })
        }
    }
}
