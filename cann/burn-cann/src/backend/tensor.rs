//! The tensors of the backend.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_std::QuantScheme;

use super::device::{CannDevice, Place};
use super::dtype;
use super::error::Result;
use super::view;
use crate::{Stream, Tensor};

/// A tensor of numbers or booleans on an NPU. Cheap to clone; views share their memory.
#[derive(Debug, Clone)]
pub struct CannTensor {
    pub(super) tensor: Tensor,
    /// Burn's dtype, which distinguishes several kinds of booleans.
    pub(super) dtype: DType,
    pub(super) place: Place,
}

/// A quantised tensor on an NPU: the bytes in which Burn packs values and scales.
///
/// No operator computes with them. Every operation runs on the host or dequantises first.
#[derive(Debug, Clone)]
pub struct CannQTensor {
    pub(super) bytes: Tensor,
    pub(super) shape: Shape,
    pub(super) scheme: QuantScheme,
    pub(super) place: Place,
}

impl CannTensor {
    /// Returns the tensor, for use on [`CannTensor::stream`] or on another stream of its device.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Returns the tensor by value, which may be the only one of its memory.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }

    /// Returns the stream that the backend uses.
    pub fn stream(&self) -> &Stream {
        &self.place.stream
    }

    /// Wraps a tensor that was made elsewhere, for use with Burn's operations.
    ///
    /// # Errors
    ///
    /// Returns an error if the device can't be opened.
    pub fn new(tensor: Tensor) -> Result<Self> {
        let device = CannDevice::new(u16::try_from(tensor.device().id()).unwrap_or(u16::MAX));
        Ok(Self::at(&device.place()?, tensor))
    }

    /// Wraps a tensor on the device of this one, such as the result of an operator.
    pub fn beside(&self, tensor: Tensor) -> Self {
        Self::at(&self.place, tensor)
    }

    /// Returns the tensor itself if it is contiguous, else a contiguous copy on the device. [`copies`](super::copies)
    /// counts the copies.
    ///
    /// # Errors
    ///
    /// Returns an error if memory is short or the copy fails.
    pub fn contiguous(&self) -> crate::Result<Self> {
        view::contiguous(self)
    }

    /// Wraps a tensor of `place`, with the dtype of Burn that corresponds to CANN's.
    pub(super) fn at(place: &Place, tensor: Tensor) -> Self {
        let dtype = dtype::burn(tensor.dtype());
        let place = place.clone();
        Self {
            tensor,
            dtype,
            place,
        }
    }

    /// Returns the tensor with another kind of booleans. No other dtype has two names with the same storage.
    pub(super) fn with_dtype(mut self, dtype: DType) -> Self {
        debug_assert_eq!(
            dtype::device(dtype).ok(),
            Some(self.tensor.dtype()),
            "{dtype:?}"
        );
        self.dtype = dtype::canonical(dtype);
        self
    }
}

impl CannQTensor {
    /// Returns the bytes in which Burn packs the tensor.
    pub fn bytes(&self) -> &Tensor {
        &self.bytes
    }
}

impl TensorMetadata for CannTensor {
    type Device = CannDevice;

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self) -> Shape {
        Shape::from(self.tensor.shape().to_vec())
    }

    fn rank(&self) -> usize {
        self.tensor.spec().rank()
    }

    fn device(&self) -> CannDevice {
        self.place.device
    }

    /// Returns `false`, because no operation writes to its operands.
    fn can_mut(&self) -> bool {
        false
    }
}

impl TensorMetadata for CannQTensor {
    type Device = CannDevice;

    fn dtype(&self) -> DType {
        DType::QFloat(self.scheme)
    }

    fn shape(&self) -> Shape {
        self.shape.clone()
    }

    fn device(&self) -> CannDevice {
        self.place.device
    }

    fn can_mut(&self) -> bool {
        false
    }
}
