//! The divergence on Flex: [`kernels_simd::linear_divergence`] on its tensors.

use super::{Each, Launch, LinearDivergence, Operands};
use crate::cpu::{BASE, empty, readable, tensor, view};
use crate::ops::compute_dtype;
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::linear_cross_entropy::cpu::finished;
use crate::ops::operands::{array, checked};
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use kernels_simd::Values;
use kernels_simd::linear_cross_entropy::{self, Wanted};
use kernels_simd::linear_divergence::{self, Found, Head};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::LinearDivergence(Launch(OpLaunch::of::<LinearDivergence, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::LinearDivergence(_)),
    ..BASE
};

impl FusedKernel<LinearDivergence> for Flex {
    fn forward(
        operands: Tensors<LinearDivergence, Self>,
        wanted: Option<&Each<bool>>,
    ) -> MadeOn<Self> {
        checked(operands.dtype());
        let found = found(&operands, wanted.map_or_else(Wanted::default, asked));
        let made = Made::new(tensor(found.sum, Shape::new([1])));
        match wanted {
            None => made,
            Some(_) => {
                let each = tensor(found.each, operands.factors().layout().shape().clone());
                made.saving([each].into_iter().chain(kept(&operands, found.gradients)))
            }
        }
    }

    fn backward(backward: BackwardOn<LinearDivergence, Self>) -> Gradients<LinearDivergence, Self> {
        let dtype = checked(backward.operands().dtype());
        let (operands, dy, saved, _, wanted) = backward.into_parts();
        let dy = dy.to_contiguous();
        let [each, hidden, weight, bias] = array(saved);
        let mut gradients = [hidden, weight, bias];
        let asked = asked(&wanted);
        let flags = [asked.hidden, asked.weight, asked.bias];
        let mut places = flags.iter().zip(&gradients);
        // The forward pass keeps no gradient that was not wanted then.
        if places.any(|(wanted, kept)| *wanted && is_nothing(kept)) {
            gradients = kept(&operands, found(&operands, asked).gradients);
        }
        let mut finish = gradients
            .into_iter()
            .zip(flags)
            .map(|(kept, wanted)| match wanted {
                true => Some(finished(contiguous(kept), &dy, dtype)),
                false => None,
            });
        let [hidden, weight, bias] = std::array::from_fn(|_| finish.next().flatten());
        Each {
            hidden,
            weight: weight.map(|weight| weight.transpose(0, 1)),
            bias,
            teacher_hidden: None,
            teacher_weight: None,
            teacher_bias: None,
            factors: match wanted.factors {
                true => Some(finished(contiguous(each), &dy, compute_dtype(dtype))),
                false => None,
            },
        }
    }
}

fn asked(wanted: &Each<bool>) -> Wanted {
    Wanted {
        hidden: wanted.hidden,
        weight: wanted.weight,
        bias: wanted.bias,
    }
}

/// Returns a contiguous tensor: the tensor itself, whose memory nothing else holds then, or a copy.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    match tensor.is_contiguous() {
        true => tensor,
        false => tensor.to_contiguous(),
    }
}

/// Returns whether nothing was kept in the place of a gradient.
fn is_nothing(kept: &FlexTensor) -> bool {
    kept.layout().shape().as_slice() == [0]
}

/// Makes tensors of the gradients to keep, of hidden states, weight and bias.
fn kept(
    operands: &Operands<FlexTensor>,
    gradients: linear_cross_entropy::Gradients,
) -> [FlexTensor; 3] {
    let wide = compute_dtype(operands.hidden().dtype());
    let sizes = operands.sizes();
    let ([width, _], [classes, _]) = (sizes.widths, sizes.classes);
    let kept = |values: Option<Values>, shape: Shape| match values {
        Some(values) => tensor(values, shape),
        None => empty([0], wide),
    };
    [
        kept(gradients.hidden, Shape::new([sizes.tokens, width])),
        kept(gradients.weight, Shape::new([classes, width])),
        kept(gradients.bias, Shape::new([classes])),
    ]
}

fn found(operands: &Operands<FlexTensor>, wanted: Wanted) -> Found {
    let [hidden, teacher_hidden, factors] = [
        operands.hidden(),
        operands.teacher_hidden(),
        operands.factors(),
    ]
    .map(FlexTensor::to_contiguous);
    let weights = [operands.weight(), operands.teacher_weight()].map(readable);
    let biases = [operands.bias(), operands.teacher_bias()];
    let biases = biases.map(|bias| bias.map(FlexTensor::to_contiguous));
    let settings = operands.settings();
    let head = |at: usize, hidden, cap| Head {
        hidden: view(hidden),
        weight: view(&weights[at]),
        bias: biases[at].as_ref().map(view),
        cap,
    };
    let operands = linear_divergence::Operands {
        student: head(0, &hidden, settings.cap),
        teacher: head(1, &teacher_hidden, settings.teacher_cap),
        factors: view(&factors),
        mixture: settings.mixture,
        temperature: settings.temperature,
    };
    linear_divergence::forward(&operands, wanted)
}
