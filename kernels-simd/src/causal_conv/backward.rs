use super::given::{BLOCK, Given, MOST, Row, Task, Tokens, convolved};
use super::{Gradients, Operands};
use crate::lanes::vectorize;
use crate::packed::Sequence;
use crate::share::map;
use crate::{Element, Number as _, Output, Real, View};

/// The number of tokens whose terms are summed in the type of the kernel.
const TOGETHER: usize = 256;

/// Returns the gradients.
pub(super) fn backward<T: Element>(
    operands: &Operands<'_>,
    dy: &View<'_>,
    dstate: Option<&View<'_>>,
) -> Gradients {
    let given = Given::<T>::new(operands);
    let sizes = [given.batch, given.tokens, given.channels];
    let known = Known {
        dy: Tokens::new(dy, &sizes),
        dstate: given.states(dstate),
    };
    let mut dx = Output::<T>::new(sizes);
    let mut states = Output::<T>::new(given.state_sizes());
    let tasks = given.tasks(dx.rest(), states.rest());
    let run = |task: Task<'_, T>| {
        let first = task.channels.start;
        let sums = vectorize(Backward {
            given: &given,
            known: &known,
            task,
        });
        (first, sums)
    };
    let sums = match given.is_large() {
        true => map(tasks, run),
        false => tasks.into_iter().map(run).collect(),
    };
    let mut totals = vec![0.0; given.channels * (MOST + 1)];
    for (first, sums) in sums {
        let rows = totals
            .chunks_exact_mut(given.channels.max(1))
            .zip(sums.totals.iter());
        for (totals, sums) in rows {
            totals[first..]
                .iter_mut()
                .zip(sums)
                .for_each(|(total, sum)| *total += sum);
        }
    }
    let at =
        |row: usize, channel: usize| T::round(T::Acc::of(totals[row * given.channels + channel]));
    let all = 0..given.channels;
    let weights = all
        .clone()
        .flat_map(|channel| (0..given.width).map(move |j| (j, channel)));
    Gradients {
        x: T::values(dx.into_values()),
        weight: T::values(weights.map(|(j, channel)| at(j, channel)).collect()),
        bias: T::values(all.map(|channel| at(MOST, channel)).collect()),
        state: T::values(states.into_values()),
    }
}

/// The tensors that the pass begins with.
struct Known<'a, T> {
    dy: Tokens<'a, T>,
    /// The gradients of the last states, empty if they are zero.
    dstate: &'a [T],
}

/// The sums over the tokens of some channels: a row for each weight, and the last for the bias.
struct Sums<A> {
    totals: Box<[Row<f64>; MOST + 1]>,
    /// Those of a few tokens.
    recent: Box<[Row<A>; MOST + 1]>,
}

impl<A: Real> Sums<A> {
    fn new() -> Self {
        Self {
            totals: Box::new([[0.0; BLOCK]; MOST + 1]),
            recent: Box::new([[A::ZERO; BLOCK]; MOST + 1]),
        }
    }

    /// Adds the recent terms to the totals.
    #[inline(always)]
    fn flush(&mut self) {
        for (totals, recent) in self.totals.iter_mut().zip(self.recent.iter_mut()) {
            for (total, recent) in totals.iter_mut().zip(recent) {
                *total += recent.into_f64();
                *recent = A::ZERO;
            }
        }
    }
}

struct Backward<'a, 'o, T: Element> {
    given: &'a Given<'a, T>,
    known: &'a Known<'a, T>,
    task: Task<'o, T>,
}

impl<T: Element> pulp::WithSimd for Backward<'_, '_, T> {
    type Output = Sums<T::Acc>;

    /// Passes over the inputs of the sequence and, behind them, `width − 1` tokens without a gradient. After each token, the
    /// gradient of the oldest input of its sum is complete.
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Sums<T::Acc> {
        let (given, known, mut task) = (self.given, self.known, self.task);
        let (width, channels) = (given.width, task.channels.clone());
        let parameters = given.parameters(channels.clone());
        let Sequence { row, tokens } = &given.sequences[task.index];
        let zero = [T::Acc::ZERO; BLOCK];
        let (mut inputs, mut gradients) = ([zero; MOST], [zero; MOST]);
        let (mut sum, mut dx, mut last) = (zero, zero, zero);
        let mut sums = Sums::new();
        for input in 0..width - 1 {
            given.read(
                task.index,
                input,
                channels.clone(),
                &mut inputs[input % width],
            );
        }
        for token in 0..tokens.len() + width - 1 {
            let d = &mut gradients[token % width];
            if token < tokens.len() {
                let input = token + width - 1;
                given.read(
                    task.index,
                    input,
                    channels.clone(),
                    &mut inputs[input % width],
                );
                convolved(&parameters, &inputs, token % width, width, &mut sum);
                super::given::load(
                    &known.dy.row(*row, tokens.start + token)[channels.clone()],
                    d,
                );
                if given.silu {
                    for (d, sum) in d.iter_mut().zip(&sum) {
                        *d = *d * sum.silu_with_slope().1;
                    }
                }
                for age in 0..width {
                    let x = &inputs[(token + age) % width];
                    for channel in 0..BLOCK {
                        let total = &mut sums.recent[age][channel];
                        *total = d[channel].mul_add(x[channel], *total);
                    }
                }
                for (total, d) in sums.recent[MOST].iter_mut().zip(&*d) {
                    *total += *d;
                }
                if token % TOGETHER == TOGETHER - 1 {
                    sums.flush();
                }
            } else {
                d.fill(T::Acc::ZERO);
            }
            // The oldest input of the sum of this token is input `token`. Of the tokens that it is in, this is the last.
            dx.fill(T::Acc::ZERO);
            for age in 0..width {
                let d = &gradients[(token + width - age) % width];
                let weight = &parameters.weight[age];
                for channel in 0..BLOCK {
                    dx[channel] = d[channel].mul_add(weight[channel], dx[channel]);
                }
            }
            if let Some(place) = token.checked_sub(tokens.len()) {
                given.read_state(
                    known.dstate,
                    (task.index, place),
                    channels.clone(),
                    &mut last,
                );
                dx.iter_mut().zip(&last).for_each(|(dx, last)| *dx += *last);
            }
            let out = if token < width - 1 {
                task.state.row()
            } else {
                task.rows.row()
            };
            let out = out.expect("a row for each input");
            out.write(dx.iter().map(|dx| T::round(*dx)));
        }
        sums.flush();
        sums
    }
}
