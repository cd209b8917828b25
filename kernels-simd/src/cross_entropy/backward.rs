use super::{Factors, Gradient, Loss, Operands, Targets};
use crate::{
    Blocks, Context, Element, Kernel, LANES, Output, Read, Real, Rows, Unwritten, Values, View, run,
};
use std::ops::Range;

/// Returns the gradient of the logits.
pub(super) fn backward<T: Element>(
    operands: &Operands<'_>,
    lse: &View<'_>,
    dy: &View<'_>,
) -> Values {
    let logits = Rows::<T>::of(&operands.logits);
    let (tokens, classes) = (logits.count(), logits.width());
    let targets = Targets::new(operands.targets, [tokens, classes]);
    let (dy, lse) = (dy.contiguous::<T::Acc>(), lse.contiguous::<T::Acc>());
    assert!(
        lse.len() == tokens,
        "{} logarithms of sums are not those of {tokens} tokens",
        lse.len()
    );
    let kernel = Pass::<T> {
        logits,
        targets,
        lse,
        loss: Loss::new(operands.settings, classes),
        factors: Factors::new(dy, targets, operands.reduction),
        classes,
    };
    let mut d_logits = Output::<T>::new([tokens, classes]);
    let nothing = &mut Output::none();
    run(&kernel, tokens, classes, [&mut d_logits], nothing);
    T::values(d_logits.into_values())
}

/// The size of an `lse` from which a row is read once more, because probabilities in f32 would be off by more than `2^-16`
/// of them.
const FAR: f64 = 256.0;

struct Pass<'a, T: Element> {
    logits: Rows<'a, T>,
    targets: Targets<'a>,
    lse: &'a [T::Acc],
    loss: Loss<T::Acc>,
    factors: Factors<'a, T::Acc>,
    classes: usize,
}

impl<T: Element> Kernel<1> for Pass<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        [mut d_logits]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) {
        for (token, logits) in range.clone().zip(self.logits.range(range)) {
            let row = d_logits.row(self.classes);
            let Some(class) = self.targets.classes()[token] else {
                row.fill(T::round(T::Acc::ZERO));
                continue;
            };
            let lse = self.lse[token];
            let correction = match lse >= T::Acc::of(FAR) || lse <= T::Acc::of(-FAR) {
                true => self.loss.sums(c, logits).correction(),
                false => T::Acc::ONE,
            };
            let factor = self.factors.of(token);
            let gradient = self.loss.gradient(lse, correction, factor);
            let (before, rest) = row.split_at(class);
            let (target, after) = rest.split_at(1);
            let others = |logits| Others {
                logits,
                gradient,
                c,
            };
            before.write_blocks(&others(&logits[..class]));
            target.fill(T::round(gradient.of(logits[class], true)));
            after.write_blocks(&others(&logits[class + 1..]));
        }
    }
}

/// The gradients of classes that are not the target.
struct Others<'a, T: Element, C> {
    logits: &'a [T],
    gradient: Gradient<T::Acc>,
    c: C,
}

impl<T: Element, C: Context> Blocks<T> for Others<'_, T, C> {
    #[inline(always)]
    fn at<R: Read>(&self, at: usize) -> [T; LANES] {
        let logits = T::lanes(self.c, &R::block(self.logits, at));
        T::rounded(self.c, self.gradient.of_lanes(self.c, logits))
    }
}
