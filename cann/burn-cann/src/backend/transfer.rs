//! Transfers between Burn's data on the host and tensors on the device.

use burn_backend::ops::QTensorOps;
use burn_backend::{Bytes, DType, ExecutionError, Shape, TensorData, TensorMetadata, read_sync};
use burn_flex::{Flex, FlexDevice, FlexQTensor, FlexTensor, Layout as FlexLayout};

use super::device::Place;
use super::dtype;
use super::error::Result;
use super::tensor::{CannQTensor, CannTensor};
use crate::{Layout, Stream, Tensor};

/// Copies data to the device. Returns while the copy is under way.
pub(super) fn write(data: TensorData, place: &Place) -> Result<CannTensor> {
    let dtype = data.dtype();
    let device = dtype::device(dtype)?;
    let shape = data.shape().to_vec();
    let tensor = Tensor::from_bytes(&place.stream, data.bytes(), device, shape)?;
    Ok(CannTensor::at(place, tensor).with_dtype(dtype))
}

/// Copies a tensor to the host and waits for it. Copies the part of its memory that the tensor reaches, and keeps the
/// strides.
pub(super) fn read(tensor: &CannTensor) -> crate::Result<FlexTensor> {
    let layout = tensor.tensor.layout();
    let shape = Shape::from(layout.shape().to_vec());
    if layout.is_empty() {
        return Ok(FlexTensor::empty(shape, tensor.dtype));
    }
    let (offset, length) = (layout.offset(), layout.reach() - layout.offset());
    let span = Layout::strided([length], [1], offset)?;
    let bytes = fetch(&tensor.tensor.with_layout(span)?, &tensor.place.stream)?;
    // Strides that fit on a device fit here.
    let strides = layout.strides().iter().map(|&step| step.cast_signed());
    let layout = FlexLayout::new(shape, strides.collect(), 0);
    Ok(FlexTensor::new(bytes, layout, tensor.dtype))
}

/// Returns the bytes of a contiguous tensor, aligned for its elements.
fn fetch(tensor: &Tensor, stream: &Stream) -> crate::Result<Bytes> {
    Ok(match tensor.dtype().size() {
        8 => Bytes::from_elems(tensor.fetch::<u64>(stream)?.wait()?.to_vec()),
        4 => Bytes::from_elems(tensor.fetch::<u32>(stream)?.wait()?.to_vec()),
        2 => Bytes::from_elems(tensor.fetch::<u16>(stream)?.wait()?.to_vec()),
        _ => Bytes::from_elems(tensor.fetch::<u8>(stream)?.wait()?.to_vec()),
    })
}

/// Returns a tensor's data for Burn.
///
/// The caller waits, and not the future that Burn gets. Burn's server polls the futures of all sessions on a few threads,
/// which also pass the messages on. A wait there would hold up another NPU's part of the sum that it waits for.
pub(super) fn data(tensor: &CannTensor) -> Result<TensorData, ExecutionError> {
    let host = read(tensor).map_err(|error| failed(tensor, &error))?;
    Ok(host.into_data())
}

/// Returns a quantised tensor's data for Burn.
pub(super) fn quantised_data(tensor: &CannQTensor) -> Result<TensorData, ExecutionError> {
    packed(tensor).map_err(|error| failed(tensor, &error))
}

fn failed<T: TensorMetadata>(tensor: &T, error: &crate::Error) -> ExecutionError {
    let (device, shape) = (tensor.device(), tensor.shape());
    ExecutionError::with_context(format!(
        "a tensor of shape {shape:?} can't be read from {device:?}: {error}"
    ))
}

fn packed(tensor: &CannQTensor) -> crate::Result<TensorData> {
    let bytes = fetch(&tensor.bytes, &tensor.place.stream)?;
    let dtype = DType::QFloat(tensor.scheme);
    Ok(TensorData::from_bytes(bytes, tensor.shape.clone(), dtype))
}

/// Copies a quantised tensor to the host and waits for it.
pub(super) fn read_quantised(tensor: &CannQTensor) -> crate::Result<FlexQTensor> {
    Ok(Flex::q_from_data(packed(tensor)?, &FlexDevice))
}

/// Copies a quantised tensor to the device.
pub(super) fn write_quantised(host: FlexQTensor, place: &Place) -> Result<CannQTensor> {
    let (shape, scheme) = (host.shape(), host.scheme());
    // Flex has its data at hand, so this can't fail.
    let data = read_sync(Flex::q_into_data(host)).expect("Flex reads its own tensor");
    let bytes = data.bytes();
    let tensor = Tensor::from_bytes(&place.stream, bytes, crate::DType::U8, [bytes.len()])?;
    Ok(CannQTensor {
        bytes: tensor,
        shape,
        scheme,
        place: place.clone(),
    })
}
