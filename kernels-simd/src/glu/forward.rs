use super::Operands;
use super::adjust::Adjust;
use super::loops::{Forward, Loops};
use super::rows::{Row, Source};
use crate::{Context, Element, Kernel, Output, Real, Scratch, Unwritten, Values, run};
use std::ops::Range;

pub(super) fn forward<T: Element>(operands: &Operands<'_>) -> Values {
    let settings = operands.settings;
    let kernel = Glu::<T> {
        source: Source::new(operands),
        adjust: Adjust::new(settings),
        narrow: Loops::of(settings.activation).forward,
        wide: Loops::of(settings.activation).forward,
    };
    let (count, width) = (kernel.source.count(), kernel.source.width());
    let mut y = Output::<T>::new([count, width]);
    run(&kernel, count, width, [&mut y], &mut Output::none());
    T::values(y.into_values())
}

struct Glu<'a, T: Element> {
    source: Source<'a, T>,
    adjust: Option<Adjust<T::Acc>>,
    /// The loop on unchanged elements.
    narrow: Forward<T>,
    /// The loop in the accumulation precision, for changed rows.
    wide: Forward<T::Acc>,
}

impl<T: Element> Kernel<1> for Glu<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        [mut y]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) {
        let width = self.source.width();
        let rows = self.source.range(range);
        let Some(adjust) = &self.adjust else {
            let [mut gates, mut ups] = [(); 2].map(|()| Vec::new());
            for row in rows {
                if let Row::Apart { gate, up } = row {
                    (self.narrow)(gate, up, y.row(width));
                } else {
                    gates.resize(width, T::round(T::Acc::ZERO));
                    ups.resize(width, T::round(T::Acc::ZERO));
                    row.read(&mut gates, &mut ups, |x| x);
                    (self.narrow)(&gates, &ups, y.row(width));
                }
            }
            return;
        };
        let [mut gates, mut ups] = [(); 2].map(|()| vec![T::Acc::ZERO; width]);
        let mut results = Scratch::new();
        for row in rows {
            row.read(&mut gates, &mut ups, T::load);
            adjust.gates(&mut gates);
            adjust.ups(&mut ups);
            (self.wide)(&gates, &ups, results.row(width, T::Acc::ZERO));
            let rounded = results.values().iter().map(|result| T::round(*result));
            y.row(width).write(rounded);
        }
    }
}
