//! The gradients of one expert's weights and biases, summed over its rows.

use super::backward::Chunk;
use super::{BIASES, DOWN, GATE, Part, Settings, UP, View, Wanted, part_of, parts};
use crate::Element;
use crate::keys::{ExpertLayout, Projections};
use crate::moe::in_place::{self, Gradients, Sum};
use crate::product::{Factors, Gemm};

/// The sums of one expert, `None` where no gradient is wanted.
pub(super) struct Sums<'a, T: Element> {
    /// The sum for gate, or for gate and up if they are packed.
    gate: Option<Sum<'a, T>>,
    up: Option<Sum<'a, T>>,
    down: Option<Sum<'a, T>>,
    gate_bias: Option<Sum<'a, T>>,
    up_bias: Option<Sum<'a, T>>,
    down_bias: Option<Sum<'a, T>>,
}

impl<'a, T: Element> Sums<'a, T>
where
    T::Acc: Gemm,
{
    /// Returns the sums of each expert, in the memory of `gradients`, which are those of [`gradients`].
    pub(super) fn of(view: &View<'_, T>, gradients: &'a mut [Gradients<T>]) -> Vec<Self> {
        let experts = view.groups.experts();
        let mut slabs: Vec<_> = gradients
            .iter_mut()
            .map(|gradients| gradients.experts().into_iter())
            .collect();
        let mut next = move |group: usize| slabs[group].next().flatten().map(Sum::new);
        (0..experts)
            .map(|_| Self {
                gate: next(GATE),
                up: next(UP),
                down: next(DOWN),
                gate_bias: next(BIASES + GATE),
                up_bias: next(BIASES + UP),
                down_bias: next(BIASES + DOWN),
            })
            .collect()
    }

    /// Adds the contribution of some rows to the gradient of down.
    pub(super) fn add_down(&mut self, settings: Settings, chunk: &Chunk<T::Acc>) {
        let dy = (&chunk.dy[..], chunk.hidden);
        let result = (&chunk.result[..], chunk.width);
        if let Some(sum) = &mut self.down {
            weights(sum, settings, result, &[dy], chunk);
        }
        if let Some(sum) = &mut self.down_bias {
            biases(sum, settings, &[dy]);
        }
    }

    /// Adds the contribution of some rows to the gradients of gate and up. `x` has the tokens of these rows.
    pub(super) fn add_gate_up(&mut self, settings: Settings, chunk: &Chunk<T::Acc>, x: &[T::Acc]) {
        let x = (x, chunk.hidden);
        let d_gate = (&chunk.d_gate[..], chunk.width);
        let d_up = (&chunk.d_up[..], chunk.width);
        let (packed, separate): (&[_], &[_]) = match settings.projections {
            Projections::Separate => (&[d_gate], &[d_up]),
            Projections::Chunked | Projections::Interleaved => (&[d_gate, d_up], &[]),
        };
        if let Some(sum) = &mut self.gate {
            weights(sum, settings, x, packed, chunk);
        }
        if let Some(sum) = &mut self.up {
            weights(sum, settings, x, separate, chunk);
        }
        if let Some(sum) = &mut self.gate_bias {
            biases(sum, settings, packed);
        }
        if let Some(sum) = &mut self.up_bias {
            biases(sum, settings, separate);
        }
    }

    /// Returns whether gradients of gate or up are wanted. Only these need the tokens.
    pub(super) fn want_tokens(&self) -> bool {
        [&self.gate, &self.up, &self.gate_bias, &self.up_bias]
            .into_iter()
            .any(Option::is_some)
    }

    /// Writes the gradients, zeros if no rows were added.
    pub(super) fn finish(self) {
        let sums = [
            self.gate,
            self.up,
            self.down,
            self.gate_bias,
            self.up_bias,
            self.down_bias,
        ];
        for sum in sums.into_iter().flatten() {
            sum.finish();
        }
    }
}

/// Returns the gradients of the weights before they are written, grouped as these.
pub(super) fn gradients<T: Element>(view: &View<'_, T>, wanted: &Wanted) -> Vec<Gradients<T>> {
    let (hidden, width) = (view.hidden, view.width);
    let gate = width * parts(view.settings.projections);
    let sizes = [
        gate * hidden,
        width * hidden,
        hidden * width,
        gate,
        width,
        hidden,
    ];
    let groups = wanted.weights.iter().zip(sizes);
    groups
        .map(|(wanted, size)| Gradients::new(wanted, view.groups.experts(), size))
        .collect()
}

/// Returns the place of the features of a part, in a tensor with one part or two.
fn place(settings: Settings, parts: usize, part: usize, width: usize) -> Part {
    if parts == 1 {
        Part { start: 0, step: 1 }
    } else {
        part_of(settings.projections, part, width)
    }
}

/// The elements of rows, and the width of a row.
type Rows<'a, A> = (&'a [A], usize);

/// Adds the gradient of a weight whose features are in one part or two: `inputsᵀ · outputs`, or
/// its transpose, depending on the layout of the weight.
fn weights<'a, T: Element>(
    sum: &mut Sum<'_, T>,
    settings: Settings,
    inputs: Rows<'a, T::Acc>,
    outputs: &[Rows<'a, T::Acc>],
    chunk: &Chunk<T::Acc>,
) where
    T::Acc: Gemm,
{
    let features: usize = outputs.iter().map(|(_, width)| width).sum();
    let part = |(part, output): (usize, Rows<'a, T::Acc>)| {
        let Part { start, step } = place(settings, outputs.len(), part, output.1);
        let (left, right, [first, line_stride, stride]) = match settings.layout {
            ExpertLayout::Linear => {
                let strides = [start * inputs.1, step * inputs.1, 1];
                (output, inputs, strides)
            }
            ExpertLayout::Matmul => (inputs, output, [start, features, step]),
        };
        in_place::Part {
            factors: Factors {
                count: chunk.rows,
                left,
                right,
            },
            first,
            line_stride,
            stride,
        }
    };
    let parts: Vec<_> = outputs.iter().copied().enumerate().map(part).collect();
    sum.add(&parts, chunk.only, chunk.spread);
}

/// Adds the gradient of a bias whose features are in one part or two: the sums of columns.
fn biases<T: Element>(sum: &mut Sum<'_, T>, settings: Settings, outputs: &[Rows<'_, T::Acc>])
where
    T::Acc: Gemm,
{
    sum.update(|totals| {
        for (part, (rows, width)) in outputs.iter().enumerate() {
            let Part { start, step } = place(settings, outputs.len(), part, *width);
            for feature in 0..*width {
                let total = &mut totals[start + feature * step];
                let column = rows.iter().skip(feature).step_by(*width);
                column.for_each(|value| *total += *value);
            }
        }
    });
}
