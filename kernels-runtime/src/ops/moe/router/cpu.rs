//! Routing on Flex: one pass over each row of logits, which keeps the best experts as it goes.

use super::largest::{Largest, nan_as_largest};
use super::{RouterBackend, RouterKernel, Routing};
use crate::cpu::{Element, Kernel, Output, Real, Rows, dispatch_dtype, run, sum_of};
use crate::ops::moe::integers;
use crate::semantics::{Correction, Grouping, Renormalise, RouterWeights, Scoring};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use burn::tensor::{IntDType, TensorData};
use std::mem::MaybeUninit;
use std::ops::Range;

impl RouterBackend for Flex {
    fn route(
        logits: FlexTensor,
        bias: FlexTensor,
        routing: Routing,
        ints: IntDType,
    ) -> (FlexTensor, FlexTensor) {
        let (weights, (indices, shape)) = dispatch_dtype!(logits.dtype(), T => match routing.key().weights {
            RouterWeights::Logits => forward::<T, T>(&logits, &bias, &routing),
            RouterWeights::Wide => {
                forward::<T, <T as Element>::Acc>(&logits, &bias, &routing)
            }
        });
        (weights, integers::tensor(indices, shape, ints))
    }
}

impl RouterKernel for Flex {
    fn route_backward(
        dw: FlexTensor,
        logits: FlexTensor,
        indices: FlexTensor,
        routing: Routing,
    ) -> FlexTensor {
        dispatch_dtype!(logits.dtype(), T => match routing.key().weights {
            RouterWeights::Logits => backward::<T, T>(&dw, &logits, &indices, &routing),
            RouterWeights::Wide => {
                backward::<T, <T as Element>::Acc>(&dw, &logits, &indices, &routing)
            }
        })
    }
}

/// The scores of a row, in `scores`: of a softmax of the chosen experts there are none yet, and it
/// is the logits.
#[inline(always)]
fn score<T: Element>(logits: &[T], scoring: Scoring, scores: &mut [T::Acc]) {
    for (score, logit) in scores.iter_mut().zip(logits) {
        *score = logit.load();
    }
    match scoring {
        Scoring::Softmax => softmax(scores),
        Scoring::Sigmoid => {
            for score in scores {
                *score = T::Acc::ONE / (T::Acc::ONE + (-*score).exp());
            }
        }
        Scoring::SoftmaxOfChosen => {}
    }
}

/// A NaN makes everything NaN, and so does a maximum of ±∞.
#[inline(always)]
fn softmax<A: Real>(values: &mut [A]) {
    let largest = values.iter().fold(
        A::of(f64::NEG_INFINITY),
        |max, v| if *v > max { *v } else { max },
    );
    for value in values.iter_mut() {
        *value = (*value - largest).exp();
    }
    let sum = total(values);
    for value in values {
        *value = *value / sum;
    }
}

#[inline(always)]
fn total<A: Real>(values: &[A]) -> A {
    sum_of(values, values, values, |_, _, value| value)
}

/// What renormalisation divides by.
#[inline(always)]
fn divisor<A: Real>(scores: &[A], renormalise: Renormalise) -> Option<A> {
    match renormalise {
        Renormalise::None => None,
        Renormalise::Sum => Some(total(scores) + A::of(1e-20)),
    }
}

/// The weights, and the experts with their shape.
fn forward<T, W>(
    logits: &FlexTensor,
    bias: &FlexTensor,
    routing: &Routing,
) -> (FlexTensor, (Vec<i64>, [usize; 2]))
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
    let rows = Rows::<T>::new(&readable);
    let (tokens, experts, k) = (rows.count(), routing.num_experts(), routing.top_k());
    let kernel = Forward::<T, W> {
        rows,
        bias: &bias,
        routing,
        weights: std::marker::PhantomData,
    };
    let mut weights = Vec::with_capacity(tokens * k);
    let mut indices = Vec::with_capacity(tokens * k);
    for chunk in run(&kernel, tokens, experts, [], &mut []) {
        weights.extend(chunk.weights);
        indices.extend(chunk.indices);
    }
    let weights = TensorData::new(weights, [tokens, k]);
    (FlexTensor::from_data(weights), (indices, [tokens, k]))
}

struct Forward<'a, T: Element, W> {
    rows: Rows<'a, T>,
    bias: &'a [T::Acc],
    routing: &'a Routing,
    weights: std::marker::PhantomData<fn() -> W>,
}

/// What a range of tokens yields: `top_k` of each a token.
struct Choices<W> {
    weights: Vec<W>,
    indices: Vec<i64>,
}

impl<T, W> Kernel<0> for Forward<'_, T, W>
where
    T: Element,
    W: Element<Acc = T::Acc>,
{
    type Out = ();
    type PerRow = ();
    type Sum = Choices<W>;

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        _: [&mut [MaybeUninit<()>]; 0],
        _: &mut [MaybeUninit<()>],
    ) -> Choices<W> {
        let (key, k) = (self.routing.key(), self.routing.top_k());
        let scale = T::Acc::of(self.routing.scale());
        let mut choices = Choices {
            weights: Vec::with_capacity(range.len() * k),
            indices: Vec::with_capacity(range.len() * k),
        };
        let mut scores = vec![T::Acc::ZERO; self.routing.num_experts()];
        let mut chooser = Chooser::new(self.routing);
        let mut chosen = Vec::with_capacity(k);
        for logits in self.rows.range(range) {
            score(logits, key.scoring, &mut scores);
            if self.routing.chooses_by_logits() {
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
            for score in &chosen {
                let weight = divisor.map_or(*score, |sum| *score / sum);
                choices.weights.push(W::round(weight * scale));
            }
            let indices = chooser.chosen.indices().map(|expert| expert as i64);
            choices.indices.extend(indices);
        }
        choices
    }
}

/// Chooses experts, one token after another.
struct Chooser<'a, A> {
    routing: &'a Routing,
    /// What experts are compared by, without NaN.
    compared: Vec<A>,
    groups: Largest<A>,
    chosen: Largest<A>,
}

impl<'a, A: Real> Chooser<'a, A> {
    fn new(routing: &'a Routing) -> Self {
        let groups = routing.group_limit().map_or(1, |(_, chosen)| chosen);
        Self {
            routing,
            compared: vec![A::ZERO; routing.num_experts()],
            groups: Largest::new(groups),
            chosen: Largest::new(routing.top_k()),
        }
    }

    /// Leaves the experts of one token in `self.chosen`.
    #[inline(always)]
    fn choose(&mut self, values: impl Iterator<Item = A>) {
        for (compared, value) in self.compared.iter_mut().zip(values) {
            *compared = nan_as_largest(value);
        }
        self.chosen.clear();
        let Some((groups, _)) = self.routing.group_limit() else {
            for (expert, value) in self.compared.iter().enumerate() {
                self.chosen.offer(*value, expert);
            }
            return;
        };
        let size = self.compared.len() / groups;
        self.groups.clear();
        for (group, members) in self.compared.chunks_exact(size).enumerate() {
            let score = group_score(members, self.routing.key().grouping);
            self.groups.offer(nan_as_largest(score), group);
        }
        // Ascending, so that of equal experts the lower index is offered first.
        self.groups.sort_by_index();
        for group in self.groups.indices() {
            for expert in group * size..(group + 1) * size {
                self.chosen.offer(self.compared[expert], expert);
            }
        }
    }
}

#[inline(always)]
fn group_score<A: Real>(members: &[A], grouping: Grouping) -> A {
    let mut first = A::of(f64::NEG_INFINITY);
    let mut second = first;
    for value in members {
        if *value > first {
            (first, second) = (*value, first);
        } else if *value > second {
            second = *value;
        }
    }
    match grouping {
        Grouping::TopTwo => first + second,
        Grouping::Max | Grouping::None => first,
    }
}

fn backward<T, W>(
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
        let key = self.routing.key();
        let (experts, k) = (self.routing.num_experts(), self.routing.top_k());
        let scale = T::Acc::of(self.routing.scale());
        let mut scores = vec![T::Acc::ZERO; experts];
        let mut chosen = vec![T::Acc::ZERO; k];
        let mut d_chosen = vec![T::Acc::ZERO; k];
        let mut d_row = vec![T::Acc::ZERO; experts];
        let tokens = self
            .dw
            .range(range.clone())
            .zip(self.logits.range(range.clone()))
            .zip(self.indices[range.start * k..range.end * k].chunks_exact(k));
        for (i, ((dw, logits), indices)) in tokens.enumerate() {
            score(logits, key.scoring, &mut scores);
            for (chosen, expert) in chosen.iter_mut().zip(indices) {
                *chosen = scores[*expert as usize];
            }
            if key.scoring == Scoring::SoftmaxOfChosen {
                softmax(&mut chosen);
            }
            for (d, g) in d_chosen.iter_mut().zip(dw) {
                *d = g.load() * scale;
            }
            if let Some(sum) = divisor(&chosen, key.renormalise) {
                let along = dot(&d_chosen, &chosen) / sum;
                for d in &mut d_chosen {
                    *d = (*d - along) / sum;
                }
            }
            let along = dot(&d_chosen, &chosen);
            // Of a softmax over all, what every expert has in common.
            for (d, score) in d_row.iter_mut().zip(&scores) {
                *d = match key.scoring {
                    Scoring::Softmax => -(*score * along),
                    Scoring::Sigmoid | Scoring::SoftmaxOfChosen => T::Acc::ZERO,
                };
            }
            for ((expert, score), d) in indices.iter().zip(&chosen).zip(&d_chosen) {
                d_row[*expert as usize] = match key.scoring {
                    Scoring::Softmax | Scoring::SoftmaxOfChosen => *score * (*d - along),
                    Scoring::Sigmoid => *d * (*score * (T::Acc::ONE - *score)),
                };
            }
            let places = &mut d_logits[i * experts..(i + 1) * experts];
            for (place, d) in places.iter_mut().zip(&d_row) {
                place.write(T::round(*d));
            }
        }
    }
}

#[inline(always)]
fn dot<A: Real>(left: &[A], right: &[A]) -> A {
    sum_of(left, right, right, |l, _, r| l * r)
}
