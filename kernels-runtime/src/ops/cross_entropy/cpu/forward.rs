use super::{Loss, OP, Targets, read, reduce, tensor};
use crate::cpu::{Context, Element, Kernel, Output, Real, Rows, Unwritten, run};
use crate::ops::cross_entropy::Tensors;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use std::ops::Range;

/// Returns the loss and `lse`.
pub(super) fn forward<T: Element>(operands: &Tensors<Flex>) -> (FlexTensor, FlexTensor) {
    let [tokens, classes] = operands.sizes();
    let targets = read(OP, operands.targets(), classes, operands.settings());
    let logits = Rows::<T>::readable(operands.logits());
    let kernel = Forward::<T> {
        logits: Rows::new(&logits),
        targets: &targets,
        loss: Loss::new(operands.settings(), classes),
    };
    let mut found = Output::<[T::Acc; 2]>::new(Shape::new([tokens]));
    run::<_, 0>(&kernel, tokens, classes, [], &mut found);
    let (losses, lse) = found.into_values().into_iter().map(Into::into).unzip();
    let loss = reduce::<T::Acc>(losses, targets.counted(), operands.key().reduction);
    (loss, tensor::<T::Acc>(lse))
}

struct Forward<'a, T: Element> {
    logits: Rows<'a, T>,
    targets: &'a Targets,
    loss: Loss<T::Acc>,
}

impl<T: Element> Kernel<0> for Forward<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    /// The loss and `lse`.
    type PerRow = [T::Acc; 2];
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        []: [Unwritten<'_, T>; 0],
        mut found: Unwritten<'_, [T::Acc; 2]>,
    ) {
        let classes = &self.targets.classes()[range.clone()];
        for (logits, class) in self.logits.range(range).zip(classes) {
            found.push(match class {
                Some(class) => {
                    let sums = self.loss.sums(c, logits);
                    let target = self.loss.capped(logits[*class].load());
                    [self.loss.of(&sums, target), sums.lse()]
                }
                None => [T::Acc::ZERO; 2],
            });
        }
    }
}
