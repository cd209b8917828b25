use super::choose::Chooser;
use super::scores::{divisor, score, softmax};
use super::{Routed, Settings};
use crate::keys::{Grouping, Scoring};
use crate::{Context, Element, Kernel, Output, Real, Rows, Unwritten, View, run_plain};
use std::ops::Range;

pub(super) fn forward<T, W>(
    logits: &View<'_>,
    bias: Option<&View<'_>>,
    settings: &Settings,
) -> Routed
where
    T: Element,
    W: Element<Acc = T::Acc>,
{
    let (tokens, k) = (settings.check(logits), settings.top_k);
    // A missing correction is a correction by zeros.
    let zeros: Vec<T::Acc>;
    let corrections = match bias {
        None => {
            zeros = vec![T::Acc::ZERO; settings.experts];
            &zeros
        }
        Some(bias) => bias.contiguous(),
    };
    assert!(
        corrections.len() == settings.experts,
        "router: the bias has {} elements, but there are {} experts",
        corrections.len(),
        settings.experts
    );
    let kernel = Forward {
        logits: Rows::<T>::of(logits),
        bias: corrections,
        chooses_by_logits: bias.is_none() && settings.grouping != Grouping::TopTwo,
        settings,
    };
    let mut weights = Vec::with_capacity(tokens * k);
    let mut indices = Vec::with_capacity(tokens * k);
    let none = &mut Output::none();
    for chunk in run_plain(&kernel, tokens, settings.experts, [], none) {
        weights.extend(chunk.weights.into_iter().map(W::round));
        indices.extend(chunk.indices);
    }
    Routed {
        weights: W::values(weights),
        indices,
    }
}

struct Forward<'a, T: Element> {
    logits: Rows<'a, T>,
    bias: &'a [T::Acc],
    /// True if experts are compared by their logits. Logits have the same order as scores without a correction or a sum of
    /// two, but distinguish more values.
    chooses_by_logits: bool,
    settings: &'a Settings,
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
        let settings = self.settings;
        let k = settings.top_k;
        let scale = T::Acc::of(settings.scale);
        let mut choices = Choices {
            weights: Vec::with_capacity(range.len() * k),
            indices: Vec::with_capacity(range.len() * k),
        };
        let mut scores = vec![T::Acc::ZERO; settings.experts];
        let mut chooser = Chooser::new(settings);
        let mut chosen = Vec::with_capacity(k);
        for logits in self.logits.range(range) {
            score(logits, settings.scoring, &mut scores);
            if self.chooses_by_logits {
                chooser.choose(logits.iter().map(|logit| logit.load()));
            } else {
                let corrected = scores.iter().zip(self.bias);
                chooser.choose(corrected.map(|(score, bias)| *score + *bias));
            }
            chosen.clear();
            chosen.extend(chooser.chosen.indices().map(|expert| scores[expert]));
            if settings.scoring == Scoring::SoftmaxOfChosen {
                softmax(&mut chosen);
            }
            let divisor = divisor(&chosen, settings.renormalise);
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
