//! The cross-entropy on Flex: [`kernels_simd::cross_entropy`] on its tensors.

use super::operands::OP;
use super::targets::Targets;
use super::{CrossEntropy, Each, Launch, Settings};
use crate::cpu::{BASE, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::moe::integers;
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use kernels_simd::cross_entropy;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::CrossEntropy(Launch(OpLaunch::of::<CrossEntropy, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::CrossEntropy(_)),
    ..BASE
};

/// Panics if a target is neither a class nor the ignored index.
impl FusedKernel<CrossEntropy> for Flex {
    fn forward(operands: Tensors<CrossEntropy, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let [tokens, classes] = operands.sizes();
        let targets = read(OP, operands.targets(), classes, operands.settings());
        let logits = readable_rows(operands.logits());
        let found = cross_entropy::forward(&bound(&logits, &targets, &operands));
        let elements = found.loss.len();
        let loss = tensor(found.loss, Shape::new([elements]));
        Made::new(loss).saving([tensor(found.lse, Shape::new([tokens]))])
    }

    fn backward(backward: BackwardOn<CrossEntropy, Self>) -> Gradients<CrossEntropy, Self> {
        let (operands, [lse]) = (backward.operands(), backward.saved());
        checked(operands.dtype());
        let [tokens, classes] = operands.sizes();
        let targets = read(OP, operands.targets(), classes, operands.settings());
        let (dy, lse) = (backward.dy().to_contiguous(), lse.to_contiguous());
        assert!(
            lse.layout().num_elements() == tokens,
            "{OP}: lse is missing, which the CPU's kernel needs"
        );
        let logits = readable_rows(operands.logits());
        let operands = bound(&logits, &targets, operands);
        let d_logits = cross_entropy::backward(&operands, &view(&lse), &view(&dy));
        Each {
            logits: Some(tensor(d_logits, logits.layout().shape().clone())),
        }
    }
}

/// Returns the operands with logits whose rows can be read in place.
fn bound<'a>(
    logits: &'a FlexTensor,
    targets: &'a Targets,
    operands: &Tensors<CrossEntropy, Flex>,
) -> cross_entropy::Operands<'a> {
    cross_entropy::Operands {
        logits: view(logits),
        targets: targets.classes(),
        settings: numbers(operands.settings()),
        reduction: operands.key().reduction,
    }
}

/// Returns the numbers of a loss without the ignored index, which [`read`] knows.
pub(in crate::ops) fn numbers(settings: Settings) -> cross_entropy::Settings {
    let Settings {
        ignore_index: _,
        label_smoothing,
        cap,
        z_loss,
    } = settings;
    cross_entropy::Settings {
        label_smoothing,
        cap,
        z_loss,
    }
}

/// Reads the targets.
///
/// # Panics
/// Panics if a target is neither a class nor the ignored index.
#[track_caller]
pub(in crate::ops) fn read(
    op: &str,
    targets: &FlexTensor,
    classes: usize,
    settings: Settings,
) -> Targets {
    let numbers = integers::read(targets);
    checked(Targets::new(op, numbers.into_iter(), classes, settings))
}
