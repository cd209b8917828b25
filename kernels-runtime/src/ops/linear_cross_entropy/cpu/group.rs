//! A group of classes, whose logits and gradients one thread computes.

use super::block::{Adjust, Slopes, Token};
use crate::cpu::lanes::dispatch;
use crate::cpu::product::{Gemm, Matrix, Right, Rows, outer_here, product};
use crate::cpu::{Element, Real};
use crate::ops::cross_entropy::cpu::{Gradient, Loss};
use crate::ops::linear_cross_entropy::{Operands, Sizes};
use crate::semantics::OutputLayout;
use burn::backend::flex::FlexTensor;
use std::mem::size_of;
use std::ops::Range;

/// The classes of a block. Its logits and its part of the weight stay in the second-level cache.
const BLOCK: usize = 256;

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
    d_weight: Option<&'a mut [A]>,
    d_bias: Option<&'a mut [A]>,
    /// The group's share of the gradient of a chunk's hidden states.
    share: Vec<A>,
    /// True once the gradient of the weight has the part of a chunk.
    has_chunk: bool,
}

/// Divides the classes into groups, with their parts of the gradients of weight and bias. `tokens` is the number of
/// tokens of a chunk.
pub(super) fn groups<A>(
    sizes: Sizes,
    tokens: usize,
    [d_weight, d_bias]: [Option<&mut Vec<A>>; 2],
) -> Vec<Group<'_, A>> {
    let Sizes { width, classes, .. } = sizes;
    let share = tokens * width.max(1) * size_of::<A>();
    let most = (classes / width.max(1)).max(SHARES / share.max(1)).max(1);
    let count = classes
        .div_ceil(BLOCK / 2)
        .min(Sizes::GROUPS)
        .min(most)
        .max(1);
    let each = classes.div_ceil(count).next_multiple_of(64);
    let mut weights = d_weight.map(|d_weight| &mut d_weight[..]);
    let mut biases = d_bias.map(|d_bias| &mut d_bias[..]);
    (0..classes)
        .step_by(each)
        .map(|start| {
            let classes = start..(start + each).min(classes);
            Group {
                d_weight: first(&mut weights, classes.len() * width),
                d_bias: first(&mut biases, classes.len()),
                share: Vec::new(),
                has_chunk: false,
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

    /// Returns the share of the gradient of a hidden state of the last chunk.
    pub(super) fn share(&self, token: usize) -> &[A] {
        &self.share[token * self.width..][..self.width]
    }

    /// Returns the blocks of classes, each with the number of classes before it in the group.
    fn blocks(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<A> {
        let Range { start, end } = self.classes;
        let blocks = (start..end).step_by(BLOCK);
        blocks.map(move |first| (first - start, first..(first + BLOCK).min(end)))
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
        for (before, classes) in self.blocks() {
            let slopes = &mut logits[count * before..][..count * classes.len()];
            let here = before..before + classes.len();
            let bias = self.d_bias.as_deref_mut();
            dispatch(Slopes {
                logits: slopes,
                width: classes.len(),
                first: classes.start,
                tokens,
                bias: bias.map(|bias| &mut bias[here.clone()]),
            });
            if let Some(d_weight) = &mut self.d_weight {
                let d_weight = &mut d_weight[here.start * width..here.end * width];
                // Fresh memory that is read before it is written costs two page faults in place of one.
                let left = (&*slopes, classes.len());
                outer_here::<T>(left, hidden, d_weight, self.has_chunk);
            }
            if wants_hidden && width > 0 {
                let rows = Rows::new(slopes, count, classes.len());
                let weight = head.classes(&classes).transposed();
                product(&rows, weight, &mut self.share, before > 0, false);
            }
        }
        self.has_chunk = true;
    }
}
