//! The tensors of the backend.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_std::QuantScheme;

use super::device::{CannDevice, Place};
use super::dtype;
use super::error::Result;
use super::view;
use crate::{Stream, Tensor};

/// A tensor of numbers or truth values on an NPU. Cheap to clone; views share their memory.
#[derive(Debug, Clone)]
pub struct CannTensor {
    pub(super) tensor: Tensor,
    /// As Burn knows it: it has more than one kind of truth values.
    pub(super) dtype: DType,
    pub(super) place: Place,
}

/// A quantised tensor on an NPU: the bytes that Burn packs it in, values and scales.
///
/// No operator computes with them: every operation on it runs on the host or dequantises first.
#[derive(Debug, Clone)]
pub struct CannQTensor {
    pub(super) bytes: Tensor,
    pub(super) shape: Shape,
    pub(super) scheme: QuantScheme,
    pub(super) place: Place,
}

impl CannTensor {
    /// The tensor, to be used with [`CannTensor::stream`] or another stream of its device.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The tensor alone, which may be the only one of its memory.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }

    /// The stream that the backend uses.
    pub fn stream(&self) -> &Stream {
        &self.place.stream
    }

    /// A tensor that was made elsewhere, for use with Burn's operations.
    ///
    /// # Errors
    ///
    /// The device can't be opened.
    pub fn new(tensor: Tensor) -> Result<Self> {
        let device = CannDevice::new(u16::try_from(tensor.device().id()).unwrap_or(u16::MAX));
        Ok(Self::at(&device.place()?, tensor))
    }

    /// A tensor that was made beside this one, on its device: the result of an operator, say.
    pub fn beside(&self, tensor: Tensor) -> Self {
        Self::at(&self.place, tensor)
    }

    /// The elements one after the other: the same tensor if they lie so, else a copy on the device, which
    /// [`copies`](super::copies) counts.
    ///
    /// # Errors
    ///
    /// Memory is short, or the copy failed.
    pub fn contiguous(&self) -> crate::Result<Self> {
        view::contiguous(self)
    }

    /// A tensor of `place`, of the type of Burn's that CANN's says.
    pub(super) fn at(place: &Place, tensor: Tensor) -> Self {
        let dtype = dtype::burn(tensor.dtype());
        let place = place.clone();
        Self {
            tensor,
            dtype,
            place,
        }
    }

    /// The same, of truth values of another kind. No other type is kept as CANN's of another name.
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
    /// The bytes that Burn packs it in.
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

    /// No operation writes to its operands.
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
