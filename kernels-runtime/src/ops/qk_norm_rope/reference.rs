use super::{Inputs, Projected, Settings, check, merged};
use crate::ops::{rms_norm, rope};
use crate::semantics::{HeadLayout, QkNorm, QkNormRopeKey};
use burn::tensor::Tensor;

/// Normalises and rotates queries and keys with plain tensor operations, on any backend: the definition that kernels
/// are verified against.
///
/// The norm rounds as [`rms_norm::reference`](rms_norm::reference()) documents, and the rotation as
/// [`rope::reference`](rope::reference()) does.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, if the shapes don't fit together, or if the tables have
/// another dtype than queries and keys or the one these are computed in.
#[track_caller]
pub fn reference(inputs: Inputs, settings: Settings, key: QkNormRopeKey) -> (Tensor<4>, Tensor<4>) {
    check(&inputs, settings, key);
    let prepare = |x, weight| placed(normalised(x, weight, settings, key), key.layout);
    let q = prepare(inputs.q, inputs.q_weight);
    let k = prepare(inputs.k, inputs.k_weight);
    rope::reference(q, k, inputs.cos, inputs.sin, key.rope())
}

/// Works like [`reference()`], with the tables of three positions, as of [`fused_sections`](super::fused_sections).
///
/// # Panics
/// Panics as [`reference()`] does, or if the sections don't add up to the pairs of the tables.
#[track_caller]
pub fn reference_sections(
    projected: Projected,
    tables: [Tensor<4>; 2],
    sections: [usize; 3],
    settings: Settings,
    key: QkNormRopeKey,
) -> (Tensor<4>, Tensor<4>) {
    reference(projected.with(merged(tables, sections, key)), settings, key)
}

fn normalised(
    x: Tensor<4>,
    weight: Option<Tensor<1>>,
    settings: Settings,
    key: QkNormRopeKey,
) -> Tensor<4> {
    let Some(eps) = settings.eps else { return x };
    match key.norm {
        QkNorm::None => x,
        QkNorm::Head => norm(x, weight, eps, key),
        QkNorm::Row => {
            let shape @ [b, s, heads, d] = x.dims();
            norm(x.reshape([b, s, heads * d]), weight, eps, key).reshape(shape)
        }
    }
}

fn norm<const D: usize>(
    x: Tensor<D>,
    weight: Option<Tensor<1>>,
    eps: f64,
    key: QkNormRopeKey,
) -> Tensor<D> {
    let gate = None;
    let group_size = None;
    let settings = rms_norm::Settings { eps, group_size };
    rms_norm::reference(
        rms_norm::Inputs { x, weight, gate },
        settings,
        key.rms_norm(),
    )
}

/// Returns a tensor in the layout of the projections in that of the results.
fn placed(x: Tensor<4>, layout: HeadLayout) -> Tensor<4> {
    match layout {
        HeadLayout::Bnsd => x.swap_dims(1, 2),
        HeadLayout::Bsnd => x,
    }
}
