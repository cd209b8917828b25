//! Norms.

use super::Results;
use crate::call::Error;
use crate::made::Made;
use crate::numbers::{Epsilon, Finite};
use crate::tensor::Tensor;
use kernels_simd::keys::{Gating, Rounding};
use kernels_simd::{View, layer_norm as layer, rms_norm as rms};

/// RMSNorm.
pub(super) struct RmsNorm {
    pub(super) x: Tensor,
    pub(super) weight: Option<Tensor>,
    pub(super) gate: Option<Tensor>,
    pub(super) eps: Epsilon,
    /// 0 if a group is the whole axis.
    pub(super) group_size: usize,
    pub(super) offset: Finite,
    pub(super) rounding: Rounding,
    pub(super) gating: Gating,
}

impl RmsNorm {
    fn operands(&self) -> Result<rms::Operands<'_>, Error> {
        Ok(rms::Operands {
            x: self.x.view()?,
            weight: view_of(&self.weight)?,
            gate: view_of(&self.gate)?,
            bias: None,
            settings: rms::Settings {
                eps: self.eps.0,
                group_size: Some(self.group_size).filter(|size| *size > 0),
                offset: self.offset.0,
                rounding: self.rounding,
                gating: self.gating,
            },
        })
    }

    pub(super) fn forward(self, residual: Option<Tensor>) -> Results<3> {
        let found = rms::forward(&self.operands()?, view_of(&residual)?.as_ref());
        Ok([
            Some(Made::new(found.y, self.x.sizes())),
            Some(Made::flat(found.rstd)),
            found.sum.map(|sum| Made::new(sum, self.x.sizes())),
        ])
    }

    pub(super) fn backward(
        self,
        dy: Tensor,
        rstd: Tensor,
        dsum: Option<Tensor>,
        wants_weight: bool,
    ) -> Results<3> {
        let found = rms::backward(&rms::Backward {
            operands: self.operands()?,
            dy: dy.view()?,
            rstd: rstd.view()?,
            before: view_of(&dsum)?,
            wants_weight,
            wants_bias: false,
        });
        Ok([
            Some(Made::new(found.x, self.x.sizes())),
            Made::like(found.weight, &self.weight),
            Made::like(found.gate, &self.gate),
        ])
    }
}

pub(super) fn layer_norm(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    eps: Epsilon,
) -> Results<3> {
    let found = layer::forward(&x.view()?, &weight.view()?, view_of(&bias)?.as_ref(), eps.0);
    Ok([
        Some(Made::new(found.y, x.sizes())),
        Some(Made::flat(found.mean)),
        Some(Made::flat(found.rstd)),
    ])
}

pub(super) fn layer_norm_backward(
    x: Tensor,
    weight: Tensor,
    dy: Tensor,
    [mean, rstd]: [Tensor; 2],
    [wants_weight, wants_bias]: [bool; 2],
) -> Results<3> {
    let found = layer::backward(&layer::Backward {
        dy: dy.view()?,
        x: x.view()?,
        mean: mean.view()?,
        rstd: rstd.view()?,
        weight: weight.view()?,
        wants_weight,
        wants_bias,
    });
    Ok([
        Some(Made::new(found.x, x.sizes())),
        (found.weight).map(|values| Made::new(values, weight.sizes())),
        (found.bias).map(|values| Made::new(values, weight.sizes())),
    ])
}

/// Returns the view of a tensor that may be absent.
pub(super) fn view_of(tensor: &Option<Tensor>) -> Result<Option<View<'_>>, Error> {
    tensor.as_ref().map(Tensor::view).transpose()
}
