//! Memory and sizes of launches.

use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::ir::FloatKind;
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim, ElemType};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, full_client, zeros_client};
use burn_cubecl::tensor::CubeTensor;

/// The largest number of units of a cube that every WebGPU device has. CubeCL's runtime for CPUs has a thread for each unit,
/// which spins until the others come.
pub(crate) const MOST_UNITS: usize = if cfg!(feature = "cube-cpu") { 2 } else { 256 };

/// The number of units that GPUs run together, at least: fewer would leave some idle.
const FEWEST_UNITS: usize = if cfg!(feature = "cube-cpu") { 2 } else { 32 };

/// Returns the tensor with its elements in order, without gaps. Copies it only if it is not so.
pub(crate) fn contiguous(tensor: CubeTensor) -> CubeTensor {
    into_contiguous(tensor)
}

/// Returns the tensor, or a copy of it if the elements of a row are not adjacent, or if 32 bits don't count the places between
/// its first and its last element.
pub(crate) fn with_rows(tensor: CubeTensor) -> CubeTensor {
    let (shape, strides) = (tensor.shape(), tensor.meta.strides());
    let between = |(size, stride): (&usize, &usize)| size.saturating_sub(1).saturating_mul(*stride);
    let places = shape.iter().zip(strides.iter()).map(between);
    let places = places.fold(0, usize::saturating_add);
    match strides.last() {
        Some(1) if places < 1 << 32 => tensor,
        _ => contiguous(tensor),
    }
}

/// Returns the type of the elements of a float tensor, as kernels take it.
pub(crate) fn element_of(tensor: &CubeTensor) -> ElemType {
    ElemType::Float(match tensor.dtype {
        DType::F32 => FloatKind::F32,
        DType::F16 => FloatKind::F16,
        DType::BF16 => FloatKind::BF16,
        other => unreachable!("kernels for GPUs refuse operands of {other:?}"),
    })
}

/// Returns a tensor in f32 with uninitialised elements, in order and without gaps, on the device of another one.
pub(crate) fn uninitialised(on: &CubeTensor, shape: Shape) -> CubeTensor {
    uninitialised_as(on, shape, DType::F32)
}

/// Returns a tensor of a dtype with uninitialised elements, in order and without gaps, on the device of another one.
pub(crate) fn uninitialised_as(on: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    let (client, device) = (on.client.clone(), on.device.clone());
    empty_device_contiguous_dtype(client, device, shape, dtype)
}

/// Returns a tensor of zeros in f32, on the device of another one.
pub(crate) fn zeros(on: &CubeTensor, shape: Shape) -> CubeTensor {
    zeros_as(on, shape, DType::F32)
}

/// Returns a tensor of zeros of a dtype, on the device of another one.
pub(crate) fn zeros_as(on: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    zeros_client(on.client.clone(), on.device.clone(), shape, dtype)
}

/// Returns a tensor that holds one number, in f32, on the device of another one.
pub(crate) fn filled(on: &CubeTensor, shape: Shape, number: f32) -> CubeTensor {
    full_client(on.client.clone(), shape, on.device.clone(), number)
}

/// Returns a tensor in i32 with uninitialised elements, in order and without gaps, on the device of another one.
pub(crate) fn uninitialised_ints(on: &CubeTensor, shape: Shape) -> CubeTensor {
    let (client, device) = (on.client.clone(), on.device.clone());
    empty_device_contiguous_dtype(client, device, shape, DType::I32)
}

/// Returns a tensor that holds one number, in i32, on the device of another one.
pub(crate) fn filled_ints(on: &CubeTensor, shape: Shape, number: i32) -> CubeTensor {
    full_client(on.client.clone(), shape, on.device.clone(), number)
}

/// Returns the number of elements that a unit reads at once: the most, up to four, that divides all of these widths.
pub(crate) fn vector_size(widths: &[usize]) -> usize {
    let divides = |size: &usize| widths.iter().all(|width| width.is_multiple_of(*size));
    [4, 2].into_iter().find(divides).unwrap_or(1)
}

/// Returns the number of units of a cube that works on `items` of them together, a power of two.
pub(crate) fn units(items: usize) -> usize {
    items.next_power_of_two().clamp(FEWEST_UNITS, MOST_UNITS)
}

/// Returns at least `count` cubes, in as many dimensions as the device needs for them.
pub(crate) fn cubes(on: &CubeTensor, count: usize) -> CubeCount {
    calculate_cube_count_elemwise(&on.client, count, CubeDim::new_single())
}

/// Returns cubes of `units` units, together at least `count` units.
pub(crate) fn cubes_of(on: &CubeTensor, units: usize, count: usize) -> (CubeCount, CubeDim) {
    (cubes(on, count.div_ceil(units)), dim(units))
}

/// Returns the dimensions of a cube of `units` units.
pub(crate) fn dim(units: usize) -> CubeDim {
    CubeDim::new_1d(u32::try_from(units).expect("a cube has at most 256 units"))
}
