//! The batches of each step, as functions of seed and step.

use super::{Example, Row};
use crate::pictures::Pictures;
use crate::training::batch::{Answers, Batch, Labels, Source};
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
    /// Each example's answer, if the loss is of answers. A row then has those of one prompt.
    labels: Option<Vec<Label>>,
    /// The order of the rows in an epoch that was asked for last.
    order: RefCell<(usize, Vec<usize>)>,
}

/// An answer: its prompt, how it is judged, and its log-probability under the reference model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// A number that tells its prompt apart.
    pub prompt: u64,
    /// True for a desirable answer. `None` for one of a pair.
    pub desirable: Option<bool>,
    /// Its log-probability by the reference.
    pub reference: Option<f64>,
    /// The least difference of the scores of its pair.
    pub margin: Option<f64>,
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
    /// The largest number of tokens of an answer with its prompt.
    pub length: usize,
    /// True if a loss of single answers needs each behind the prompt of another.
    pub mismatches: bool,
    /// True for a reward model, whose scores are those of last tokens.
    pub scores: bool,
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
            labels: None,
            order,
        }
    }

    /// Makes the examples answers.
    #[must_use]
    pub fn of_answers(mut self, labels: Vec<Label>) -> Self {
        self.labels = Some(labels);
        self
    }

    /// Has pairs score their last tokens.
    #[cfg(test)]
    pub fn of_scores(mut self) -> Self {
        self.sizes.scores = true;
        self
    }

    /// Returns the number of answers.
    pub fn answers(&self) -> usize {
        self.labels.as_ref().map_or(0, Vec::len)
    }

    /// Sets the log-probabilities of all answers by the reference.
    pub fn refer_to(&mut self, log_probs: &[f64]) {
        for (label, known) in self.labels.iter_mut().flatten().zip(log_probs) {
            label.reference = Some(*known);
        }
    }

    /// Returns all answers in batches, with their numbers, in order.
    pub fn in_parts(&self) -> impl Iterator<Item = (Vec<usize>, Batch)> {
        let numbers: Vec<usize> = (0..self.examples.len()).collect();
        let parts = numbers.chunks(2 * self.sizes.batch).map(<[usize]>::to_vec);
        let parts: Vec<Vec<usize>> = parts.collect();
        parts.into_iter().map(|numbers| {
            let examples: Vec<&Example> = numbers.iter().map(|at| &self.examples[*at]).collect();
            let batch = self.answer_batch(&examples, &[]);
            (numbers, batch)
        })
    }

    /// Returns the largest number of patches of pictures in a row.
    pub fn most_patches(&self) -> usize {
        let patches = |row: &Row| -> usize {
            let examples = row.iter().map(|number| &self.examples[*number]);
            examples.map(|example| example.pictures.patches()).sum()
        };
        let rows = self.train.iter().chain(&self.valid);
        rows.map(patches).max().unwrap_or(0)
    }

    /// Returns the bytes of memory that the examples and rows take.
    pub fn bytes(&self) -> usize {
        let examples = self.examples.iter().map(Example::bytes);
        let rows = self.train.iter().chain(&self.valid);
        let rows = rows.map(|row| size_of::<Row>() + size_of_val(&row[..]));
        examples.chain(rows).sum()
    }

    /// Returns the batches of a step of these rows, in their order.
    #[cfg(test)]
    pub fn in_order(&self, rows: &[usize]) -> Vec<Batch> {
        self.step(rows, &self.train)
    }

    /// Returns the rows of a training step, in their order.
    pub fn rows(&self, step: usize) -> Vec<usize> {
        let steps = self.steps_per_epoch();
        let (epoch, step) = (step / steps, step % steps);
        let mut order = self.order.borrow_mut();
        if order.0 != epoch {
            *order = (epoch, shuffled(self.seed, epoch, self.train.len()));
        }
        let Sizes {
            batch, accumulate, ..
        } = self.sizes;
        let each = batch.saturating_mul(accumulate);
        let rows = order
            .1
            .iter()
            .copied()
            .skip(step.saturating_mul(each))
            .take(each);
        rows.collect()
    }

    /// Returns the number of rows in a batch.
    pub fn rows_of_batch(&self) -> usize {
        self.sizes.batch
    }

    /// Returns the batches of the rows of a step.
    fn step(&self, rows: &[usize], of: &[Row]) -> Vec<Batch> {
        let Some(labels) = &self.labels else {
            let rows: Vec<&Row> = rows.iter().map(|row| &of[*row]).collect();
            return rows
                .chunks(self.sizes.batch)
                .map(|rows| self.batch(rows))
                .collect();
        };
        let answers: Vec<usize> = rows.iter().map(|row| of[*row][0]).collect();
        let others = match self.sizes.mismatches {
            true => others(&answers, labels),
            false => Vec::new(),
        };
        let batch = |(at, rows): (usize, &[usize])| {
            let rows: Vec<&Row> = rows.iter().map(|row| &of[*row]).collect();
            let numbers = (0..rows[0].len()).flat_map(|at| rows.iter().map(move |row| row[at]));
            let numbers: Vec<usize> = numbers.collect();
            let examples: Vec<&Example> = numbers.iter().map(|at| &self.examples[*at]).collect();
            let labels: Vec<Label> = numbers.iter().map(|at| labels[*at]).collect();
            let mut batch = self.answer_batch(&examples, &labels);
            if self.sizes.scores {
                self.score_ends(&mut batch, &examples, &labels);
            }
            if self.sizes.mismatches {
                let pairs = examples.iter().zip(&others[at * self.sizes.batch..]);
                let mismatched: Vec<Example> = pairs
                    .map(|(example, other)| {
                        example.answered_by(&self.examples[*other], self.sizes.length)
                    })
                    .collect();
                let mismatched = self.answer_batch(&mismatched.iter().collect::<Vec<_>>(), &[]);
                let answers = batch
                    .labels
                    .as_mut()
                    .and_then(|labels| labels.answers.as_mut());
                answers.expect("it has answers").mismatched = Some(Box::new(mismatched));
            }
            batch
        };
        let parts = rows.chunks(self.sizes.batch).enumerate();
        parts.map(batch).collect()
    }

    /// Has a batch of pairs score their last tokens.
    fn score_ends(&self, batch: &mut Batch, examples: &[&Example], labels: &[Label]) {
        let longest = batch.shape[1];
        let answers = batch
            .labels
            .as_mut()
            .and_then(|labels| labels.answers.as_mut());
        let answers = answers.expect("it has answers");
        let mut start = 0;
        let ends = examples.iter().map(|example| {
            let end = start + example.ids.len() - 1;
            start += if self.sizes.packs {
                example.ids.len()
            } else {
                longest
            };
            end
        });
        answers.places = ends.collect();
        answers.lengths = vec![1; examples.len()];
        let margins = labels[..labels.len() / 2].iter();
        let margins: Vec<f64> = margins.map(|label| label.margin.unwrap_or(0.0)).collect();
        answers.margins = margins
            .iter()
            .any(|margin| *margin != 0.0)
            .then_some(margins);
    }

    /// Returns a batch of answers: in one sequence, if documents can be kept apart.
    pub fn answer_batch(&self, examples: &[&Example], labels: &[Label]) -> Batch {
        let lengths = examples.iter().map(|example| example.ids.len());
        let longest = match self.sizes.packs {
            true => lengths.sum(),
            false => lengths.max().unwrap_or(0),
        };
        let mut all = Columns::default();
        for example in examples {
            all.add(example);
            if !self.sizes.packs {
                all.pad(longest - example.ids.len());
            }
        }
        let reference = labels
            .iter()
            .map(|label| label.reference)
            .collect::<Option<Vec<_>>>();
        let places = all.targets.iter().enumerate();
        let places = places.filter(|(_, target)| **target != Sequences::IGNORED);
        let answers = Answers {
            lengths: examples.iter().map(|example| example.targets()).collect(),
            places: places.map(|(place, _)| place).collect(),
            reference: reference.filter(|known| !known.is_empty()),
            desirable: labels.iter().map(|label| label.desirable).collect(),
            mismatched: None,
            margins: None,
            rollout: None,
        };
        let rows = if self.sizes.packs { 1 } else { examples.len() };
        Batch {
            shape: [rows, longest],
            ids: all.ids,
            labels: Some(Labels {
                targets: all.targets,
                positions: all.positions,
                documents: (self.sizes.packs && examples.len() > 1).then_some(all.documents),
                mask: all.mask,
                answers: Some(answers),
                pictures: None,
            }),
        }
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
                answers: None,
                pictures: Some(all.pictures).filter(|own| !own.list.is_empty()),
            }),
        }
    }
}

impl Source for Batches {
    fn training(&self, step: usize) -> Vec<Batch> {
        self.step(&self.rows(step), &self.train)
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
        let rows = (0..self.valid.len()).skip(index * batch).take(batch);
        let mut batches = self.step(&rows.collect::<Vec<_>>(), &self.valid);
        batches.pop().expect("a validation has rows")
    }
}

/// Returns an answer to another prompt for each answer of a step: the nearest before it in the step or, if the step has one
/// prompt alone, the next of all.
fn others(answers: &[usize], labels: &[Label]) -> Vec<usize> {
    let count = answers.len();
    let other = |(at, own): (usize, &usize)| {
        let before = (1..count).map(|back| answers[(at + count - back) % count]);
        let behind = (1..labels.len()).map(|ahead| (own + ahead) % labels.len());
        let is_other = |other: &usize| labels[*other].prompt != labels[*own].prompt;
        let other = before.chain(behind).find(is_other);
        other.expect("a loss that compares with other prompts has some")
    };
    answers.iter().enumerate().map(other).collect()
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
    pictures: Pictures,
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
        self.pictures.append(&example.pictures, length);
        self.mask.resize(start + length, 1);
        self.documents.push(length);
    }

    /// Adds tokens without a target. They are a document of their own. Where documents are not kept apart, the example
    /// before them can't see later tokens.
    fn pad(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let length = self.targets.len() + count;
        self.ids.resize(length, 0);
        self.targets.resize(length, Sequences::IGNORED);
        self.positions.extend(0..count as i64);
        self.pictures.pad(count);
        self.mask.resize(length, 0);
        self.documents.push(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(ids: Range, learned: Range) -> Example {
        let ids = ids.map(|id| id as u32).collect();
        Example::new(ids, std::iter::once(learned).collect())
    }

    type Range = std::ops::Range<usize>;

    fn sizes(accumulate: usize) -> Sizes {
        Sizes {
            batch: 2,
            accumulate,
            packs: true,
            length: 8,
            mismatches: false,
            scores: false,
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
    fn answers_are_compared_with_those_to_the_nearest_other_prompt() {
        let label = |prompt| Label {
            prompt,
            desirable: Some(true),
            reference: None,
            margin: None,
        };
        let labels = [7, 7, 8, 7, 9].map(label);
        assert_eq!(others(&[0, 1, 2, 3], &labels), [2, 2, 1, 2]);
        assert_eq!(others(&[4, 2, 0], &labels), [0, 4, 2]);
        // Steps of one prompt.
        assert_eq!(others(&[0, 3], &labels), [2, 4]);
        assert_eq!(others(&[4], &labels), [0]);
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
