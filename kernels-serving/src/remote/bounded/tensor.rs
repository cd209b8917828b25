//! The tensors and devices of a served backend: the backend's own, with the session's account or limits.

use super::account::{Charge, Limits};
use burn::backend::flex::{FlexQTensor, FlexTensor};
use burn::backend::{
    Device as BurnDevice, DeviceId, DeviceOps, DeviceSettings, Shape, TensorMetadata,
};
use burn::tensor::DType;

use std::fmt;
use std::sync::Arc;

/// The memory behind a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The id of the memory. It is the same for all views, and no other buffer has it while one of them exists.
    pub id: usize,
    /// The bytes of the whole buffer, even if the view shows fewer.
    pub bytes: usize,
    /// True if the view is contiguous. Operations may copy other views.
    pub contiguous: bool,
}

/// A tensor primitive that provides the memory it holds.
pub trait InMemory: TensorMetadata {
    /// Returns the buffer, or `None` if the tensor has no bytes.
    fn buffer(&self) -> Option<Buffer>;
}

impl InMemory for FlexTensor {
    fn buffer(&self) -> Option<Buffer> {
        let bytes = self.bytes();
        (!bytes.is_empty()).then(|| Buffer {
            id: bytes.as_ptr().addr(),
            bytes: bytes.len(),
            contiguous: self.is_contiguous(),
        })
    }
}

impl InMemory for FlexQTensor {
    fn buffer(&self) -> Option<Buffer> {
        let scales = size_of_val(self.scales());
        let buffer = self.tensor().buffer()?;
        Some(Buffer {
            bytes: buffer.bytes + scales,
            ..buffer
        })
    }
}

/// A tensor with the memory that its session is charged for.
#[derive(Clone)]
pub struct Held<T> {
    // The charge is dropped before the tensor, because another buffer may have its address afterwards.
    charge: Option<Arc<Charge>>,
    tensor: T,
}

impl<T> Held<T> {
    pub(super) fn new(tensor: T, charge: Option<Arc<Charge>>) -> Self {
        Self { charge, tensor }
    }

    pub(super) fn open(self) -> (T, Option<Arc<Charge>>) {
        (self.tensor, self.charge)
    }

    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Held<U> {
        Held {
            charge: self.charge,
            tensor: map(self.tensor),
        }
    }
}

impl<T: TensorMetadata> Held<T> {
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.tensor.shape().to_vec()
    }

    /// Returns the bytes of a contiguous copy, if the view is not contiguous.
    pub(super) fn copied(&self) -> usize
    where
        T: InMemory,
    {
        match self.tensor.buffer() {
            Some(buffer) if !buffer.contiguous => super::size::like(self),
            _ => 0,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tensor.fmt(f)
    }
}

impl<T: TensorMetadata> TensorMetadata for Held<T> {
    type Device = Served<T::Device>;

    fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    fn shape(&self) -> Shape {
        self.tensor.shape()
    }

    fn rank(&self) -> usize {
        self.tensor.rank()
    }

    fn device(&self) -> Self::Device {
        Served {
            device: self.tensor.device(),
            limits: self.charge.as_ref().map(|charge| charge.limits()),
        }
    }

    fn can_mut(&self) -> bool {
        self.tensor.can_mut()
    }
}

/// A device in the form that a server gives to its sessions.
#[derive(Clone, Default)]
pub struct Served<D> {
    pub(super) device: D,
    /// The limits, or `None` if no memory limit of its sessions was set.
    pub(super) limits: Option<Arc<Limits>>,
}

impl<D> Served<D> {
    pub(in crate::remote) fn new(device: D, limits: Arc<Limits>) -> Self {
        let limits = Some(limits);
        Self { device, limits }
    }
}

impl<D: PartialEq> PartialEq for Served<D> {
    fn eq(&self, other: &Self) -> bool {
        self.device == other.device
    }
}

impl<D: fmt::Debug> fmt::Debug for Served<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)
    }
}

impl<D: DeviceOps> BurnDevice for Served<D> {
    fn from_id(id: DeviceId) -> Self {
        Self {
            device: D::from_id(id),
            limits: None,
        }
    }

    fn to_id(&self) -> DeviceId {
        self.device.to_id()
    }
}

impl<D: DeviceOps> DeviceOps for Served<D> {
    fn defaults(&self) -> DeviceSettings {
        self.device.defaults()
    }
}
