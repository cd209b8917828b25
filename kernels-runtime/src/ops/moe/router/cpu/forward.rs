use super::super::Routing;
use super::choose::Chooser;
use super::scores::{divisor, score, softmax};
use crate::cpu::{Element, Kernel, Real, Rows, run};
use crate::ops::moe::integers;
use crate::semantics::{Correction, Scoring};
use burn::backend::flex::FlexTensor;
use burn::tensor::{IntDType, TensorData};
use std::mem::MaybeUninit;
use std::ops::Range;

pub(super) fn forward<T, W>(
    logits: &FlexTensor,
    bias: &FlexTensor,
    routing: &Routing,
    ints: IntDType,
) -> (FlexTensor, FlexTensor)
where
    T: Element,
    W: Element<Acc = T::Acc>,
{
    // No correction adds nothing.
    let bias = match routing.key().correction {
        Correction::None => vec![T::Acc::ZERO; routing.num_experts()],
        Correction::Bias => bias.to_contiguous().storage().to_vec(),
    };
    let readable = Rows::<T>::readable(logits);
    let kernel = Forward {
        logits: Rows::<T>::new(&readable),
        bias: &bias,
        routing,
    };
    let (tokens, k) = (kernel.logits.count(), routing.top_k());
    let mut weights = Vec::with_capacity(tokens * k);
    let mut indices = Vec::with_capacity(tokens * k);
    for chunk in run(&kernel, tokens, routing.num_experts(), [], &mut []) {
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

/// What a range of tokens yields: `top_k` of each a token.
struct Choices<A> {
    weights: Vec<A>,
    indices: Vec<i64>,
}

impl<T: Element> Kernel<0> for Forward<'_, T> {
    type Out = ();
    type PerRow = ();
    type Sum = Choices<T::Acc>;

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        _: [&mut [MaybeUninit<()>]; 0],
        _: &mut [MaybeUninit<()>],
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
