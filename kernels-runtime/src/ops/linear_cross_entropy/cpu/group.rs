//! A group of classes, whose logits and gradients one thread computes.

use super::block::{Adjust, Slopes, Token};
use crate::cpu::lanes::dispatch;
use crate::cpu::product::{Gemm, Matrix, Right, Rows, add_outer_here, outer_here, product};
use crate::cpu::{Element, Real, Unwritten};
use crate::ops::cross_entropy::cpu::{Gradient, Loss};
use crate::ops::linear_cross_entropy::{Operands, Sizes};
use crate::semantics::OutputLayout;
use burn::backend::flex::FlexTensor;
use std::mem::size_of;
use std::ops::Range;

/// The most classes of a block. Each block copies the hidden states into the order that a product reads, and adds to the
/// whole share of their gradient, so blocks of few classes spend much of their time on that.
const BLOCK: usize = 1024;

/// Groups are divided into blocks that begin at multiples of so many classes.
const STEP: usize = 64;

/// The fewest classes that are worth a group of their own.
const SMALLEST: usize = 128;

/// The memory that all groups' shares of the gradient of the hidden states may take, if that is more than the logits.
const SHARES: usize = 32 << 20;

/// The output layer.
pub(super) struct Head<'a, T: Element> {
    weight: Matrix<'a, T>,
    bias: Option<Vec<T::Acc>>,
}

impl<'a, T: Element> Head<'a, T>
where
    T::Acc: Gemm,
{
    pub(super) fn new(operands: &Operands<FlexTensor, FlexTensor>, weight: &'a FlexTensor) -> Self {
        let matrix = Matrix::of(weight);
        let weight = match operands.key().layout {
            OutputLayout::OutputMajor => matrix.transposed(),
            OutputLayout::InputMajor => matrix,
        };
        let bias = operands.bias().map(|bias| {
            let bias = bias.to_contiguous();
            let values = crate::cpu::contiguous::<T>(&bias).iter();
            values.map(|value| value.load()).collect()
        });
        Self { weight, bias }
    }

    fn classes(&self, classes: &Range<usize>) -> Matrix<'a, T> {
        self.weight.features(classes.start, 1, classes.len())
    }

    fn bias(&self, classes: &Range<usize>) -> Option<&[T::Acc]> {
        Some(&self.bias.as_ref()?[classes.clone()])
    }
}

/// A group of classes.
pub(super) struct Group<'a, A> {
    classes: Range<usize>,
    width: usize,
    /// The group's part of the weight's gradient, if it is wanted.
    d_weight: Option<WeightPart<'a, A>>,
    d_bias: Option<&'a mut [A]>,
    /// The group's share of the gradient of a chunk's hidden states.
    share: Vec<A>,
}

/// A part of the weight's gradient. The first chunk of tokens writes the blocks of classes, others add to them.
struct WeightPart<'a, A> {
    rest: Unwritten<'a, A>,
    blocks: Vec<&'a mut [A]>,
}

impl<A: Gemm> WeightPart<'_, A> {
    /// Adds the products of a block's slopes, each row as long as the second number says, and the hidden states.
    fn add<T: Element<Acc = A>>(
        &mut self,
        block: usize,
        slopes: (&[A], usize),
        hidden: &Right<'_, A>,
    ) {
        if let Some(sums) = self.blocks.get_mut(block) {
            return add_outer_here(slopes, hidden, sums);
        }
        let places = self.rest.part(slopes.1 * hidden.width());
        self.blocks.push(outer_here::<T>(slopes, hidden, places));
    }
}

/// Divides the classes into groups, with their parts of the gradients of weight and bias. `tokens` is the number of
/// tokens of a chunk.
pub(super) fn groups<'a, A: Copy>(
    sizes: Sizes,
    tokens: usize,
    mut d_weight: Option<Unwritten<'a, A>>,
    mut d_bias: Option<&'a mut [A]>,
) -> Vec<Group<'a, A>> {
    let Sizes { width, classes, .. } = sizes;
    let share = tokens * width.max(1) * size_of::<A>();
    let most = (classes / width.max(1)).max(SHARES / share.max(1)).max(1);
    let count = classes
        .div_ceil(SMALLEST)
        .min(Sizes::GROUPS)
        .min(most)
        .max(1);
    let each = classes.div_ceil(count).next_multiple_of(STEP);
    (0..classes)
        .step_by(each)
        .map(|start| {
            let classes = start..(start + each).min(classes);
            let part = |rest: &mut Unwritten<'a, A>| WeightPart {
                rest: rest.part(classes.len() * width),
                blocks: Vec::new(),
            };
            Group {
                d_weight: d_weight.as_mut().map(part),
                d_bias: first(&mut d_bias, classes.len()),
                share: Vec::new(),
                classes,
                width,
            }
        })
        .collect()
}

/// Takes the first elements, if there are any at all.
fn first<'a, A>(rest: &mut Option<&'a mut [A]>, len: usize) -> Option<&'a mut [A]> {
    let (first, others) = rest.take()?.split_at_mut(len);
    *rest = Some(others);
    Some(first)
}

impl<A> Group<'_, A> {
    pub(super) fn classes(&self) -> &Range<usize> {
        &self.classes
    }

    /// Returns the share of the gradient of the last chunk's hidden states.
    pub(super) fn share(&self) -> &[A] {
        &self.share
    }

    /// Returns the blocks of classes, each with the number of classes before it in the group. They have about one size.
    fn blocks(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<A> {
        let Range { start, end } = self.classes;
        let count = (end - start).div_ceil(BLOCK);
        let each = (end - start).div_ceil(count).next_multiple_of(STEP);
        let blocks = (start..end).step_by(each);
        blocks.map(move |first| (first - start, first..(first + each).min(end)))
    }
}

impl<A: Gemm> Group<'_, A> {
    /// Computes the logits of some tokens, and adds their sums to those of the tokens. Keeps the logits block by block
    /// if `kept` has elements.
    pub(super) fn logits<T: Element<Acc = A>>(
        &self,
        head: &Head<'_, T>,
        loss: &Loss<A>,
        rows: &Rows<'_, A>,
        kept: &mut [A],
        tokens: &mut [Token<A>],
    ) where
        A: Element<Acc = A>,
    {
        let count = tokens.len();
        let mut beside = Vec::new();
        for (before, classes) in self.blocks() {
            let len = count * classes.len();
            let logits = match kept.is_empty() {
                true => {
                    beside.resize(len, <A as Real>::ZERO);
                    &mut beside[..len]
                }
                false => &mut kept[count * before..][..len],
            };
            product(rows, head.classes(&classes), logits, false, false);
            dispatch(Adjust {
                logits,
                width: classes.len(),
                bias: head.bias(&classes),
                loss,
                first: classes.start,
                tokens,
            });
        }
    }

    /// Turns the kept logits into their gradients, and adds to the gradients of weight and bias. Computes the share of
    /// the gradient of the hidden states if it is wanted. Each token has its gradient and its class.
    pub(super) fn gradients<T: Element<Acc = A>>(
        &mut self,
        head: &Head<'_, T>,
        tokens: &[(Gradient<A>, usize)],
        hidden: &Right<'_, A>,
        logits: &mut [A],
        wants_hidden: bool,
    ) where
        A: Element<Acc = A>,
    {
        let (count, width) = (tokens.len(), self.width);
        if wants_hidden {
            self.share.resize(count * width, <A as Real>::ZERO);
        }
        for (block, (before, classes)) in self.blocks().enumerate() {
            let slopes = &mut logits[count * before..][..count * classes.len()];
            let here = before..before + classes.len();
            let bias = self.d_bias.as_deref_mut();
            dispatch(Slopes {
                logits: slopes,
                width: classes.len(),
                first: classes.start,
                tokens,
                bias: bias.map(|bias| &mut bias[here]),
            });
            if let Some(d_weight) = &mut self.d_weight {
                d_weight.add::<T>(block, (&*slopes, classes.len()), hidden);
            }
            if wants_hidden && width > 0 {
                let rows = Rows::new(slopes, count, classes.len());
                let weight = head.classes(&classes).transposed();
                product(&rows, weight, &mut self.share, before > 0, false);
            }
        }
    }
}
