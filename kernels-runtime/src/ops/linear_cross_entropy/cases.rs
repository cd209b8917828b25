use super::{Inputs, fused, reference};
use crate::ops::cross_entropy::cases::{has_loss, keys, settings, targets, terms};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{LinearCrossEntropyKey, OutputLayout, SemanticsKey, Shift};
use crate::verify::case::{Case, Computation, Computed, Variant};
use burn::tensor::Tensor;

/// A linear cross-entropy of hidden states. Tokens are all axes but the last.
#[derive(Clone, Copy)]
struct LinearCrossEntropy {
    key: LinearCrossEntropyKey,
}

/// The number of classes of a case.
const CLASSES: usize = 37;

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let layouts = [OutputLayout::OutputMajor, OutputLayout::InputMajor];
    let forms = layouts
        .into_iter()
        .flat_map(|layout| [(layout, Shift::None), (layout, Shift::Bias)]);
    forms.flat_map(|(layout, shift)| {
        keys().flat_map(move |loss| {
            let key = LinearCrossEntropyKey {
                reduction: loss.reduction,
                cap: loss.cap,
                layout,
                shift,
            };
            let all = Case::on_every_shape(LinearCrossEntropy { key }, false);
            all.filter(move |case| has_loss(key.reduction, case.shape()))
        })
    })
}

impl Variant for LinearCrossEntropy {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let (leaf, hidden) = at.leaf("hidden", shape);
        let [a, b, c, width] = shape;
        let tokens = a * b * c;
        let axes = match self.key.layout {
            OutputLayout::OutputMajor => [CLASSES, width],
            OutputLayout::InputMajor => [width, CLASSES],
        };
        let weight: Tensor<2> = at.plain("weight", axes).require_grad();
        let bias: Tensor<1> = at.plain("bias", [CLASSES]).require_grad();
        let shifted = self.key.shift == Shift::Bias;
        let inputs = Inputs {
            hidden: hidden.flatten(0, 2),
            weight: weight.clone(),
            bias: shifted.then(|| bias.clone()),
            targets: targets(tokens, CLASSES, at),
        };
        let settings = settings(self.key.cap);
        let loss = match at.fused {
            true => fused(inputs, settings, self.key)?,
            false => reference(inputs, settings, self.key),
        };
        let [elements] = loss.dims();
        let dy = at.plain("dy", [elements]).cast(loss.dtype());
        let grads = (loss.clone() * dy).sum().backward();
        let [x, w] = [at.largest("hidden", shape), at.largest("weight", axes)];
        let products = x * w * width as f64;
        let logits = products + at.largest("bias", [CLASSES]);
        let [terms, gradient] = terms(logits, CLASSES, settings);
        let of_logits = gradient * at.largest("dy", [elements]);
        // Both gradients are sums of products with rounded factors: on bf16, instructions multiply such.
        let mut results = vec![
            Computed::new("loss", Some(loss)).sum_of(terms * tokens as f64),
            Computed::new("d_hidden", leaf.grad(&grads)).sum_of_rounded(of_logits * w),
            Computed::new("d_weight", weight.grad(&grads)).sum_of_rounded(of_logits * x),
        ];
        if shifted {
            let terms = of_logits * tokens as f64;
            results.push(Computed::new("d_bias", bias.grad(&grads)).sum_of(terms));
        }
        Ok(results)
    }
}
