use super::adjust::Adjust;
use super::loops::{Forward, Loops};
use super::rows::{Readable, Row, Source, result_shape};
use crate::cpu::{Element, Kernel, Output, Real, run};
use crate::ops::glu::Settings;
use crate::ops::glu::autodiff::Tensors;
use crate::semantics::GluKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use std::mem::MaybeUninit;
use std::ops::Range;

pub(super) fn forward<T: Element>(
    tensors: &Tensors<Flex>,
    settings: Settings,
    key: GluKey,
) -> FlexTensor {
    let mut y = Output::<T>::new(result_shape(tensors));
    let readable = Readable::new::<T>(tensors);
    let kernel = Glu::<T> {
        source: Source::new(&readable, key),
        adjust: Adjust::new::<T>(settings, key),
        narrow: Loops::of(key.activation).forward,
        wide: Loops::of(key.activation).forward,
    };
    let (count, width) = (kernel.source.count(), kernel.source.width());
    run(&kernel, count, width, [y.places()], &mut []);
    // SAFETY: `Glu` writes `width` elements for every row, and `run` covers every row.
    unsafe { y.finish() }
}

struct Glu<'a, T: Element> {
    source: Source<'a, T>,
    adjust: Option<Adjust<T::Acc>>,
    /// The loop on elements as they are.
    narrow: Forward<T>,
    /// The loop in the accumulation precision, for changed rows.
    wide: Forward<T::Acc>,
}

impl<T: Element> Kernel<1> for Glu<'_, T> {
    type Out = T;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [y]: [&mut [MaybeUninit<T>]; 1],
        _: &mut [MaybeUninit<()>],
    ) {
        let width = self.source.width();
        let rows = self.source.range(range).enumerate();
        let rows = rows.map(|(i, row)| (row, i * width..(i + 1) * width));
        let Some(adjust) = &self.adjust else {
            let [mut gates, mut ups] = [(); 2].map(|()| Vec::new());
            for (row, places) in rows {
                if let Row::Apart { gate, up } = row {
                    (self.narrow)(gate, up, &mut y[places]);
                } else {
                    gates.resize(width, T::round(T::Acc::ZERO));
                    ups.resize(width, T::round(T::Acc::ZERO));
                    row.read(&mut gates, &mut ups, |x| x);
                    (self.narrow)(&gates, &ups, &mut y[places]);
                }
            }
            return;
        };
        let [mut gates, mut ups] = [(); 2].map(|()| vec![T::Acc::ZERO; width]);
        let mut results = vec![MaybeUninit::uninit(); width];
        for (row, places) in rows {
            row.read(&mut gates, &mut ups, T::load);
            adjust.gates(&mut gates);
            adjust.ups(&mut ups);
            (self.wide)(&gates, &ups, &mut results);
            for (y, result) in y[places].iter_mut().zip(&results) {
                // SAFETY: the loop wrote every place.
                y.write(T::round(unsafe { result.assume_init() }));
            }
        }
    }
}
