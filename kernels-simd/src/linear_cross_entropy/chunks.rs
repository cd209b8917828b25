//! The chunks of tokens whose logits are computed together.

use super::block::{Adjust, Token};
use super::group::{self, Group, Head, groups};
use super::{Checked, Gradients, Sizes, Wanted};
use crate::cross_entropy::{Factors, Loss};
use crate::lanes::dispatch;
use crate::product::{Gemm, Right, Rows};
use crate::{CHUNK, Element, Output, Real, Unwritten, share};
use std::mem::size_of;

/// The losses and the wanted gradients, the weight's as `[classes, width]`.
pub(super) struct Found<A> {
    pub(super) losses: Vec<A>,
    pub(super) gradients: Gradients<Vec<A>>,
}

/// Computes the loss of each token and, with the factors of their gradients, the wanted gradients. Writes the gradient of
/// the logits to `d_logits`, block by block: rows of as many classes as [`classes_of_block`] says, one for each token that has a
/// class.
pub(super) fn run<T: Element>(
    operands: &Checked<'_, '_>,
    factors: Option<&Factors<'_, T::Acc>>,
    wanted: Wanted,
    d_logits: Option<Unwritten<'_, T>>,
) -> Found<T::Acc>
where
    T::Acc: Gemm,
{
    let sizes = operands.sizes;
    let mut losses = zeros(sizes.tokens);
    let mut hidden = wanted.hidden.then(|| zeros(sizes.tokens * sizes.width));
    let mut bias = wanted.bias.then(|| zeros(sizes.classes));
    // The first chunk writes the gradient of the weight, so that this large memory needs no zeros.
    let mut weight = wanted
        .weight
        .then(|| Output::new([sizes.classes, sizes.width]));
    let rest = weight.as_mut().map(Output::rest);
    match &operands.targets.tokens()[..] {
        [] => _ = rest.map(|weight| weight.filled(<T::Acc as Real>::ZERO)),
        tokens => {
            let count = together::<T>(sizes, tokens.len());
            let wanted = group::Wanted {
                weight: rest,
                logits: d_logits.map(|places| (places, tokens.len())),
                bias: bias.as_deref_mut(),
            };
            let groups = groups(
                sizes,
                group::classes_of_group::<T::Acc>(sizes, count),
                wanted,
            );
            let (losses, hidden) = (&mut losses, hidden.as_deref_mut());
            run_chunks::<T>(operands, (tokens, count), groups, factors, losses, hidden);
        }
    }
    Found {
        losses,
        gradients: Gradients {
            hidden,
            weight: weight.map(Output::into_values),
            bias,
        },
    }
}

/// Returns the number of tokens of a chunk, of so many that have a class.
fn together<T: Element>(sizes: Sizes, counted: usize) -> usize {
    sizes.chunk(size_of::<T::Acc>()).min(counted)
}

/// Returns the number of classes of a block, for so many tokens that have a class. The last block may have fewer.
pub(super) fn classes_of_block<T: Element>(sizes: Sizes, counted: usize) -> usize {
    group::classes_of_group::<T::Acc>(sizes, together::<T>(sizes, counted)).min(group::BLOCK)
}

/// Computes `count` tokens at a time.
fn run_chunks<T: Element>(
    operands: &Checked<'_, '_>,
    (tokens, count): (&[(usize, usize)], usize),
    mut groups: Vec<Group<'_, T>>,
    factors: Option<&Factors<'_, T::Acc>>,
    losses: &mut [T::Acc],
    mut d_hidden: Option<&mut [T::Acc]>,
) where
    T::Acc: Gemm,
{
    let sizes = operands.sizes;
    let given = operands.given;
    let head = Head::<T>::new(&given.weight, given.bias.as_ref());
    let chunk = Chunk::<T> {
        hidden: given.hidden.contiguous(),
        head: &head,
        loss: Loss::new(given.settings, sizes.classes),
        width: sizes.width,
    };
    for tokens in tokens.chunks(count) {
        let d_hidden = d_hidden.as_deref_mut();
        chunk.run(tokens, &mut groups, factors, losses, d_hidden);
    }
}

/// Returns zeros, written by all threads.
pub(crate) fn zeros<A: Real>(len: usize) -> Vec<A> {
    let mut zeros = Output::new([len]);
    let mut rest = zeros.rest();
    let parts = (0..len)
        .step_by(CHUNK)
        .map(|start| rest.part(CHUNK.min(len - start)));
    share::each_of_many(parts.collect(), |part: Unwritten<'_, A>| {
        part.filled(A::ZERO);
    });
    drop(rest);
    zeros.into_values()
}

/// The operands that all chunks share.
struct Chunk<'a, T: Element> {
    hidden: &'a [T],
    head: &'a Head<'a, T>,
    loss: Loss<T::Acc>,
    width: usize,
}

impl<T: Element> Chunk<'_, T>
where
    T::Acc: Gemm,
{
    /// Computes the losses of tokens, each given with its class, and adds to their gradients.
    fn run(
        &self,
        tokens: &[(usize, usize)],
        groups: &mut [Group<'_, T>],
        factors: Option<&Factors<'_, T::Acc>>,
        losses: &mut [T::Acc],
        d_hidden: Option<&mut [T::Acc]>,
    ) {
        let mut hidden = Vec::with_capacity(tokens.len() * self.width);
        for (token, _) in tokens {
            let row = &self.hidden[token * self.width..][..self.width];
            hidden.extend(row.iter().map(|x| x.load()));
        }
        let rows = Rows::new(&hidden, tokens.len(), self.width);
        let (head, loss) = (self.head, &self.loss);
        let start: Vec<_> = tokens.iter().map(|(_, class)| Token::new(*class)).collect();
        let keeps = factors.is_some();
        let of_groups = share::map(groups.iter_mut().collect(), |group: &mut Group<'_, T>| {
            let mut tokens = start.clone();
            group.logits(head, &rows, keeps, |logits| {
                let tokens = &mut tokens;
                dispatch(Adjust {
                    logits,
                    loss,
                    tokens,
                });
            });
            tokens
        });
        let mut all = start;
        for of_group in of_groups {
            let pairs = all.iter_mut().zip(of_group);
            pairs.for_each(|(all, of_group)| all.add(of_group));
        }
        for ((token, _), all) in tokens.iter().zip(&all) {
            losses[*token] = loss.of(&all.sums, all.target);
        }
        let Some(factors) = factors else { return };
        let gradients: Vec<_> = tokens
            .iter()
            .zip(&all)
            .map(|((token, class), all)| {
                (
                    loss.gradient(all.sums.lse(), all.sums.correction(), factors.of(*token)),
                    *class,
                )
            })
            .collect();
        let wants_hidden = d_hidden.is_some();
        let sums_weight = groups.iter().any(Group::sums_weight);
        let hidden = sums_weight.then(|| Right::new::<T>(&hidden, tokens.len(), self.width));
        share::each(groups.iter_mut().collect(), |group: &mut Group<'_, T>| {
            group.gradients(head, &gradients, hidden.as_ref(), wants_hidden);
        });
        if let Some(d_hidden) = d_hidden {
            let shares: Vec<_> = groups.iter().map(Group::share).collect();
            let tokens = tokens.iter().map(|(token, _)| *token);
            add_shares(tokens, &shares, self.width, d_hidden);
        }
    }
}

/// Writes the gradient of some tokens' hidden states: the sum of the groups' shares. Tokens are in their order.
pub(crate) fn add_shares<A: Real>(
    tokens: impl Iterator<Item = usize>,
    shares: &[&[A]],
    width: usize,
    d_hidden: &mut [A],
) {
    if width == 0 {
        return;
    }
    let Some((first, others)) = shares.split_first() else {
        return;
    };
    // Each row is found behind those before it.
    let mut rows = d_hidden.chunks_exact_mut(width).enumerate();
    let places = tokens.enumerate().map(|(row, token)| {
        let place = rows.find(|(at, _)| *at == token);
        (row, place.expect("each token has a hidden state").1)
    });
    share::each_of_many(places.collect(), |(row, sums): (usize, &mut [A])| {
        sums.copy_from_slice(&first[row * width..][..width]);
        for share in others {
            let share = &share[row * width..][..width];
            for (sum, share) in sums.iter_mut().zip(share) {
                *sum += *share;
            }
        }
    });
}
