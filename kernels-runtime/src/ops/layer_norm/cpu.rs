//! LayerNorm on Flex: [`kernels_simd::layer_norm`] on its tensors.

use super::{Each, Launch, LayerNorm};
use crate::cpu::{BASE, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use kernels_simd::layer_norm;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::LayerNorm(Launch(OpLaunch::of::<LayerNorm, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::LayerNorm(_)),
    ..BASE
};

impl FusedKernel<LayerNorm> for Flex {
    fn forward(operands: Tensors<LayerNorm, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let x = readable_rows(operands.x());
        let weight = operands.weight().to_contiguous();
        let bias = operands.bias().map(FlexTensor::to_contiguous);
        let (per_row, _) = operands.statistic();
        let found = layer_norm::forward(
            &view(&x),
            &view(&weight),
            bias.as_ref().map(view).as_ref(),
            operands.settings().eps,
        );
        let statistics = [found.mean, found.rstd].map(|each| tensor(each, per_row.clone()));
        Made::new(tensor(found.y, x.layout().shape().clone())).saving(statistics)
    }

    fn backward(backward: BackwardOn<LayerNorm, Self>) -> Gradients<LayerNorm, Self> {
        let (operands, [mean, rstd]) = (backward.operands(), backward.saved());
        checked(operands.dtype());
        let (x, dy) = (readable_rows(operands.x()), readable_rows(backward.dy()));
        let others = [mean, rstd, operands.weight()];
        let [mean, rstd, weight] = others.map(FlexTensor::to_contiguous);
        let wanted = backward.wanted();
        let found = layer_norm::backward(&layer_norm::Backward {
            dy: view(&dy),
            x: view(&x),
            mean: view(&mean),
            rstd: view(&rstd),
            weight: view(&weight),
            wants_weight: wanted.weight,
            wants_bias: wanted.bias,
        });
        let parameter = |values| tensor(values, weight.layout().shape().clone());
        Each {
            x: Some(tensor(found.x, x.layout().shape().clone())),
            weight: found.weight.map(parameter),
            bias: found.bias.map(parameter),
        }
    }
}
