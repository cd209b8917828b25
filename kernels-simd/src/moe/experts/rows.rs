//! Moving tokens to rows and back.

use super::View;
use crate::lanes::vectorize;
use crate::moe::Groups;
use crate::product::Gemm;
use crate::{Element, Output, Unwritten, Values, share};
use std::ops::Range;

/// Returns the tokens of `slots` in the accumulation type, one token in each row.
pub(super) fn gather<T: Element>(
    tokens: &[T],
    hidden: usize,
    slots: &[u32],
    choices: usize,
) -> Vec<T::Acc> {
    let mut rows = Vec::with_capacity(slots.len() * hidden);
    vectorize(Gather {
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

/// The number of tokens that a thread takes at a time.
const TOKENS: usize = 16;

/// Returns `[T, H]`. Each token is the sum of its rows, multiplied by their weights if these are given, in the order
/// of its choices, rounded once.
pub(super) fn combine<T: Element>(
    view: &View<'_, T>,
    rows: &[T::Acc],
    weights: Option<&[T::Acc]>,
) -> Values
where
    T::Acc: Gemm,
{
    let &View {
        tokens,
        hidden,
        groups,
        choices,
        ..
    } = view;
    let mut out = Output::<T>::new([tokens, hidden]);
    if hidden == 0 {
        // Tokens without elements take no memory, so there may be more than there is memory for parts of them.
        return T::values(out.into_values());
    }
    let mut left = out.rest();
    let part = |first: usize| {
        let tokens = first..(first + TOKENS).min(tokens);
        let out = left.part(tokens.len() * hidden);
        (tokens, out)
    };
    let parts: Vec<_> = (0..tokens).step_by(TOKENS).map(part).collect();
    share::each_of_many(parts, |(tokens, out)| {
        vectorize(Combine {
            rows,
            hidden,
            groups,
            choices,
            tokens,
            weights,
            out,
        });
    });
    drop(left);
    T::values(out.into_values())
}

struct Combine<'a, T: Element> {
    rows: &'a [T::Acc],
    hidden: usize,
    groups: &'a Groups,
    choices: usize,
    tokens: Range<usize>,
    weights: Option<&'a [T::Acc]>,
    out: Unwritten<'a, T>,
}

impl<T: Element> pulp::WithSimd for Combine<'_, T>
where
    T::Acc: Gemm,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        let mut sum = vec![<T::Acc as Gemm>::ZERO; self.hidden];
        for token in self.tokens {
            sum.fill(Gemm::ZERO);
            let slots = token * self.choices;
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
            let rounded = sum.iter().map(|sum| T::round(*sum));
            self.out.row(self.hidden).write(rounded);
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
