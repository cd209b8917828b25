//! The launches of the kernels that only experts have, for tensors that are contiguous.

use super::kernels::{self, AddedLaunch, SizesLaunch};
use super::layer::Layer;
use crate::gpu::launch::{cubes, dim, element_of, uninitialised_as, units, vector_size, zeros_as};
use crate::ops::moe::grouped_matmul::cube::Columns;
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::{BufferArg, CubeCount};
use burn_cubecl::tensor::CubeTensor;

fn arg(tensor: &CubeTensor) -> BufferArg {
    tensor.clone().into_buffer_arg()
}

fn sizes(layer: &Layer, vectors: usize) -> SizesLaunch {
    let choices = layer.call.indices.shape()[1];
    SizesLaunch::new(layer.rows, choices, vectors, f32::NAN)
}

/// Multiplies the result of the gated unit and its gradient by the routing weights, in place, and returns the gradient of the
/// routing weights, without that through biases, rounded to a dtype.
pub(super) fn weigh(
    layer: &Layer,
    unit: &CubeTensor,
    d_unit: &CubeTensor,
    dtype: DType,
) -> CubeTensor {
    let (routing, size) = (&layer.call.routing, vector_size(&[layer.width]));
    let vectors = layer.width / size;
    if layer.rows * vectors == 0 {
        return zeros_as(routing, routing.shape(), dtype);
    }
    let d_routing = uninitialised_as(routing, routing.shape(), dtype);
    let units = units(vectors);
    // SAFETY: there is an entry of the map, a routing weight and a gradient for each slot, and as many rows of `vectors`
    // vectors of both tensors, which nothing else holds. No two slots have the same row, and slots without one touch none.
    // Cubes beyond the slots end at once.
    unsafe {
        kernels::weigh::launch_unchecked(
            &routing.client,
            cubes(routing, layer.rows),
            dim(units),
            size,
            arg(unit),
            arg(d_unit),
            arg(&layer.row_map),
            arg(routing),
            arg(&d_routing),
            sizes(layer, vectors),
            units,
            [unit, routing, &d_routing].map(element_of),
        );
    }
    d_routing
}

/// Returns the gradient of the routing weights: the sum of that without biases, in f32, and of that through the biases of
/// down.
pub(super) fn add_bias(
    layer: &Layer,
    bias: &CubeTensor,
    dy: &CubeTensor,
    without: &CubeTensor,
) -> CubeTensor {
    let (hidden, routing) = (dy.shape()[1], &layer.call.routing);
    let size = vector_size(&[hidden]);
    let vectors = hidden / size;
    if layer.rows == 0 {
        return zeros_as(routing, routing.shape(), routing.dtype);
    }
    let d_routing = uninitialised_as(routing, routing.shape(), routing.dtype);
    let units = units(vectors);
    // SAFETY: as in `weigh`, and there is a gradient without biases for each slot; the biases have `vectors` vectors for each
    // expert, and `dy` for each token. The index of a slot with a row is an expert's.
    unsafe {
        kernels::add_bias::launch_unchecked(
            &dy.client,
            cubes(dy, layer.rows),
            dim(units),
            size,
            arg(bias),
            arg(dy),
            arg(&layer.call.indices),
            arg(&layer.row_map),
            arg(without),
            arg(&d_routing),
            sizes(layer, vectors),
            units,
            [dy, routing].map(element_of),
        );
    }
    d_routing
}

/// Returns the sum of each expert's rows, `[E, width]`. Rows that are sources are multiplied by the routing weights.
pub(super) fn sum_of_experts(layer: &Layer, columns: Columns<'_>) -> CubeTensor {
    let experts = layer.call.down().shape()[0];
    let (tensor, [first, width, stride]) = (columns.tensor(), columns.sizes());
    let shape = Shape::new([experts, width]);
    if layer.rows * width == 0 {
        return zeros_as(tensor, shape, tensor.dtype);
    }
    let sums = uninitialised_as(tensor, shape, tensor.dtype);
    let size = vector_size(&[first, width, stride]);
    let vectors = width / size;
    let units = units(vectors);
    let along = |count: usize| u32::try_from(count).expect("`takes` has checked the sizes");
    let cubes = CubeCount::Static(along(vectors.div_ceil(units)), along(experts), 1);
    let sources = columns.is_source().then(|| layer.sources());
    // SAFETY: the plan keeps the rows of an expert within the rows. A row, or the token of its slot, has `stride` vectors, of
    // which `vectors` are added up, and the sums have `vectors` for each expert. Units beyond these end at once.
    unsafe {
        kernels::sum_of_experts::launch_unchecked(
            &tensor.client,
            cubes,
            dim(units),
            size,
            arg(tensor),
            sources.map(|sources| arg(sources.slots)).into(),
            sources.map(|_| arg(&layer.call.routing)).into(),
            arg(layer.groups.plan()),
            arg(&sums),
            AddedLaunch::new(
                vectors,
                stride / size,
                first / size,
                sources.map_or(1, |sources| sources.choices),
            ),
            [tensor, &layer.call.routing].map(element_of),
        );
    }
    sums
}
