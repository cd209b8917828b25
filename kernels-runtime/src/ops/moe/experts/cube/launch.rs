//! The launches of the kernels that only experts have, for tensors that are contiguous.

use super::kernels::{self, AddedLaunch, SizesLaunch};
use super::layer::Layer;
use crate::gpu::launch::{cubes, dim, uninitialised, units, vector_size, zeros};
use crate::ops::moe::grouped_matmul::cube::Columns;
use burn::backend::{Shape, TensorMetadata};
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
/// routing weights, without that through biases.
pub(super) fn weigh(layer: &Layer, unit: &CubeTensor, d_unit: &CubeTensor) -> CubeTensor {
    let (routing, size) = (&layer.call.routing, vector_size(&[layer.width]));
    let vectors = layer.width / size;
    if layer.rows * vectors == 0 {
        return zeros(routing, routing.shape());
    }
    let d_routing = uninitialised(routing, routing.shape());
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
        );
    }
    d_routing
}

/// Adds the gradient through the biases of down to that of the routing weights, in place.
pub(super) fn add_bias(layer: &Layer, bias: &CubeTensor, dy: &CubeTensor, d_routing: &CubeTensor) {
    let hidden = dy.shape()[1];
    let size = vector_size(&[hidden]);
    let vectors = hidden / size;
    if layer.rows * vectors == 0 {
        return;
    }
    let units = units(vectors);
    // SAFETY: as in `weigh`; the biases have `vectors` vectors for each expert, and `dy` for each token. The index of a slot
    // with a row is an expert's.
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
            arg(d_routing),
            sizes(layer, vectors),
            units,
        );
    }
}

/// Returns the sum of each expert's rows, `[E, width]`. Rows that are sources are multiplied by the routing weights.
pub(super) fn sum_of_experts(layer: &Layer, columns: Columns<'_>) -> CubeTensor {
    let experts = layer.call.down().shape()[0];
    let (tensor, [first, width, stride]) = (columns.tensor(), columns.sizes());
    let shape = Shape::new([experts, width]);
    if layer.rows * width == 0 {
        return zeros(tensor, shape);
    }
    let (sums, size) = (
        uninitialised(tensor, shape),
        vector_size(&[first, width, stride]),
    );
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
        );
    }
    sums
}
