//! The kernels of a router. A cube has one token, and its units share the experts.
//! An expert is chosen `choices` times, always the first of those after the last choice in the order of values and places.
//! That needs no list of the experts that are taken, so that there may be any number of experts.

use crate::gpu::parts::{largest_of_cube, sum_of_cube};
use crate::semantics::{Grouping, Renormalise, Scoring};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The least finite number in f32, at which maxima start: negative infinity minus it is no NaN.
const LEAST: f32 = f32::MIN;

/// The place of no expert.
const NOBODY: u32 = u32::MAX;

/// The addend of a sum that weights are divided by.
const ABOVE_ZERO: f32 = 1e-20;

/// The variant of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    pub(super) scoring: Scoring,
    /// True if experts are compared by their logits, and else by their scores.
    pub(super) by_logits: bool,
    pub(super) grouping: Grouping,
    pub(super) renormalise: Renormalise,
}

/// The numbers of a call.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Numbers {
    tokens: usize,
    experts: usize,
    /// The number of experts that a token chooses.
    choices: usize,
    /// The number of experts of a group.
    size: usize,
    scale: f32,
    infinity: f32,
    /// No number: the gradients of a token with an index that is no expert's.
    nan: f32,
}

/// The numbers that a softmax subtracts and divides by.
#[derive(CubeType)]
struct Norm {
    largest: f32,
    sum: f32,
}

/// Writes the experts of one token and their weights.
#[cube(launch_unchecked)]
pub(super) fn choose<E: Float, W: Float>(
    logits: &[E],
    bias: ComptimeOption<&[f32]>,
    open: ComptimeOption<&[i32]>,
    weights: &mut [W],
    indices: &mut [i32],
    numbers: &Numbers,
    #[comptime] terms: Terms,
    #[comptime] units: usize,
    #[define(E, W)] _elements: [ElemType; 2],
) {
    let token = CUBE_POS;
    if token >= numbers.tokens {
        terminate!();
    }
    let (experts, choices) = (numbers.experts, numbers.choices);
    let (start, first) = (token * experts, token * choices);
    let norm = norm_of_row(logits, start, experts, comptime!(terms.scoring), units);
    let mut last = 0.0f32;
    let mut last_place = NOBODY.runtime();
    for choice in 0..choices {
        let mut best = 0.0f32;
        let mut place = NOBODY.runtime();
        let mut expert = UNIT_POS as usize;
        while expert < experts {
            let value = compared(logits, bias, start, expert, &norm, numbers, terms);
            let mut is_free = choice == 0 || is_before(last, last_place, value, expert as u32);
            if comptime!(open.is_some()) {
                let group = (start + expert) / numbers.size;
                is_free = is_free && open.unwrap()[group] == 1;
            }
            if is_free && is_before(value, expert as u32, best, place) {
                best = value;
                place = expert as u32;
            }
            expert += units;
        }
        let (value, chosen) = first_of_cube(best, place, units);
        last = value;
        last_place = chosen;
        if UNIT_POS == 0 {
            indices[first + choice] = chosen as i32;
        }
    }
    // The unit that wrote the choice reads it.
    if UNIT_POS == 0 {
        let norm = norm_of_chosen(logits, &*indices, start, first, &norm, numbers, terms);
        let sum = sum_of_chosen(logits, &*indices, start, first, &norm, numbers, terms);
        for choice in 0..choices {
            let at = first + choice;
            let s = chosen_score(logits, &*indices, start, at, &norm, numbers, terms);
            weights[at] = W::cast_from(s / sum * numbers.scale);
        }
    }
}

/// Writes the score of each group of one token.
#[cube(launch_unchecked)]
pub(super) fn score_groups<E: Float>(
    logits: &[E],
    bias: ComptimeOption<&[f32]>,
    scores: &mut [f32],
    numbers: &Numbers,
    #[comptime] terms: Terms,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    let token = CUBE_POS;
    if token >= numbers.tokens {
        terminate!();
    }
    let (experts, size) = (numbers.experts, numbers.size);
    let start = token * experts;
    let norm = norm_of_row(logits, start, experts, comptime!(terms.scoring), units);
    let groups = experts / size;
    let mut group = UNIT_POS as usize;
    while group < groups {
        let mut best = -numbers.infinity;
        let mut second = -numbers.infinity;
        for member in 0..size {
            let expert = group * size + member;
            let value = compared(logits, bias, start, expert, &norm, numbers, terms);
            let other = select(value > best, best, value);
            best = select(value > best, value, best);
            second = select(other > second, other, second);
        }
        if comptime!(terms.grouping == Grouping::TopTwo) {
            best += second;
        }
        scores[token * groups + group] = select(best.is_nan(), numbers.infinity, best);
        group += units;
    }
}

/// Writes 1 for the groups that a token chooses from, and 0 for others: a unit for each group of each token.
#[cube(launch_unchecked)]
pub(super) fn open_groups(
    scores: &[f32],
    open: &mut [i32],
    all: usize,
    groups: usize,
    chosen: usize,
) {
    let at = ABSOLUTE_POS;
    if at >= all {
        terminate!();
    }
    let group = at % groups;
    let (start, score) = (at - group, scores[at]);
    let mut before = 0usize.runtime();
    for other in 0..groups {
        let is_before = is_before(scores[start + other], other as u32, score, group as u32);
        before += select(is_before, 1usize, 0usize);
    }
    open[at] = select(before < chosen, 1i32, 0i32);
}

/// Writes the gradient of one token's logits.
#[cube(launch_unchecked)]
pub(super) fn backward<E: Float, W: Float>(
    dw: &[W],
    logits: &[E],
    indices: &[i32],
    d_logits: &mut [E],
    numbers: &Numbers,
    #[comptime] terms: Terms,
    #[comptime] units: usize,
    #[define(E, W)] _elements: [ElemType; 2],
) {
    let token = CUBE_POS;
    if token >= numbers.tokens {
        terminate!();
    }
    let (experts, choices) = (numbers.experts, numbers.choices);
    let (start, first) = (token * experts, token * choices);
    let norm = norm_of_row(logits, start, experts, comptime!(terms.scoring), units);
    let norm = norm_of_chosen(logits, indices, start, first, &norm, numbers, terms);
    let sum = sum_of_chosen(logits, indices, start, first, &norm, numbers, terms);
    // The product of the gradients of the weights and the scores, if the weights are divided by a sum.
    let mut along = 0.0f32;
    let mut are_experts = true.runtime();
    for choice in 0..choices {
        let at = first + choice;
        are_experts = are_experts && indices[at] >= 0 && indices[at] < experts as i32;
        if comptime!(terms.renormalise == Renormalise::Sum) {
            let s = chosen_score(logits, indices, start, at, &norm, numbers, terms);
            along += f32::cast_from(dw[at]) * numbers.scale * s;
        }
    }
    // The product of the gradients of the scores and the scores.
    let mut along_scores = 0.0f32;
    for choice in 0..choices {
        let at = first + choice;
        let s = chosen_score(logits, indices, start, at, &norm, numbers, terms);
        along_scores += (f32::cast_from(dw[at]) * numbers.scale - along / sum) / sum * s;
    }
    let mut expert = UNIT_POS as usize;
    while expert < experts {
        let logit = f32::cast_from(logits[start + expert]);
        let s = score(logit, &norm, comptime!(terms.scoring));
        let mut d = 0.0f32;
        if comptime!(terms.scoring == Scoring::Softmax) {
            d = -(s * along_scores);
        }
        // An expert may be there twice.
        for choice in 0..choices {
            let at = first + choice;
            let ds = (f32::cast_from(dw[at]) * numbers.scale - along / sum) / sum;
            let more = match comptime!(terms.scoring) {
                Scoring::Softmax => s * ds,
                Scoring::SoftmaxOfChosen => s * (ds - along_scores),
                Scoring::Sigmoid => ds * (s * (1.0 - s)),
            };
            d += select(indices[at] == expert as i32, more, 0.0);
        }
        d_logits[start + expert] = E::cast_from(select(are_experts, d, numbers.nan));
        expert += units;
    }
}

/// Returns the numbers of the softmax of a row, and others that are not used if there is none.
#[cube]
fn norm_of_row<E: Float>(
    logits: &[E],
    start: usize,
    experts: usize,
    #[comptime] scoring: Scoring,
    #[comptime] units: usize,
) -> Norm {
    let mut largest = 0.0f32;
    let mut sum = 1.0f32;
    if comptime!(scoring == Scoring::Softmax) {
        let mut most = LEAST.runtime();
        let mut at = UNIT_POS as usize;
        while at < experts {
            let logit = f32::cast_from(logits[start + at]);
            most = select(most < logit, logit, most);
            at += units;
        }
        largest = largest_of_cube(most, units);
        let mut powers = 0.0f32;
        let mut at = UNIT_POS as usize;
        while at < experts {
            powers += (f32::cast_from(logits[start + at]) - largest).exp();
            at += units;
        }
        sum = sum_of_cube(powers, units);
    }
    Norm { largest, sum }
}

/// Returns the numbers of the softmax of the chosen experts if there is one, and else the given ones.
#[cube]
fn norm_of_chosen<E: Float>(
    logits: &[E],
    indices: &[i32],
    start: usize,
    first: usize,
    norm: &Norm,
    numbers: &Numbers,
    #[comptime] terms: Terms,
) -> Norm {
    let mut largest = norm.largest;
    let mut sum = norm.sum;
    if comptime!(terms.scoring == Scoring::SoftmaxOfChosen) {
        let mut most = LEAST.runtime();
        for choice in 0..numbers.choices {
            let at = start + place(indices[first + choice], numbers.experts);
            let logit = f32::cast_from(logits[at]);
            most = select(most < logit, logit, most);
        }
        let mut powers = 0.0f32;
        for choice in 0..numbers.choices {
            let at = start + place(indices[first + choice], numbers.experts);
            let logit = f32::cast_from(logits[at]);
            powers += (logit - most).exp();
        }
        largest = most;
        sum = powers;
    }
    Norm { largest, sum }
}

/// Returns the number that the weights of a token are divided by.
#[cube]
fn sum_of_chosen<E: Float>(
    logits: &[E],
    indices: &[i32],
    start: usize,
    first: usize,
    norm: &Norm,
    numbers: &Numbers,
    #[comptime] terms: Terms,
) -> f32 {
    let mut sum = 1.0f32;
    if comptime!(terms.renormalise == Renormalise::Sum) {
        let mut scores = 0.0f32;
        for choice in 0..numbers.choices {
            scores += chosen_score(logits, indices, start, first + choice, norm, numbers, terms);
        }
        sum = scores + ABOVE_ZERO;
    }
    sum
}

#[cube]
fn chosen_score<E: Float>(
    logits: &[E],
    indices: &[i32],
    start: usize,
    at: usize,
    norm: &Norm,
    numbers: &Numbers,
    #[comptime] terms: Terms,
) -> f32 {
    let at = start + place(indices[at], numbers.experts);
    score(f32::cast_from(logits[at]), norm, comptime!(terms.scoring))
}

/// Returns the place of an expert in its row, and 0 for what is no expert.
#[cube]
fn place(index: i32, experts: usize) -> usize {
    let is_expert = index >= 0 && index < experts as i32;
    select(is_expert, index, 0i32) as usize
}

/// Returns the number that an expert is compared by. NaN counts as infinity.
#[cube]
fn compared<E: Float>(
    logits: &[E],
    bias: ComptimeOption<&[f32]>,
    start: usize,
    expert: usize,
    norm: &Norm,
    numbers: &Numbers,
    #[comptime] terms: Terms,
) -> f32 {
    let mut value = f32::cast_from(logits[start + expert]);
    if comptime!(!terms.by_logits) {
        value = score(value, norm, comptime!(terms.scoring));
        if comptime!(bias.is_some()) {
            value += bias.unwrap()[expert];
        }
    }
    select(value.is_nan(), numbers.infinity, value)
}

#[cube]
fn score(logit: f32, norm: &Norm, #[comptime] scoring: Scoring) -> f32 {
    match comptime!(scoring) {
        Scoring::Softmax | Scoring::SoftmaxOfChosen => (logit - norm.largest).exp() / norm.sum,
        Scoring::Sigmoid => {
            let small = (-f32::abs(logit)).exp();
            let positive = 1.0 / (1.0 + small);
            select(logit < 0.0, small * positive, positive)
        }
    }
}

/// Returns whether a value comes before another one: a larger one, or an equal one with a lower place. Every value comes
/// before that of nobody.
#[cube]
fn is_before(value: f32, place: u32, other: f32, other_place: u32) -> bool {
    let is_first = value > other || (value == other && place < other_place);
    place != NOBODY && (other_place == NOBODY || is_first)
}

/// Returns the first of the values of all units of the cube, with its place, to each of them.
#[cube]
fn first_of_cube(value: f32, place: u32, #[comptime] units: usize) -> (f32, u32) {
    let unit = UNIT_POS as usize;
    let mut values = Shared::<[f32]>::new_slice(units);
    let mut places = Shared::<[u32]>::new_slice(units);
    values[unit] = value;
    places[unit] = place;
    sync_cube();
    let mut left = comptime!(units / 2).runtime();
    while left > 0 {
        if unit < left {
            let (other, other_place) = (values[unit + left], places[unit + left]);
            if is_before(other, other_place, values[unit], places[unit]) {
                values[unit] = other;
                places[unit] = other_place;
            }
        }
        sync_cube();
        left /= 2;
    }
    let (first, first_place) = (values[0], places[0]);
    // The next choice writes where others still read.
    sync_cube();
    (first, first_place)
}
