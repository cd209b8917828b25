//! The gradients of experts.

use super::super::operands::{BIASES, DOWN};
use super::launch::{add_bias, sum_of_experts, weigh};
use super::layer::Layer;
use super::{GROUPS, Wants};
use crate::gpu::launch::{contiguous, uninitialised};
use crate::ops::glu;
use crate::ops::moe::grouped_matmul::cube::{Columns, Product, other, outer};
use crate::ops::moe::permute;
use crate::ops::operands::checked;
use crate::semantics::ExpertLayout;
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;

/// Returns the wanted gradients: of the tokens, of the routing weights, and of each group of weights.
pub(super) fn gradients(
    layer: &Layer,
    dy: CubeTensor,
    kept: CubeTensor,
    wants: Wants,
) -> Vec<CubeTensor> {
    let rows = Rows::new(layer, contiguous(dy), contiguous(kept));
    let x = wants.x.then(|| rows.of_tokens());
    let routing = wants.routing.then(|| rows.d_routing.clone());
    let wanted = (0..GROUPS).filter(|group| wants.weights[*group]);
    let weights = wanted.map(|group| rows.of_group(group));
    x.into_iter().chain(routing).chain(weights).collect()
}

/// The tensors of the slots' rows from which the gradients of all operands are made.
struct Rows<'a> {
    layer: &'a Layer,
    dy: CubeTensor,
    /// The result of the gated unit, times the routing weights.
    unit: CubeTensor,
    /// The gradient of gate and up.
    d_parts: CubeTensor,
    d_routing: CubeTensor,
}

impl<'a> Rows<'a> {
    fn new(layer: &'a Layer, dy: CubeTensor, kept: CubeTensor) -> Self {
        let product = Product {
            x: Columns::all(&dy).as_sources(),
            sources: Some(layer.sources()),
            weights: layer.weights(DOWN),
            layout: other(layer.call.settings.key.layout),
            bias: None,
        };
        let d_unit = product.of(&layer.groups, dy.dtype);
        let operands = layer.unit(kept);
        let unit = glu::cube::forward(operands.clone());
        // A bias without features adds nothing.
        let bias = layer.call.weights[BIASES + DOWN].as_ref();
        let d_routing = match bias.filter(|bias| bias.shape()[1] > 0) {
            Some(bias) => {
                let without = weigh(layer, &unit, &d_unit, DType::F32);
                add_bias(layer, bias, &dy, &without)
            }
            None => weigh(layer, &unit, &d_unit, layer.call.routing.dtype),
        };
        let mut of_unit = glu::cube::gradients(checked(operands.backward(d_unit)));
        Self {
            d_parts: of_unit.pop().expect("a packed tensor has one gradient"),
            layer,
            dy,
            unit,
            d_routing,
        }
    }

    fn of_tokens(&self) -> CubeTensor {
        let layer = self.layer;
        let x = &layer.call.x;
        let rows = uninitialised(x, Shape::new([layer.rows, x.shape()[1]]));
        for (at, part) in layer.parts().into_iter().enumerate() {
            let product = Product {
                x: Columns::of(&self.d_parts, part.first, part.width),
                sources: None,
                weights: layer.weights(part.group),
                layout: other(layer.call.settings.key.layout),
                bias: None,
            };
            product.write(&layer.groups, Columns::all(&rows), at > 0);
        }
        permute::cube::sum(&rows, &layer.row_map, None, x.dtype)
    }

    /// Returns the gradient of a group of weights or biases.
    fn of_group(&self, group: usize) -> CubeTensor {
        let layer = self.layer;
        let dy = Columns::all(&self.dy).as_sources();
        let projection = group % BIASES;
        // The inputs of the projection, and the gradient of its results.
        let (inputs, d) = match projection {
            DOWN => (Columns::all(&self.unit), dy),
            _ => {
                let mut parts = layer.parts().into_iter();
                let part = parts.find(|part| part.group == projection);
                let part = part.expect("the group has a part");
                let d = Columns::of(&self.d_parts, part.first, part.width);
                (Columns::all(&layer.call.x).as_sources(), d)
            }
        };
        if group >= BIASES {
            return sum_of_experts(layer, d);
        }
        let sources = Some(layer.sources());
        match layer.call.settings.key.layout {
            ExpertLayout::Linear => outer(d, inputs, sources, &layer.groups),
            ExpertLayout::Matmul => outer(inputs, d, sources, &layer.groups),
        }
    }
}
