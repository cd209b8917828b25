//! Sums of gradients.

use crate::lanes::{Context, Task, dispatch};
use crate::{CHUNK, Element, PARALLEL, SliceMut, View, share, with_type};

/// Adds a contiguous tensor to the elements of another one, in their order, and rounds the sums to their type.
///
/// # Panics
/// Panics if the numbers of elements or the types differ, or if the tensor is not contiguous.
pub fn add(to: SliceMut<'_>, from: &View<'_>) {
    with_type!(to.dtype(), T => add_in::<T>(to.into_slice(), from.contiguous()));
}

fn add_in<T: Element>(to: &mut [T], from: &[T]) {
    assert!(
        to.len() == from.len(),
        "{} elements are not added to {}",
        from.len(),
        to.len()
    );
    let parts = to.chunks_mut(CHUNK).zip(from.chunks(CHUNK));
    let add = |(to, from): (&mut [T], &[T])| dispatch(Add { to, from });
    match from.len() >= PARALLEL {
        true => share::each_of_many(parts.collect(), add),
        false => parts.for_each(add),
    }
}

struct Add<'a, T> {
    to: &'a mut [T],
    from: &'a [T],
}

impl<T: Element> Task for Add<'_, T> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, _: C) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = T::round(to.load() + from.load());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;
    use std::panic::catch_unwind;

    #[test]
    fn every_element_is_added_once() {
        let count = if cfg!(miri) { 1000 } else { PARALLEL + 37 };
        for count in [0, 1, count] {
            let numbers = |step: usize| (0..count).map(move |i| (i * step % 97) as f32);
            let mut to: Vec<_> = numbers(7).map(bf16::from_f32).collect();
            let from: Vec<_> = numbers(13).map(bf16::from_f32).collect();
            add(SliceMut::of(&mut to), &View::whole(&from, &[count]));
            let sums = numbers(7).zip(numbers(13));
            assert!(to.into_iter().eq(sums.map(|(a, b)| bf16::from_f32(a + b))));
        }
    }

    #[test]
    fn tensors_that_do_not_go_together_are_refused() {
        let of = [1.0_f32; 6];
        for from in [
            View::whole(&of[..5], &[5]),
            View::whole(&[1.0_f64; 6], &[6]),
            View::of(&of, &[3, 2], &[1, 3], 0),
        ] {
            let sum = catch_unwind(|| add(SliceMut::of(&mut [0.0_f32; 6]), &from));
            assert!(sum.is_err(), "{from:?}");
        }
    }
}
