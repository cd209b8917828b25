use super::Settings;
use super::scores::{divisor, dot, score, softmax};
use crate::keys::Scoring;
use crate::{Context, Element, Kernel, Output, Real, Rows, Unwritten, Values, View, run_plain};
use std::ops::Range;

pub(super) fn backward<T, W>(
    dw: &View<'_>,
    logits: &View<'_>,
    indices: &[i64],
    settings: &Settings,
) -> Values
where
    T: Element,
    W: Element<Acc = T::Acc>,
{
    let (tokens, experts) = (settings.check(logits), settings.experts);
    assert!(
        dw.sizes() == [tokens, settings.top_k] && dw.len() == indices.len(),
        "router: a gradient of sizes {:?} is not that of the weights of {tokens} tokens, for which {} experts were chosen",
        dw.sizes(),
        indices.len()
    );
    if let Some(index) = indices.iter().find(|index| !is_expert(**index, experts)) {
        panic!("router: {index} is the index of no expert; there are {experts}");
    }
    let kernel = Backward::<T, W> {
        dw: Rows::of(dw),
        logits: Rows::of(logits),
        indices,
        settings,
    };
    let mut d_logits = Output::<T>::new([tokens, experts]);
    let outputs = [&mut d_logits];
    run_plain(&kernel, tokens, experts, outputs, &mut Output::none());
    T::values(d_logits.into_values())
}

fn is_expert(index: i64, experts: usize) -> bool {
    usize::try_from(index).is_ok_and(|index| index < experts)
}

struct Backward<'a, T, W> {
    dw: Rows<'a, W>,
    logits: Rows<'a, T>,
    /// `top_k` indices for each token.
    indices: &'a [i64],
    settings: &'a Settings,
}

/// The buffers of one token.
struct Row<A> {
    /// The scores of all experts.
    scores: Vec<A>,
    d_logits: Vec<A>,
    /// The scores of the chosen experts.
    chosen: Vec<A>,
    d_chosen: Vec<A>,
}

impl<T, W> Kernel<1> for Backward<'_, T, W>
where
    T: Element,
    W: Element<Acc = T::Acc>,
{
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        [mut d_logits]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) {
        let settings = self.settings;
        let (experts, k) = (settings.experts, settings.top_k);
        let scale = T::Acc::of(settings.scale);
        let zeros = |count| vec![T::Acc::ZERO; count];
        let mut row = Row {
            scores: zeros(experts),
            d_logits: zeros(experts),
            chosen: zeros(k),
            d_chosen: zeros(k),
        };
        let tokens = self
            .dw
            .range(range.clone())
            .zip(self.logits.range(range.clone()))
            .zip(self.indices[range.start * k..range.end * k].chunks_exact(k));
        for ((dw, logits), indices) in tokens {
            row.score(logits, indices, settings);
            for (d, g) in row.d_chosen.iter_mut().zip(dw) {
                *d = g.load() * scale;
            }
            row.undo_renormalisation(settings);
            row.undo_scoring(indices, settings);
            let rounded = row.d_logits.iter().map(|d| T::round(*d));
            d_logits.row(experts).write(rounded);
        }
    }
}

impl<A: Real> Row<A> {
    /// Computes all scores, and selects those of the chosen experts.
    #[inline(always)]
    fn score<T: Element<Acc = A>>(&mut self, logits: &[T], indices: &[i64], settings: &Settings) {
        score(logits, settings.scoring, &mut self.scores);
        for (chosen, expert) in self.chosen.iter_mut().zip(indices) {
            *chosen = self.scores[*expert as usize];
        }
        if settings.scoring == Scoring::SoftmaxOfChosen {
            softmax(&mut self.chosen);
        }
    }

    /// Turns the gradients of weights into those of scores.
    #[inline(always)]
    fn undo_renormalisation(&mut self, settings: &Settings) {
        if let Some(sum) = divisor(&self.chosen, settings.renormalise) {
            let along = dot(&self.d_chosen, &self.chosen) / sum;
            for d in &mut self.d_chosen {
                *d = (*d - along) / sum;
            }
        }
    }

    /// Turns the gradients of the chosen experts' scores into those of all logits.
    #[inline(always)]
    fn undo_scoring(&mut self, indices: &[i64], settings: &Settings) {
        let along = dot(&self.d_chosen, &self.chosen);
        for (d, score) in self.d_logits.iter_mut().zip(&self.scores) {
            *d = match settings.scoring {
                Scoring::Softmax => -(*score * along),
                Scoring::Sigmoid | Scoring::SoftmaxOfChosen => A::ZERO,
            };
        }
        let chosen = indices.iter().zip(&self.chosen).zip(&self.d_chosen);
        // Added, since the caller's indices may contain an expert twice.
        for ((expert, score), d) in chosen {
            self.d_logits[*expert as usize] += match settings.scoring {
                Scoring::Softmax => *score * *d,
                Scoring::SoftmaxOfChosen => *score * (*d - along),
                Scoring::Sigmoid => *d * (*score * (A::ONE - *score)),
            };
        }
    }
}
