use super::super::{Operands, Routing};
use super::choose::Chooser;
use super::scores::{divisor, score, softmax};
use crate::cpu::{Context, Element, Kernel, Output, Real, Rows, Unwritten, contiguous, run_plain};
use crate::ops::moe::integers;
use crate::semantics::Scoring;
use burn::backend::flex::FlexTensor;
use burn::tensor::TensorData;
use std::ops::Range;

pub(super) fn forward<T, W>(operands: &Operands<FlexTensor>) -> (FlexTensor, FlexTensor)
where
    T: Element,
    W: Element<Acc = T::Acc>,
{
    let (routing, ints) = (operands.routing(), operands.ints());
    // A missing correction is a correction by zeros.
    let bias = match operands.bias() {
        None => vec![T::Acc::ZERO; routing.num_experts()],
        Some(bias) => contiguous(&bias.to_contiguous()).to_vec(),
    };
    let readable = Rows::<T>::readable(operands.logits());
    let kernel = Forward {
        logits: Rows::<T>::new(&readable),
        bias: &bias,
        routing: &routing,
    };
    let (tokens, k) = (kernel.logits.count(), routing.top_k());
    let mut weights = Vec::with_capacity(tokens * k);
    let mut indices = Vec::with_capacity(tokens * k);
    let none = &mut Output::none();
    for chunk in run_plain(&kernel, tokens, routing.num_experts(), [], none) {
        weights.extend(chunk.weights.into_iter().map(W::round));
        indices.extend(chunk.indices);
    }
    (
        FlexTensor::from_data(TensorData::new(weights, [tokens, k])),
        integers::tensor(indices, [tokens, k], ints),
    )
}

struct Forward<'a, T: Element> {
    logits: Rows<'a, T>,
    bias: &'a [T::Acc],
    routing: &'a Routing,
}

/// The results of a range of tokens, `top_k` weights and indices for each token.
struct Choices<A> {
    weights: Vec<A>,
    indices: Vec<i64>,
}

impl<T: Element> Kernel<0> for Forward<'_, T> {
    type Out = ();
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = Choices<T::Acc>;

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        _: [Unwritten<'_, ()>; 0],
        _: Unwritten<'_, ()>,
    ) -> Choices<T::Acc> {
        let routing = self.routing;
        let (key, k) = (routing.key(), routing.top_k());
        let scale = T::Acc::of(routing.scale());
        let mut choices = Choices {
            weights: Vec::with_capacity(range.len() * k),
            indices: Vec::with_capacity(range.len() * k),
        };
        let mut scores = vec![T::Acc::ZERO; routing.num_experts()];
        let mut chooser = Chooser::new(routing);
        let mut chosen = Vec::with_capacity(k);
        for logits in self.logits.range(range) {
            score(logits, key.scoring, &mut scores);
            if routing.chooses_by_logits() {
                chooser.choose(logits.iter().map(|logit| logit.load()));
            } else {
                let corrected = scores.iter().zip(self.bias);
                chooser.choose(corrected.map(|(score, bias)| *score + *bias));
            }
            chosen.clear();
            chosen.extend(chooser.chosen.indices().map(|expert| scores[expert]));
            if key.scoring == Scoring::SoftmaxOfChosen {
                softmax(&mut chosen);
            }
            let divisor = divisor(&chosen, key.renormalise);
            let weights = chosen.iter().map(|score| match divisor {
                None => *score * scale,
                Some(sum) => *score / sum * scale,
            });
            choices.weights.extend(weights);
            let indices = chooser.chosen.indices().map(|expert| expert as i64);
            choices.indices.extend(indices);
        }
        choices
    }
}
