use super::given::{BLOCK, Given, MOST, Task, convolved};
use super::{Found, Operands};
use crate::lanes::vectorize;
use crate::share::each;
use crate::{Element, Number as _, Output, Real};

/// Returns the result and the last states.
pub(super) fn forward<T: Element>(operands: &Operands<'_>) -> Found {
    let given = Given::<T>::new(operands);
    let mut y = Output::<T>::new([given.batch, given.tokens, given.channels]);
    let mut states = Output::<T>::new(given.state_sizes());
    let tasks = given.tasks(y.rest(), states.rest());
    let run = |task| {
        vectorize(Forward {
            given: &given,
            task,
        });
    };
    match given.is_large() {
        true => each(tasks, run),
        false => tasks.into_iter().for_each(run),
    }
    Found {
        y: T::values(y.into_values()),
        state: T::values(states.into_values()),
    }
}

struct Forward<'a, 'o, T: Element> {
    given: &'a Given<'a, T>,
    task: Task<'o, T>,
}

impl<T: Element> pulp::WithSimd for Forward<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let (given, mut task) = (self.given, self.task);
        let (width, channels) = (given.width, task.channels.clone());
        let parameters = given.parameters(channels.clone());
        let mut ring = [[T::Acc::ZERO; BLOCK]; MOST];
        let mut sums = [T::Acc::ZERO; BLOCK];
        let (before, tokens) = (width - 1, task.rows.rows());
        for input in 0..before + tokens {
            let x = &mut ring[input % width];
            given.read(task.index, input, channels.clone(), x);
            if input < before {
                continue;
            }
            convolved(&parameters, &ring, (input + 1) % width, width, &mut sums);
            if given.silu {
                for sum in &mut sums {
                    *sum = *sum * sum.sigmoid();
                }
            }
            let row = task.rows.row().expect("a row for each token");
            row.write(sums.iter().map(|sum| T::round(*sum)));
        }
        for input in tokens..tokens + before {
            let row = task.state.row().expect("a row for each input");
            let x = &ring[input % width];
            row.write(x.iter().map(|x| T::round(*x)));
        }
    }
}
