//! The batches of each step, as functions of seed and step.

use super::{Example, Row};
use crate::training::batch::{Batch, Labels, Source};
use crate::training::random::SplitMix64;
use kernels_models::Sequences;
use std::cell::RefCell;

/// The examples of a run, in rows.
pub struct Batches {
    examples: Vec<Example>,
    train: Vec<Row>,
    valid: Vec<Row>,
    seed: u64,
    sizes: Sizes,
    /// The order of the rows in an epoch that was asked for last.
    order: RefCell<(usize, Vec<usize>)>,
}

/// The sizes of steps.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// The number of rows in a batch.
    pub batch: usize,
    /// The number of batches in a step.
    pub accumulate: usize,
    /// True if the model can keep the examples of a row apart. Otherwise a row has one.
    pub packs: bool,
}

impl Batches {
    /// Creates the batches of a run.
    pub fn new(
        examples: Vec<Example>,
        [train, valid]: [Vec<Row>; 2],
        seed: u64,
        sizes: Sizes,
    ) -> Self {
        let order = RefCell::new((0, shuffled(seed, 0, train.len())));
        Self {
            examples,
            train,
            valid,
            seed,
            sizes,
            order,
        }
    }

    /// Returns the bytes of memory that the examples and rows take.
    pub fn bytes(&self) -> usize {
        let examples = self.examples.iter().map(Example::bytes);
        let rows = self.train.iter().chain(&self.valid);
        let rows = rows.map(|row| size_of::<Row>() + size_of_val(&row[..]));
        examples.chain(rows).sum()
    }

    fn batch(&self, rows: &[&Row]) -> Batch {
        let tokens = |row: &Row| {
            row.iter()
                .map(|number| self.examples[*number].ids.len())
                .sum()
        };
        let longest = rows.iter().map(|row| tokens(row)).max().unwrap_or(0);
        let mut all = Columns::default();
        for row in rows {
            for number in *row {
                all.add(&self.examples[*number]);
            }
            all.pad(longest - tokens(row));
        }
        let apart = self.sizes.packs && all.documents.len() > rows.len();
        Batch {
            shape: [rows.len(), longest],
            ids: all.ids,
            labels: Some(Labels {
                targets: all.targets,
                positions: all.positions,
                documents: apart.then_some(all.documents),
                mask: all.mask,
            }),
        }
    }
}

impl Source for Batches {
    fn training(&self, step: usize) -> Vec<Batch> {
        let steps = self.steps_per_epoch();
        let (epoch, step) = (step / steps, step % steps);
        let mut order = self.order.borrow_mut();
        if order.0 != epoch {
            *order = (epoch, shuffled(self.seed, epoch, self.train.len()));
        }
        let Sizes {
            batch, accumulate, ..
        } = self.sizes;
        let each = batch * accumulate;
        let rows = order.1.iter().skip(step * each).take(each);
        let rows: Vec<&Row> = rows.map(|row| &self.train[*row]).collect();
        rows.chunks(batch).map(|rows| self.batch(rows)).collect()
    }

    /// Returns the number of steps after which every row was trained on.
    fn steps_per_epoch(&self) -> usize {
        self.train
            .len()
            .div_ceil(self.sizes.batch.saturating_mul(self.sizes.accumulate))
    }

    fn validations(&self) -> usize {
        self.valid.len().div_ceil(self.sizes.batch)
    }

    fn validation(&self, index: usize) -> Batch {
        let batch = self.sizes.batch;
        let rows = self.valid.iter().skip(index * batch).take(batch);
        self.batch(&rows.collect::<Vec<_>>())
    }
}

/// Returns the order of the rows in an epoch.
fn shuffled(seed: u64, epoch: usize, rows: usize) -> Vec<usize> {
    let mut random = SplitMix64::of(seed, epoch as u64);
    let mut order: Vec<usize> = (0..rows).collect();
    for last in (1..rows).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

/// The tokens of a batch, row after row.
#[derive(Default)]
struct Columns {
    ids: Vec<i64>,
    targets: Vec<i64>,
    positions: Vec<i64>,
    documents: Vec<usize>,
    mask: Vec<i64>,
}

impl Columns {
    fn add(&mut self, example: &Example) {
        let length = example.ids.len();
        let start = self.targets.len();
        self.ids.extend(example.ids.iter().map(|id| i64::from(*id)));
        self.targets.resize(start + length, Sequences::IGNORED);
        for at in example
            .learned
            .iter()
            .cloned()
            .flatten()
            .filter(|at| *at > 0)
        {
            self.targets[start + at - 1] = i64::from(example.ids[at]);
        }
        self.positions.extend(0..length as i64);
        self.mask.resize(start + length, 1);
        self.documents.push(length);
    }

    /// Adds tokens without a target. They are a document of their own. Where documents are not kept apart, the example
    /// before them can't see what follows it.
    fn pad(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let length = self.targets.len() + count;
        self.ids.resize(length, 0);
        self.targets.resize(length, Sequences::IGNORED);
        self.positions.extend(0..count as i64);
        self.mask.resize(length, 0);
        self.documents.push(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(ids: Range, learned: Range) -> Example {
        Example {
            ids: ids.map(|id| id as u32).collect(),
            learned: std::iter::once(learned).collect(),
        }
    }

    type Range = std::ops::Range<usize>;

    fn sizes(accumulate: usize) -> Sizes {
        Sizes {
            batch: 2,
            accumulate,
            packs: true,
        }
    }

    #[test]
    fn targets_are_next_tokens_of_the_same_example() {
        let examples = vec![
            example(10..14, 2..4),
            example(20..22, 0..2),
            example(30..33, 1..2),
        ];
        let rows = [vec![vec![0, 1], vec![2]], vec![vec![1]]];
        let batches = Batches::new(examples, rows, 1, sizes(1));
        assert_eq!(batches.steps_per_epoch(), 1);
        let batch = batches.batch(&[&vec![0, 1], &vec![2]]);
        assert_eq!(batch.shape, [2, 6]);
        assert_eq!(batch.ids, [10, 11, 12, 13, 20, 21, 30, 31, 32, 0, 0, 0]);
        let labels = batch.labels.as_ref().unwrap();
        let none = Sequences::IGNORED;
        let expected = [
            none, 12, 13, none, 21, none, 31, none, none, none, none, none,
        ];
        assert_eq!(labels.targets, expected);
        assert_eq!(labels.positions, [0, 1, 2, 3, 0, 1, 0, 1, 2, 0, 1, 2]);
        assert_eq!(labels.documents, Some(vec![4, 2, 3, 3]));
        assert_eq!(labels.mask, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
        assert_eq!(batch.targets(), 4);
        assert_eq!(batches.validation(0).labels.unwrap().documents, None);
    }

    #[test]
    fn every_row_comes_once_in_an_epoch_and_in_another_order_in_the_next() {
        let examples: Vec<Example> = (0..7).map(|n| example(n..n + 2, 0..2)).collect();
        let rows = (0..7).map(|number| vec![number]).collect();
        let batches = Batches::new(examples, [rows, Vec::new()], 3, sizes(2));
        assert_eq!(batches.steps_per_epoch(), 2);
        let firsts = |step| -> Vec<i64> {
            let batches = batches.training(step);
            let ids = batches.iter().flat_map(|batch| batch.ids.clone());
            ids.step_by(2).collect()
        };
        let epoch = |number: usize| [firsts(2 * number), firsts(2 * number + 1)].concat();
        let (one, other) = (epoch(0), epoch(1));
        assert_ne!(one, other);
        assert_eq!(
            epoch(0),
            one,
            "a step's batches do not depend on those before"
        );
        for mut epoch in [one, other] {
            epoch.sort_unstable();
            assert_eq!(epoch, [0, 1, 2, 3, 4, 5, 6]);
        }
        assert_eq!(batches.validations(), 0);
    }
}
