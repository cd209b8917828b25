//! The operation as a composition of the kernels of RMSNorm and of the rotation, for backends without a kernel of their
//! own, and for the parts that a fused kernel would not make faster.

use super::{Backward, Gradients, Operands, Tensors};
use crate::ops::operands::checked;
use crate::ops::rms_norm::{self, RmsNormKernel};
use crate::ops::rope::{self, RopeKernel};
use crate::semantics::{HeadLayout, QkNorm};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Shape, TensorMetadata};

/// Returns the result.
pub(super) fn forward<B: RmsNormKernel + RopeKernel>(operands: Tensors<B>) -> FloatTensor<B> {
    let normalised = normalised::<B>(&operands);
    rotation::<B>(normalised, &operands, B::rope_forward)
}

/// Returns the normalised tensor, a view in the layout of the result.
pub(super) fn normalised<B: RmsNormKernel>(operands: &Tensors<B>) -> FloatTensor<B> {
    let normalised = match norm::<B>(operands) {
        None => operands.x().clone(),
        Some(norm) => B::float_reshape(B::rms_norm_forward(norm).0, operands.x().shape()),
    };
    placed::<B>(normalised, operands.key().layout)
}

/// Returns the gradients.
pub(super) fn backward<B: RmsNormKernel + RopeKernel>(
    backward: Backward<FloatTensor<B>>,
) -> Gradients<FloatTensor<B>> {
    let (operands, dy) = (backward.operands(), backward.dy().clone());
    let rotated_back = rotation::<B>(dy, operands, B::rope_backward);
    let d_normalised = placed::<B>(rotated_back, operands.key().layout);
    let Some(norm) = norm::<B>(operands) else {
        return Gradients {
            x: d_normalised,
            weight: None,
        };
    };
    let d_normalised = B::float_reshape(d_normalised, norm.x().shape());
    let (_, rstd) = B::rms_norm_forward(norm.clone());
    let given = norm.backward(d_normalised, rstd, backward.weight_gradient());
    let found = B::rms_norm_backward(checked(given));
    Gradients {
        x: B::float_reshape(found.x, operands.x().shape()),
        weight: found.weight,
    }
}

/// Returns the operands of the norm, or `None` without a norm.
pub(super) fn norm<B: Backend>(operands: &Tensors<B>) -> Option<rms_norm::Tensors<B>> {
    let (x, key) = (operands.x().clone(), operands.key());
    let x = match key.norm {
        QkNorm::None | QkNorm::Head => x,
        QkNorm::Row => {
            let [b, s, heads, d] = x.shape().dims();
            B::float_reshape(x, Shape::new([b, s, heads * d]))
        }
    };
    let settings = rms_norm::Settings {
        eps: operands.settings().eps?,
        group_size: None,
    };
    let weight = operands.weight().cloned();
    Some(checked(rms_norm::Operands::new(
        x,
        weight,
        None,
        settings,
        key.rms_norm(),
    )))
}

fn rotation<B: Backend>(
    x: FloatTensor<B>,
    operands: &Operands<FloatTensor<B>>,
    rotate: fn(rope::Tensors<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let (cos, sin) = (operands.cos().clone(), operands.sin().clone());
    let key = operands.key().rope();
    rotate(checked(rope::Operands::new(x, cos, sin, key)))
}

/// Exchanges the axes of heads and positions if the result has them in the other order. Doing so twice changes nothing.
pub(super) fn placed<B: Backend>(x: FloatTensor<B>, layout: HeadLayout) -> FloatTensor<B> {
    match layout {
        HeadLayout::Bnsd => B::float_swap_dims(x, 1, 2),
        HeadLayout::Bsnd => x,
    }
}
