use super::{Found, Loss, Operands, Targets, reduce};
use crate::{Context, Element, Kernel, Output, Real, Rows, Unwritten, run};
use std::ops::Range;

/// Returns the loss and `lse`.
pub(super) fn forward<T: Element>(operands: &Operands<'_>) -> Found {
    let logits = Rows::<T>::of(&operands.logits);
    let (tokens, classes) = (logits.count(), logits.width());
    let targets = Targets::new(operands.targets, [tokens, classes]);
    let kernel = Forward::<T> {
        logits,
        targets,
        loss: Loss::new(operands.settings, classes),
    };
    let mut found = Output::<[T::Acc; 2]>::new([tokens]);
    run::<_, 0>(&kernel, tokens, classes, [], &mut found);
    let (losses, lse) = found.into_values().into_iter().map(Into::into).unzip();
    Found {
        loss: reduce::<T::Acc>(losses, targets.counted(), operands.reduction),
        lse: T::Acc::values(lse),
    }
}

struct Forward<'a, T: Element> {
    logits: Rows<'a, T>,
    targets: Targets<'a>,
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
