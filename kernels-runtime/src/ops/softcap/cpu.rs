//! Soft capping on Flex: [`kernels_simd::softcap`] on its tensors.

use super::{Each, Launch, Softcap};
use crate::cpu::{BASE, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use kernels_simd::softcap;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Softcap(Launch(OpLaunch::of::<Softcap, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::Softcap(_)),
    ..BASE
};

impl FusedKernel<Softcap> for Flex {
    fn forward(operands: Tensors<Softcap, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let x = readable_rows(operands.x());
        let y = softcap::forward(&view(&x), operands.cap());
        Made::new(tensor(y, x.layout().shape().clone()))
    }

    fn backward(backward: BackwardOn<Softcap, Self>) -> Gradients<Softcap, Self> {
        let operands = backward.operands();
        checked(operands.dtype());
        let (x, dy) = (readable_rows(operands.x()), readable_rows(backward.dy()));
        let dx = softcap::backward(&view(&dy), &view(&x), operands.cap());
        Each {
            x: Some(tensor(dx, x.layout().shape().clone())),
        }
    }
}
