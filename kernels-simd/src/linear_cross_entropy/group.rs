//! A group of classes, whose logits and gradients one thread computes.

use super::block::{OfLogits, Slopes};
use super::{Sizes, Weight};
use crate::keys::OutputLayout;
use crate::lanes::dispatch;
use crate::product::{
    Gemm, Matrix, Right, Rows, add_outer_here, outer_here, product, product_of_tensor,
    takes_rounded, with_memory,
};
use crate::quantized::decode_here;
use crate::{Element, Real, Unwritten, View};
use kernels_quant::QuantizedWeight;
use std::mem::size_of;
use std::ops::Range;

/// The most classes of a block. Each block adds to the whole share of the gradient of the hidden states, so blocks of few
/// classes spend much of their time on that.
pub(super) const BLOCK: usize = 1024;

/// The most classes whose logits are computed at a time where products take rounded numbers, in which the hidden states
/// are then there already. They stay in the second-level cache. Other products copy the hidden states for each block.
const ROUNDED: usize = 256;

/// The most classes of a weight in quantised form that are decoded at a time, which the second-level cache holds in
/// part.
const DECODED: usize = 256;

/// Groups are divided into blocks that begin at multiples of so many classes.
const STEP: usize = 64;

/// The fewest classes that are worth a group of their own.
const SMALLEST: usize = 128;

/// The memory that all groups' shares of the gradient of the hidden states may take, if that is more than the logits.
const SHARES: usize = 32 << 20;

/// The output layer.
pub(crate) struct Head<'a, T: Element> {
    weight: Stored<'a, T>,
    bias: Option<Vec<T::Acc>>,
}

/// The weight of the output layer, `width × classes`, or in quantised form `[classes, width]`.
enum Stored<'a, T> {
    Floats(Matrix<'a, T>),
    Quantised(&'a QuantizedWeight<'a>),
}

impl<'a, T: Element> Head<'a, T>
where
    T::Acc: Gemm,
{
    pub(crate) fn new(weight: &Weight<'a>, bias: Option<&View<'_>>) -> Self {
        let weight = match weight {
            Weight::Floats(weight, layout) => Stored::Floats(match layout {
                OutputLayout::OutputMajor => Matrix::of(weight).transposed(),
                OutputLayout::InputMajor => Matrix::of(weight),
            }),
            Weight::Quantised(weight) => Stored::Quantised(weight),
        };
        let bias = bias.map(|bias| {
            let values = bias.contiguous::<T>().iter();
            values.map(|value| value.load()).collect()
        });
        Self { weight, bias }
    }

    /// Returns the weight if its products take rounded numbers.
    fn rounded(&self) -> Option<Matrix<'a, T>> {
        match self.weight {
            Stored::Floats(weight) if takes_rounded::<T>() => Some(weight),
            _ => None,
        }
    }

    /// Returns the most classes whose logits are computed at a time.
    fn together(&self) -> usize {
        match self.rounded() {
            Some(_) => ROUNDED,
            None => self.block(),
        }
    }

    /// Returns the most classes of a block in products that don't take rounded numbers.
    fn block(&self) -> usize {
        match self.weight {
            Stored::Floats(_) => BLOCK,
            Stored::Quantised(_) => DECODED,
        }
    }

    /// Computes the logits of some classes.
    fn logits(&self, rows: &Rows<'_, T::Acc>, classes: &Range<usize>, logits: &mut [T::Acc]) {
        match self.weight {
            Stored::Floats(weight) => {
                let weight = weight.features(classes.start, 1, classes.len());
                product(rows, weight, logits, false, false);
            }
            Stored::Quantised(weight) => {
                with_decoded(weight, classes, |weight: Matrix<'_, T::Acc>| {
                    product(rows, weight, logits, false, false);
                })
            }
        }
    }

    /// Computes the share of some classes in the gradient of the hidden states, or adds to it if `add`. `slopes` are
    /// the gradients of their logits.
    fn share(
        &self,
        slopes: &Rows<'_, T::Acc>,
        classes: &Range<usize>,
        share: &mut [T::Acc],
        add: bool,
    ) {
        match self.weight {
            Stored::Floats(weight) => {
                let weight = weight.features(classes.start, 1, classes.len());
                product(slopes, weight.transposed(), share, add, false);
            }
            Stored::Quantised(weight) => {
                with_decoded(weight, classes, |weight: Matrix<'_, T::Acc>| {
                    product(slopes, weight.transposed(), share, add, false);
                })
            }
        }
    }

    fn bias(&self, classes: &Range<usize>) -> Option<&[T::Acc]> {
        Some(&self.bias.as_ref()?[classes.clone()])
    }
}

/// Passes some classes of a weight to `work`, decoded in memory that the thread keeps.
fn with_decoded<A: Gemm + Element<Acc = A>>(
    weight: &QuantizedWeight<'_>,
    classes: &Range<usize>,
    work: impl FnOnce(Matrix<'_, A>),
) {
    let [_, width] = weight.shape();
    with_memory(classes.len() * width, |decoded: &mut [A]| {
        decode_here(weight, classes.start, decoded);
        work(Matrix {
            data: &*decoded,
            inputs: width,
            features: classes.len(),
            input_stride: 1,
            feature_stride: width,
        });
    });
}

/// A group of classes.
pub(crate) struct Group<'a, T: Element> {
    classes: Range<usize>,
    width: usize,
    /// The group's part of the weight's gradient, if it is wanted.
    d_weight: Option<WeightPart<'a, T::Acc>>,
    /// The parts of the gradient of all logits, if that is kept, one for each block.
    d_logits: Vec<Unwritten<'a, T>>,
    d_bias: Option<&'a mut [T::Acc]>,
    /// The logits of a chunk, block by block, if gradients are wanted.
    logits: Vec<T::Acc>,
    /// The group's share of the gradient of a chunk's hidden states.
    share: Vec<T::Acc>,
}

/// The gradients that groups write, as far as they are wanted.
pub(crate) struct Wanted<'a, T: Element> {
    /// The gradient of the weight, `[classes, width]`.
    pub(crate) weight: Option<Unwritten<'a, T::Acc>>,
    /// The gradient of the logits of all tokens, block by block, and the number of tokens.
    pub(crate) logits: Option<(Unwritten<'a, T>, usize)>,
    /// The gradient of the bias, to which groups add.
    pub(crate) bias: Option<&'a mut [T::Acc]>,
}

/// The logits of some tokens for some classes, as products give them.
pub(crate) struct Logits<'a, A> {
    /// The logits of each token, one after the other.
    pub(crate) values: &'a mut [A],
    /// The number of classes.
    pub(crate) width: usize,
    /// The first class.
    pub(crate) first: usize,
    pub(crate) bias: Option<&'a [A]>,
    /// Where to append the logits, if they are kept.
    pub(crate) kept: Option<&'a mut Vec<A>>,
}

/// A part of the weight's gradient. The first chunk of tokens writes the rows of some classes, others add to them.
struct WeightPart<'a, A> {
    rest: Unwritten<'a, A>,
    /// The rows of classes that were computed together, with the first of these.
    written: Vec<(usize, &'a mut [A])>,
}

impl<A: Gemm> WeightPart<'_, A> {
    /// Adds the products of some classes' slopes, each row as long as the second number says, and the hidden states.
    fn add<T: Element<Acc = A>>(
        &mut self,
        first: usize,
        slopes: (&[A], usize),
        hidden: &Right<'_, A>,
    ) {
        let mut written = self.written.iter_mut();
        if let Some((_, sums)) = written.find(|(start, _)| *start == first) {
            return add_outer_here(slopes, hidden, sums);
        }
        let places = self.rest.part(slopes.1 * hidden.width());
        let sums = outer_here::<T>(slopes, hidden, places);
        self.written.push((first, sums));
    }
}

/// Returns the number of classes of a group. The last one may have fewer. `tokens` is the number of tokens of a chunk.
pub(crate) fn classes_of_group<A>(sizes: Sizes, tokens: usize) -> usize {
    let Sizes { width, classes, .. } = sizes;
    let share = tokens * width.max(1) * size_of::<A>();
    let most = (classes / width.max(1)).max(SHARES / share.max(1)).max(1);
    let count = classes
        .div_ceil(SMALLEST)
        .min(Sizes::GROUPS)
        .min(most)
        .max(1);
    let each = classes.div_ceil(count);
    each.next_multiple_of(if each > BLOCK { BLOCK } else { STEP })
}

/// Divides the classes into groups of so many, with their parts of the gradients.
pub(crate) fn groups<'a, T: Element>(
    sizes: Sizes,
    each: usize,
    mut wanted: Wanted<'a, T>,
) -> Vec<Group<'a, T>> {
    let Sizes { width, classes, .. } = sizes;
    (0..classes)
        .step_by(each)
        .map(|start| {
            let classes = start..(start + each).min(classes);
            let weight = |rest: &mut Unwritten<'a, T::Acc>| WeightPart {
                rest: rest.part(classes.len() * width),
                written: Vec::new(),
            };
            let logits = |(rest, all): &mut (Unwritten<'a, T>, usize)| {
                let blocks = divided(&classes, BLOCK);
                blocks.map(|block| rest.part(*all * block.len())).collect()
            };
            Group {
                d_weight: wanted.weight.as_mut().map(weight),
                d_logits: wanted.logits.as_mut().map_or_else(Vec::new, logits),
                d_bias: first(&mut wanted.bias, classes.len()),
                logits: Vec::new(),
                share: Vec::new(),
                classes,
                width,
            }
        })
        .collect()
}

/// Divides classes into blocks.
fn divided(classes: &Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *classes;
    let blocks = (start..end).step_by(most);
    blocks.map(move |first| first..(first + most).min(end))
}

/// Takes the first elements, if there are any at all.
fn first<'a, A>(rest: &mut Option<&'a mut [A]>, len: usize) -> Option<&'a mut [A]> {
    let (first, others) = rest.take()?.split_at_mut(len);
    *rest = Some(others);
    Some(first)
}

impl<T: Element> Group<'_, T> {
    /// Returns whether the group sums its part of the weight's gradient.
    pub(crate) fn sums_weight(&self) -> bool {
        self.d_weight.is_some()
    }

    /// Returns the share of the gradient of the last chunk's hidden states.
    pub(crate) fn share(&self) -> &[T::Acc] {
        &self.share
    }

    /// Returns the kept logits of the last chunk, block by block.
    pub(crate) fn kept(&self) -> &[T::Acc] {
        &self.logits
    }
}

impl<T: Element> Group<'_, T>
where
    T::Acc: Gemm,
{
    /// Computes the logits of some tokens, and passes them to `each`, some classes at a time. `keeps` says whether it has to
    /// keep them for their gradients.
    pub(crate) fn logits(
        &mut self,
        head: &Head<'_, T>,
        rows: &Rows<'_, T::Acc>,
        keeps: bool,
        mut each: impl FnMut(Logits<'_, T::Acc>),
    ) {
        let count = rows.count();
        self.logits.clear();
        if keeps {
            self.logits.reserve_exact(count * self.classes.len());
        }
        for classes in divided(&self.classes, head.together()) {
            with_memory(count * classes.len(), |logits| {
                head.logits(rows, &classes, logits);
                each(Logits {
                    values: logits,
                    width: classes.len(),
                    first: classes.start,
                    bias: head.bias(&classes),
                    kept: keeps.then_some(&mut self.logits),
                });
            });
        }
    }

    /// Returns the numbers of classes of the blocks of kept logits.
    pub(crate) fn widths(&self, head: &Head<'_, T>) -> impl Iterator<Item = usize> + use<T> {
        divided(&self.classes, head.together()).map(|classes| classes.len())
    }

    /// Computes the gradients of the kept logits, and adds to the gradients of weight and bias. The first needs the hidden
    /// states. Computes the share of their gradient if it is wanted.
    pub(crate) fn gradients(
        &mut self,
        head: &Head<'_, T>,
        tokens: &impl OfLogits<T::Acc>,
        hidden: Option<&Right<'_, T::Acc>>,
        wants_hidden: bool,
    ) {
        let count = tokens.count();
        if wants_hidden {
            self.share
                .resize(count * self.width, <T::Acc as Real>::ZERO);
        }
        if let Some(weight) = head.rounded() {
            for (block, classes) in divided(&self.classes, BLOCK).enumerate() {
                with_memory(count * classes.len(), |rounded| {
                    self.rounded_block(weight, (block, &classes), tokens, hidden, rounded);
                });
            }
            return;
        }
        for (block, classes) in divided(&self.classes, head.block()).enumerate() {
            let slopes = self.slopes(&classes, tokens, hidden, None);
            if !self.share.is_empty() {
                let rows = Rows::new(&self.logits[slopes], count, classes.len());
                head.share(&rows, &classes, &mut self.share, block > 0);
            }
        }
    }

    /// Rounds the gradients of a block's logits, keeps them if they are wanted, and adds to the share of the gradient of
    /// the hidden states. `rounded` is memory for them.
    fn rounded_block(
        &mut self,
        weight: Matrix<'_, T>,
        (block, classes): (usize, &Range<usize>),
        tokens: &impl OfLogits<T::Acc>,
        hidden: Option<&Right<'_, T::Acc>>,
        rounded: &mut [T],
    ) {
        for some in divided(classes, ROUNDED) {
            let rounded = (&mut rounded[some.start - classes.start..], classes.len());
            self.slopes(&some, tokens, hidden, Some(rounded));
        }
        if let Some(d_logits) = self.d_logits.get_mut(block) {
            d_logits.row(rounded.len()).copy(rounded);
        }
        if !self.share.is_empty() {
            let weight = weight.features(classes.start, 1, classes.len());
            product_of_tensor(rounded, weight.transposed(), &mut self.share, block > 0);
        }
    }

    /// Computes the gradients of the logits of some classes, and adds to the gradients of weight and bias. Returns their
    /// place, where the gradients are if they are not rounded.
    fn slopes(
        &mut self,
        classes: &Range<usize>,
        tokens: &impl OfLogits<T::Acc>,
        hidden: Option<&Right<'_, T::Acc>>,
        rounded: Option<(&mut [T], usize)>,
    ) -> Range<usize> {
        let start = self.classes.start;
        let here = classes.start - start..classes.end - start;
        let place = tokens.count() * here.start..tokens.count() * here.end;
        let slopes = &mut self.logits[place.clone()];
        let bias = self.d_bias.as_deref_mut();
        dispatch(Slopes::<T, _> {
            logits: slopes,
            width: classes.len(),
            first: classes.start,
            place: place.start,
            tokens,
            bias: bias.map(|bias| &mut bias[here.clone()]),
            in_place: rounded.is_none() || self.d_weight.is_some(),
            rounded,
        });
        if let (Some(d_weight), Some(hidden)) = (&mut self.d_weight, hidden) {
            d_weight.add::<T>(here.start, (&*slopes, classes.len()), hidden);
        }
        place
    }
}
