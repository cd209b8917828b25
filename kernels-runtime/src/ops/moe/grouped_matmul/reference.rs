use super::super::Stack;
use crate::semantics::ExpertLayout;
use burn::tensor::{Int, Tensor};

/// Computes grouped products with plain tensor operations, on any backend: the definition that
/// kernels are verified against.
///
/// The operands are those of [`fused`](super::fused). Reads the counts, which waits for the device.
///
/// # Panics
/// Panics as [`fused`](super::fused) does on the CPU, on every device.
pub fn reference(
    x: Tensor<2>,
    counts: Tensor<1, Int>,
    weights: impl Into<Stack<3, 2>>,
    layout: ExpertLayout,
) -> Tensor<2> {
    let weights = weights.into();
    let (_, features) = super::check(&x, &counts, &weights, layout);
    let (rows, options) = (x.dims()[0], (&x.device(), x.dtype()));
    let counts: Vec<i64> = counts.into_data().iter::<i64>().collect();
    let groups = super::groups(&counts, rows);
    let covered = groups.last().map_or(0, |group| group.end);
    let mut parts = Vec::new();
    for (expert, group) in groups.into_iter().enumerate() {
        if group.is_empty() {
            continue;
        }
        let weight = weights.expert(expert);
        let weight = match layout {
            ExpertLayout::Linear => weight.transpose(),
            ExpertLayout::Matmul => weight,
        };
        parts.push(x.clone().slice_dim(0, group).matmul(weight));
    }
    if covered < rows || parts.is_empty() {
        parts.push(Tensor::zeros([rows - covered, features], options));
    }
    Tensor::cat(parts, 0)
}
