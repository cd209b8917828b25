use super::RopeTable;
use crate::semantics::{RopeKey, RopeStyle};
use burn::tensor::Tensor;

/// Rotary position embedding composed of plain tensor operations, on any backend: the definition
/// that kernels are verified against.
///
/// `q` is `[b, hq, s, d]` and `k` `[b, hk, s, d]`; `cos` and `sin` are tables as [`RopeTable`]
/// says, of width `d`. The results have the shapes and dtype of `q` and `k`.
///
/// # Panics
/// The shapes don't fit together, or `d` is odd.
pub fn reference(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    key: RopeKey,
) -> (Tensor<4>, Tensor<4>) {
    let (cos, sin) = (cos.rows(), sin.rows());
    super::check(&q, &k, &cos, &sin);
    let (cos, sin): (Tensor<4>, Tensor<4>) = (cos.unsqueeze_dim(1), sin.unsqueeze_dim(1));
    let rotate = |x: Tensor<4>| match key.style {
        RopeStyle::Half => x.clone() * cos.clone() + rotate_half(x) * sin.clone(),
        _ => todo!(),
    };
    (rotate(q), rotate(k))
}

/// `[x1, x2]` to `[−x2, x1]` on the last axis.
fn rotate_half(x: Tensor<4>) -> Tensor<4> {
    let half = x.dims()[3] / 2;
    let x1 = x.clone().narrow(3, 0, half);
    let x2 = x.narrow(3, half, half);
    Tensor::cat(vec![x2.neg(), x1], 3)
}
