use super::super::Routing;
use super::scores::{divisor, dot, score, softmax};
use crate::cpu::{Element, Kernel, Output, Real, Rows, run};
use crate::ops::moe::integers;
use crate::semantics::{RouterKey, Scoring};
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use std::mem::MaybeUninit;
use std::ops::Range;

pub(super) fn backward<T, W>(
    dw: &FlexTensor,
    logits: &FlexTensor,
    indices: &FlexTensor,
    routing: &Routing,
) -> FlexTensor
where
    T: Element,
    W: Element<Acc = T::Acc>,
{
    let (dw, logits) = (Rows::<W>::readable(dw), Rows::<T>::readable(logits));
    let indices = integers::read(indices);
    let kernel = Backward::<T, W> {
        dw: Rows::new(&dw),
        logits: Rows::new(&logits),
        indices: &indices,
        routing,
    };
    let (tokens, experts) = (kernel.logits.count(), routing.num_experts());
    let mut d_logits = Output::<T>::new(Shape::new([tokens, experts]));
    run(&kernel, tokens, experts, [d_logits.places()], &mut []);
    // SAFETY: `Backward` writes one element an expert for every token, and `run` covers every
    // token.
    unsafe { d_logits.finish() }
}

struct Backward<'a, T, W> {
    dw: Rows<'a, W>,
    logits: Rows<'a, T>,
    /// `top_k` a token.
    indices: &'a [i64],
    routing: &'a Routing,
}

/// What is computed of one token after another.
struct Row<A> {
    /// Of all experts.
    scores: Vec<A>,
    d_logits: Vec<A>,
    /// Of those chosen.
    chosen: Vec<A>,
    d_chosen: Vec<A>,
}

impl<T, W> Kernel<1> for Backward<'_, T, W>
where
    T: Element,
    W: Element<Acc = T::Acc>,
{
    type Out = T;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [d_logits]: [&mut [MaybeUninit<T>]; 1],
        _: &mut [MaybeUninit<()>],
    ) {
        let (experts, k) = (self.routing.num_experts(), self.routing.top_k());
        let (key, scale) = (self.routing.key(), T::Acc::of(self.routing.scale()));
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
        for (i, ((dw, logits), indices)) in tokens.enumerate() {
            row.score(logits, indices, key);
            for (d, g) in row.d_chosen.iter_mut().zip(dw) {
                *d = g.load() * scale;
            }
            row.undo_renormalisation(key);
            row.undo_scoring(indices, key);
            let places = &mut d_logits[i * experts..(i + 1) * experts];
            for (place, d) in places.iter_mut().zip(&row.d_logits) {
                place.write(T::round(*d));
            }
        }
    }
}

impl<A: Real> Row<A> {
    /// All scores, and those of the chosen experts.
    #[inline(always)]
    fn score<T: Element<Acc = A>>(&mut self, logits: &[T], indices: &[i64], key: RouterKey) {
        score(logits, key.scoring, &mut self.scores);
        for (chosen, expert) in self.chosen.iter_mut().zip(indices) {
            *chosen = self.scores[*expert as usize];
        }
        if key.scoring == Scoring::SoftmaxOfChosen {
            softmax(&mut self.chosen);
        }
    }

    /// From the gradients of weights to those of scores.
    #[inline(always)]
    fn undo_renormalisation(&mut self, key: RouterKey) {
        if let Some(sum) = divisor(&self.chosen, key.renormalise) {
            let along = dot(&self.d_chosen, &self.chosen) / sum;
            for d in &mut self.d_chosen {
                *d = (*d - along) / sum;
            }
        }
    }

    /// From the gradients of the chosen experts' scores to those of all logits.
    #[inline(always)]
    fn undo_scoring(&mut self, indices: &[i64], key: RouterKey) {
        let along = dot(&self.d_chosen, &self.chosen);
        for (d, score) in self.d_logits.iter_mut().zip(&self.scores) {
            *d = match key.scoring {
                Scoring::Softmax => -(*score * along),
                Scoring::Sigmoid | Scoring::SoftmaxOfChosen => A::ZERO,
            };
        }
        let chosen = indices.iter().zip(&self.chosen).zip(&self.d_chosen);
        for ((expert, score), d) in chosen {
            self.d_logits[*expert as usize] = match key.scoring {
                Scoring::Softmax | Scoring::SoftmaxOfChosen => *score * (*d - along),
                Scoring::Sigmoid => *d * (*score * (A::ONE - *score)),
            };
        }
    }
}
