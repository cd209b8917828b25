//! Experts with adapters, by kernels for rows that are grouped by expert. No tensor has the size of the weights, forward or
//! backward.

use super::{Adapter, GateUp, KERNEL, Projection, Weights};
use crate::ops::glu;
use crate::ops::moe::steps::{PRODUCT, UNIT};
use crate::ops::moe::{Permuted, Stack, grouped_matmul, moe_permute, moe_unpermute};
use crate::semantics::{ExpertLayout, MoeExpertsKey};
use burn::tensor::{Int, Tensor};

/// Computes the experts of a mixture: sorts the tokens by expert, multiplies all rows of a projection at once, and adds up
/// the results of each token. The operands are those of [`fused`](super::fused()). A step for which the device has no kernel
/// is computed by its reference, and the report has a row for each kind of step.
pub(super) fn experts(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    weights: &Weights,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    let permuted = moe_permute(x, indices, weights.experts(), None);
    let Permuted {
        rows,
        row_map,
        counts,
    } = permuted;
    let project = |one: &Projection, rows| projected(one, rows, &counts, key.layout);
    let inputs = match &weights.gate_up {
        GateUp::Packed(gate_up) => glu::Inputs::Packed(project(gate_up, rows)),
        GateUp::Separate { gate, up } => glu::Inputs::Separate {
            gate: project(gate, rows.clone()),
            up: project(up, rows),
        },
    };
    let settings = glu::Settings {
        limit,
        sparsity: None,
    };
    let first = match &inputs {
        glu::Inputs::Packed(x) | glu::Inputs::Separate { gate: x, .. } => x.clone(),
    };
    let of = inputs.clone();
    let unit = UNIT.run(
        KERNEL,
        &[&first.into_dispatch()],
        || glu::fused(of, settings, key.unit()),
        || glu::reference(inputs, settings, key.unit()),
    );
    moe_unpermute(project(&weights.down, unit), row_map, Some(routing))
}

/// Applies a projection to rows that are grouped by expert.
fn projected(
    one: &Projection,
    rows: Tensor<2>,
    counts: &Tensor<1, Int>,
    layout: ExpertLayout,
) -> Tensor<2> {
    let added = one
        .adapter
        .as_ref()
        .map(|adapter| added(adapter, rows.clone(), counts));
    let biases = one.bias.as_ref().map(|bias| {
        let ones = Tensor::ones([rows.dims()[0], 1], (&rows.device(), rows.dtype()));
        product(ones, counts, as_rows(bias), ExpertLayout::Matmul)
    });
    let y = product(rows, counts, one.weight.clone(), layout);
    [biases, added]
        .into_iter()
        .flatten()
        .fold(y, |y, more| y + more)
}

/// Returns what adapters add to the result for rows that are grouped by expert.
fn added(adapter: &Adapter, rows: Tensor<2>, counts: &Tensor<1, Int>) -> Tensor<2> {
    adapter.compute(rows, |x, factors| {
        product(x, counts, factors.clone().into(), ExpertLayout::Matmul)
    })
}

/// Returns each expert's bias as a matrix of one row, whose product with a one is the bias.
fn as_rows(bias: &Stack<2, 1>) -> Stack<3, 2> {
    match bias {
        Stack::Stacked(biases) => Stack::Stacked(biases.clone().unsqueeze_dim(1)),
        Stack::List(biases) => {
            Stack::List(biases.iter().map(|one| one.clone().unsqueeze()).collect())
        }
    }
}

fn product(
    x: Tensor<2>,
    counts: &Tensor<1, Int>,
    weights: Stack<3, 2>,
    layout: ExpertLayout,
) -> Tensor<2> {
    let (rows, of) = (x.clone(), weights.clone());
    PRODUCT.run(
        KERNEL,
        &[&x.clone().into_dispatch()],
        || grouped_matmul::fused(rows, counts.clone(), of, layout),
        || grouped_matmul::reference(x, counts.clone(), weights, layout),
    )
}
