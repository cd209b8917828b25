//! A layer of experts on the thread of the device.

use super::super::operands::{BIASES, DOWN, GATE, UP};
use super::Call;
use crate::gpu::launch::uninitialised_as;
use crate::ops::glu;
use crate::ops::moe::cube::sort;
use crate::ops::moe::grouped_matmul::cube::{Columns, Groups, Product, Sources};
use crate::ops::moe::permute;
use crate::ops::operands::checked;
use crate::semantics::{ExpertLayout, GluKey, Projections};
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;

/// The operands, contiguous, and the sorted slots.
pub(super) struct Layer {
    pub(super) call: Call,
    /// The row of each slot.
    pub(super) row_map: CubeTensor,
    /// The slot of each row.
    slots_of: CubeTensor,
    pub(super) groups: Groups,
    /// The number of slots of a token.
    choices: usize,
    /// The number of slots, and of rows.
    pub(super) rows: usize,
    /// The width of an expert.
    pub(super) width: usize,
}

/// A projection of gate, of up or of both, and its columns in the tensor that holds gate and up.
pub(super) struct Part {
    pub(super) group: usize,
    pub(super) first: usize,
    pub(super) width: usize,
}

impl Layer {
    pub(super) fn new(call: Call) -> Self {
        let [experts, a, b] = call.down().shape().dims();
        let [tokens, choices] = call.indices.shape().dims();
        let rows = tokens * choices;
        let sorted = sort::by_expert(call.indices.clone(), experts, rows);
        Self {
            slots_of: sort::inverse(&sorted.rows, rows),
            groups: Groups::new(&sorted.counts, rows),
            row_map: sorted.rows,
            choices,
            rows,
            width: match call.settings.key.layout {
                ExpertLayout::Linear => b,
                ExpertLayout::Matmul => a,
            },
            call,
        }
    }

    /// Returns the slots of the rows, which lead to their tokens.
    pub(super) fn sources(&self) -> Sources<'_> {
        Sources {
            slots: &self.slots_of,
            choices: self.choices,
        }
    }

    /// Returns the projections of gate and up.
    pub(super) fn parts(&self) -> Vec<Part> {
        let width = self.width;
        match self.call.settings.key.projections {
            Projections::Separate => vec![
                Part {
                    group: GATE,
                    first: 0,
                    width,
                },
                Part {
                    group: UP,
                    first: width,
                    width,
                },
            ],
            Projections::Chunked | Projections::Interleaved => vec![Part {
                group: GATE,
                first: 0,
                width: 2 * width,
            }],
        }
    }

    /// Returns the weights of a group.
    pub(super) fn weights(&self, group: usize) -> &CubeTensor {
        let weights = self.call.weights[group].as_ref();
        weights.expect("the key has this projection")
    }

    /// Returns the product of rows and the weights of a group, with its biases.
    fn product<'a>(&'a self, x: Columns<'a>, group: usize) -> Product<'a> {
        Product {
            x,
            sources: Some(self.sources()),
            weights: self.weights(group),
            layout: self.call.settings.key.layout,
            bias: self.call.weights[BIASES + group].as_ref(),
        }
    }

    /// Returns the result, and gate and up of each row.
    pub(super) fn forward(&self) -> (CubeTensor, CubeTensor) {
        let shape = Shape::new([self.rows, 2 * self.width]);
        let (x, dtype) = (&self.call.x, self.call.x.dtype);
        let kept = uninitialised_as(x, shape, dtype);
        for part in self.parts() {
            let x = Columns::all(x).as_sources();
            let columns = Columns::of(&kept, part.first, part.width);
            self.product(x, part.group)
                .write(&self.groups, columns, false);
        }
        let unit = glu::cube::forward(self.unit(kept.clone()));
        let down = self.product(Columns::all(&unit), DOWN);
        let (rows, routing) = (down.of(&self.groups, DType::F32), &self.call.routing);
        let y = permute::cube::sum(&rows, &self.row_map, Some(routing), dtype);
        (y, kept)
    }

    /// Returns the operands of the gated unit, given gate and up of each row. Separate projections are side by side.
    pub(super) fn unit(&self, kept: CubeTensor) -> glu::Operands<CubeTensor> {
        let settings = self.call.settings;
        let key = settings.key.unit();
        let projections = match key.projections {
            Projections::Interleaved => Projections::Interleaved,
            Projections::Chunked | Projections::Separate => Projections::Chunked,
        };
        let key = GluKey { projections, ..key };
        let settings = glu::Settings {
            limit: settings.limit,
            sparsity: None,
        };
        checked(glu::Operands::new(kept, None, settings, key))
    }
}
