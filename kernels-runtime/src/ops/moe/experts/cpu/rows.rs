//! Tokens to rows and back.

use super::super::super::product::Gemm;
use super::super::super::sort::Groups;
use crate::cpu::{Element, Output};
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// The tokens of `slots`, one a row, in the accumulation type.
pub(super) fn gather<T: Element>(
    tokens: &[T],
    hidden: usize,
    slots: &[u32],
    choices: usize,
) -> Vec<T::Acc> {
    let mut rows = Vec::with_capacity(slots.len() * hidden);
    pulp::Arch::new().dispatch(Gather {
        tokens,
        hidden,
        slots,
        choices,
        rows: &mut rows,
    });
    rows
}

struct Gather<'a, T: Element> {
    tokens: &'a [T],
    hidden: usize,
    slots: &'a [u32],
    choices: usize,
    rows: &'a mut Vec<T::Acc>,
}

impl<T: Element> pulp::WithSimd for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for slot in self.slots {
            let start = *slot as usize / self.choices * self.hidden;
            let token = &self.tokens[start..start + self.hidden];
            self.rows.extend(token.iter().map(|value| value.load()));
        }
    }
}

/// Tokens that a thread takes at a time.
const TOKENS: usize = 16;

/// `[T, H]`, each token the sum of its rows, times their weights if there are any, in the order
/// of its choices, rounded once.
pub(super) fn combine<T: Element>(
    rows: &[T::Acc],
    hidden: usize,
    groups: &Groups,
    choices: usize,
    tokens: usize,
    weights: Option<&[T::Acc]>,
) -> FlexTensor
where
    T::Acc: Gemm,
{
    let mut out = Output::<T>::new(Shape::new([tokens, hidden]));
    let places = out.places();
    let arch = pulp::Arch::new();
    if hidden > 0 {
        let work = |(chunk, places): (usize, &mut [MaybeUninit<T>])| {
            let combine = Combine {
                rows,
                hidden,
                groups,
                choices,
                first: chunk * TOKENS,
                weights,
                places,
            };
            arch.dispatch(combine);
        };
        places
            .par_chunks_mut(TOKENS * hidden)
            .enumerate()
            .for_each(work);
    }
    // SAFETY: the chunks are all places, and `Combine` writes every place of its chunk.
    unsafe { out.finish() }
}

struct Combine<'a, T: Element> {
    rows: &'a [T::Acc],
    hidden: usize,
    groups: &'a Groups,
    choices: usize,
    first: usize,
    weights: Option<&'a [T::Acc]>,
    places: &'a mut [MaybeUninit<T>],
}

impl<T: Element> pulp::WithSimd for Combine<'_, T>
where
    T::Acc: Gemm,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let mut sum = vec![<T::Acc as Gemm>::ZERO; self.hidden];
        for (token, places) in self.places.chunks_exact_mut(self.hidden).enumerate() {
            sum.fill(Gemm::ZERO);
            let slots = (self.first + token) * self.choices;
            for slot in slots..slots + self.choices {
                let row = self.groups.rows()[slot];
                if row == Groups::SKIPPED {
                    continue;
                }
                let start = row as usize * self.hidden;
                let row = &self.rows[start..start + self.hidden];
                match self.weights {
                    Some(weights) => {
                        let weight = weights[slot];
                        for (sum, value) in sum.iter_mut().zip(row) {
                            *sum += weight * *value;
                        }
                    }
                    None => {
                        for (sum, value) in sum.iter_mut().zip(row) {
                            *sum += *value;
                        }
                    }
                }
            }
            for (place, sum) in places.iter_mut().zip(&sum) {
                place.write(T::round(*sum));
            }
        }
    }
}

/// Adds a bias to every row.
pub(super) fn add_bias<A: Gemm>(rows: &mut [A], bias: &[A]) {
    if bias.is_empty() {
        return;
    }
    for row in rows.chunks_exact_mut(bias.len()) {
        row.iter_mut()
            .zip(bias)
            .for_each(|(value, bias)| *value += *bias);
    }
}
