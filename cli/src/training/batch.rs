//! The token ids of one pass.

#[cfg(feature = "text")]
use crate::pictures::Pictures;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use kernels_models::preference::Metric;
use kernels_models::{CausalLm, Sequences};
use std::ops::Range;

/// Sequences of token ids, on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The number of sequences, and of tokens in each.
    pub shape: [usize; 2],
    /// The token ids, sequence after sequence.
    pub ids: Vec<i64>,
    /// The targets. Without them, each token is the target of the one before it.
    #[cfg(feature = "text")]
    pub labels: Option<Labels>,
}

/// The targets and places of the tokens of a batch.
#[cfg(feature = "text")]
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// The target of each token, or [`Sequences::IGNORED`].
    pub targets: Vec<i64>,
    /// The position of each token in its document.
    pub positions: Vec<i64>,
    /// The lengths of all documents, if a sequence has several.
    pub documents: Option<Vec<usize>>,
    /// 1 for each token, and 0 for padding.
    pub mask: Vec<i64>,
    /// The answers, if the loss is of answers and not of tokens. The targets are then their tokens.
    pub answers: Option<Answers>,
    /// The pictures among the tokens, whose positions are then in place of `positions`.
    pub pictures: Option<Pictures>,
}

/// The answers of a batch, each a document.
#[cfg_attr(not(feature = "text"), allow(dead_code))] // `train` has no answers
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// The number of targets of each answer, in order. The chosen answers of pairs come before the rejected ones.
    pub lengths: Vec<usize>,
    /// The sums of their log-probabilities by the reference model, if they are known.
    pub reference: Option<Vec<f64>>,
    /// The places of the targets in the batch, in the same order.
    pub places: Vec<usize>,
    /// True for each desirable answer. `None` for pairs.
    pub desirable: Option<Vec<bool>>,
    /// The same answers behind prompts of others, if the loss needs them.
    pub mismatched: Option<Box<Batch>>,
    /// The margins of pairs, for a reward model. The places are then those of the answers' last tokens.
    pub margins: Option<Vec<f64>>,
    /// The rewards and log-probabilities of completions.
    pub rollout: Option<Rollout>,
}

/// The rewards and log-probabilities of completions, which are the answers of a batch.
#[cfg_attr(not(feature = "text"), allow(dead_code))]
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// The advantage of each completion.
    pub advantages: Vec<f64>,
    /// True for each completion whose tokens count in the loss.
    pub counts: Vec<bool>,
    /// The log-probabilities of all their tokens by the model that wrote them. `None` if that is the model as it is.
    pub old: Option<Vec<f64>>,
    /// The metrics of the completions.
    pub metrics: Vec<Metric>,
}

#[cfg_attr(not(feature = "text"), allow(dead_code))]
impl Answers {
    /// Returns the number of pairs, or of single answers or completions.
    pub fn count(&self) -> usize {
        match self.desirable.is_some() || self.rollout.is_some() {
            true => self.lengths.len(),
            false => self.lengths.len() / 2,
        }
    }

    /// Returns `true` for each target of a chosen or desirable answer. `None` for completions with rewards.
    pub fn kinds(&self) -> Option<Vec<bool>> {
        if self.rollout.is_some() {
            return None;
        }
        let kind = |answer: usize| match &self.desirable {
            Some(desirable) => desirable[answer],
            None => answer < self.count(),
        };
        let each = self.lengths.iter().enumerate();
        let kinds = each.flat_map(|(answer, length)| std::iter::repeat_n(kind(answer), *length));
        Some(kinds.collect())
    }

    /// Returns the number of tokens that count in the loss.
    pub fn tokens(&self) -> usize {
        let counts = |answer: usize| match &self.rollout {
            Some(rollout) => rollout.counts[answer],
            None => true,
        };
        let each = self.lengths.iter().enumerate();
        each.filter(|(answer, _)| counts(*answer))
            .map(|(_, length)| length)
            .sum()
    }
}

impl Batch {
    /// Returns the token ids as a tensor `[sequences, tokens]`.
    pub fn input_ids(&self, device: &Device) -> Tensor<2, Int> {
        self.tensor(&self.ids, device)
    }

    fn tensor(&self, values: &[i64], device: &Device) -> Tensor<2, Int> {
        let data = TensorData::new(values.to_vec(), self.shape);
        Tensor::from_data(data, (device, DType::I64))
    }

    /// Returns `true` if the batch has targets of its own.
    pub fn has_targets(&self) -> bool {
        #[cfg(feature = "text")]
        return self.labels.is_some();
        #[cfg(not(feature = "text"))]
        false
    }

    /// Returns the sequences with their targets, and with their pictures as the model's tower sees them.
    ///
    /// # Errors
    /// Returns an error that names a picture that can't be read.
    pub fn seen(&self, model: &CausalLm, device: &Device) -> anyhow::Result<Sequences> {
        let sequences = self.sequences(device);
        #[cfg(feature = "text")]
        if let Some(pictures) = self.labels.as_ref().and_then(|own| own.pictures.as_ref()) {
            return Ok(Sequences {
                pictures: Some(pictures.seen(model, device, self.shape)?),
                ..sequences
            });
        }
        let _ = model;
        Ok(sequences)
    }

    /// Returns the sequences with their targets, without pictures.
    pub fn sequences(&self, device: &Device) -> Sequences {
        #[cfg(feature = "text")]
        if let Some(labels) = &self.labels {
            return Sequences {
                input_ids: self.input_ids(device),
                targets: self.tensor(&labels.targets, device),
                position_ids: self.tensor(&labels.positions, device),
                documents: labels.documents.clone(),
                attention_mask: labels
                    .mask
                    .contains(&0)
                    .then(|| self.tensor(&labels.mask, device)),
                pictures: None,
            };
        }
        let length = self.shape[1].max(1);
        let next = |at: usize| match (at + 1).is_multiple_of(length) {
            true => Sequences::IGNORED,
            false => self.ids[at + 1],
        };
        let targets: Vec<i64> = (0..self.ids.len()).map(next).collect();
        let positions: Vec<i64> = (0..self.ids.len()).map(|at| (at % length) as i64).collect();
        Sequences {
            input_ids: self.input_ids(device),
            targets: self.tensor(&targets, device),
            position_ids: self.tensor(&positions, device),
            documents: None,
            attention_mask: None,
            pictures: None,
        }
    }

    /// Returns a share of the sequences for each of several devices, in order. The shares differ by at most one sequence,
    /// and the last ones are empty if there are too few.
    pub fn shares(&self, count: usize) -> Vec<Self> {
        let sequences = self.shape[0];
        let start = |share: usize| share * (sequences / count) + share.min(sequences % count);
        (0..count)
            .map(|share| self.rows(start(share)..start(share + 1)))
            .collect()
    }

    /// Returns the share of a rank in each batch of a step. Ranks take sequences in turn from batch to batch, so that small
    /// batches leave none without work. A share can be empty, or without a target.
    #[cfg(feature = "distributed")]
    pub fn of_rank(batches: &[Self], rank: usize, ranks: usize) -> Vec<Self> {
        let mut before = 0;
        let shares = batches.iter().map(|batch| {
            let share = (rank + ranks - before % ranks) % ranks;
            before += batch.shape[0];
            batch.shares(ranks).swap_remove(share)
        });
        shares.collect()
    }

    /// Returns some of the sequences.
    fn rows(&self, rows: Range<usize>) -> Self {
        let length = self.shape[1];
        let tokens = rows.start * length..rows.end * length;
        Self {
            shape: [rows.len(), length],
            ids: self.ids[tokens.clone()].to_vec(),
            #[cfg(feature = "text")]
            labels: self.labels.as_ref().map(|labels| labels.part(tokens)),
        }
    }

    /// Returns the number of tokens.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Returns the number of targets, pairs or single answers that the loss is a mean of.
    pub fn counted(&self) -> usize {
        match self.answers() {
            Some(answers) => answers.count(),
            None => self.targets(),
        }
    }

    /// Returns the answers, if the loss is of answers.
    pub fn answers(&self) -> Option<&Answers> {
        #[cfg(feature = "text")]
        return self.labels.as_ref()?.answers.as_ref();
        #[cfg(not(feature = "text"))]
        None
    }

    /// Returns the places of tokens whose target is a token.
    pub fn learned(&self) -> Vec<usize> {
        #[cfg(feature = "text")]
        if let Some(labels) = &self.labels {
            let targets = labels.targets.iter().enumerate();
            let learned = targets.filter(|(_, target)| **target != Sequences::IGNORED);
            return learned.map(|(place, _)| place).collect();
        }
        let length = self.shape[1].max(1);
        let places = 0..self.ids.len();
        places
            .filter(|place| !(place + 1).is_multiple_of(length))
            .collect()
    }

    /// Returns the places of tokens with a target. For answers that are compared or judged, adds `true` for each token
    /// of a chosen or desirable answer.
    pub fn scored(&self) -> (Vec<usize>, Option<Vec<bool>>) {
        match self.answers() {
            Some(answers) => (answers.places.clone(), answers.kinds()),
            None => (self.learned(), None),
        }
    }

    /// Returns the target of the token at a place that has one.
    pub fn target(&self, place: usize) -> i64 {
        #[cfg(feature = "text")]
        if let Some(labels) = &self.labels {
            return labels.targets[place];
        }
        self.ids[place + 1]
    }

    /// Returns the number of tokens that are a target.
    pub fn targets(&self) -> usize {
        #[cfg(feature = "text")]
        if let Some(labels) = &self.labels {
            let targets = labels.targets.iter();
            return targets
                .filter(|target| **target != Sequences::IGNORED)
                .count();
        }
        let [sequences, tokens] = self.shape;
        sequences * tokens.saturating_sub(1)
    }
}

#[cfg(feature = "text")]
impl Labels {
    /// Returns the labels of some tokens. These are whole sequences, so that no document is cut.
    fn part(&self, tokens: Range<usize>) -> Self {
        let documents = self.documents.as_ref().map(|lengths| {
            let mut end = 0;
            let ends = lengths.iter().map(|length| {
                end += length;
                (end, *length)
            });
            let inside = ends.filter(|(end, _)| *end > tokens.start && *end <= tokens.end);
            inside.map(|(_, length)| length).collect()
        });
        let pictures = self.pictures.as_ref();
        let pictures = pictures.map(|pictures| pictures.part(tokens.clone()));
        Self {
            pictures: pictures.filter(|own| !own.list.is_empty()),
            targets: self.targets[tokens.clone()].to_vec(),
            positions: self.positions[tokens.clone()].to_vec(),
            documents,
            mask: self.mask[tokens].to_vec(),
            // A run with a loss of answers has one device.
            answers: None,
        }
    }
}

/// The data of a run. Batches are functions of their number alone, so a run can go on from any step.
pub trait Source {
    /// Returns the batches of a training step, counted from 0. Their gradients are added up.
    fn training(&self, step: usize) -> Vec<Batch>;

    /// Returns the batches of a training step of this model, if they depend on it.
    ///
    /// # Errors
    /// Returns an error if the device fails, or if batches can't be made.
    fn batches(&self, step: usize, model: &CausalLm) -> anyhow::Result<Vec<Batch>> {
        let _ = model;
        Ok(self.training(step))
    }

    /// Returns the number of updates of the model by the batches of a step.
    fn updates(&self) -> usize {
        1
    }

    /// Returns the number of steps in which as much is seen as the training data has. It is at least 1.
    fn steps_per_epoch(&self) -> usize;

    /// Returns the number of batches in a validation.
    fn validations(&self) -> usize;

    /// Returns a batch of the held-out data, counted from 0.
    fn validation(&self, index: usize) -> Batch;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(sequences: usize) -> Batch {
        Batch {
            shape: [sequences, 2],
            ids: (0..2 * sequences as i64).collect(),
            #[cfg(feature = "text")]
            labels: None,
        }
    }

    #[test]
    fn every_sequence_is_in_one_share() {
        for (sequences, count) in [(4, 2), (5, 2), (1, 3), (7, 3), (3, 1)] {
            let all = batch(sequences);
            let shares = all.shares(count);
            assert_eq!(shares.len(), count);
            let sizes: Vec<usize> = shares.iter().map(|share| share.shape[0]).collect();
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{sizes:?}");
            let ids: Vec<i64> = shares.iter().flat_map(|share| share.ids.clone()).collect();
            assert_eq!(ids, all.ids);
        }
    }

    #[cfg(feature = "distributed")]
    #[test]
    fn ranks_take_small_batches_in_turn() {
        let batches = [batch(1), batch(1), batch(3)];
        let of = |rank| {
            let share = Batch::of_rank(&batches, rank, 2);
            share.iter().map(|part| part.shape[0]).collect::<Vec<_>>()
        };
        assert_eq!(of(0), [1, 0, 2]);
        assert_eq!(of(1), [0, 1, 1]);
        let of = |rank| Batch::of_rank(&batches[..1], rank, 3)[0].shape[0];
        assert_eq!([of(0), of(1), of(2)], [1, 0, 0]);
    }

    #[cfg(feature = "text")]
    #[test]
    fn labels_and_documents_follow_their_sequences() {
        let none = Sequences::IGNORED;
        let mut all = batch(3);
        all.labels = Some(Labels {
            targets: vec![1, none, none, 2, 3, 4],
            positions: vec![0, 1, 0, 0, 0, 1],
            documents: Some(vec![2, 1, 1, 2]),
            mask: vec![1, 1, 1, 0, 1, 1],
            answers: None,
            pictures: None,
        });
        let shares = all.shares(2);
        let labels: Vec<&Labels> = shares
            .iter()
            .map(|share| share.labels.as_ref().unwrap())
            .collect();
        assert_eq!(labels[0].targets, [1, none, none, 2]);
        assert_eq!(labels[1].positions, [0, 1]);
        assert_eq!(labels[0].mask, [1, 1, 1, 0]);
        let of = |share: &Batch| share.sequences(&Device::flex()).attention_mask;
        assert!(of(&shares[0]).is_some() && of(&shares[1]).is_none());
        assert_eq!(labels[0].documents, Some(vec![2, 1, 1]));
        assert_eq!(labels[1].documents, Some(vec![2]));
        assert_eq!([shares[0].targets(), shares[1].targets()], [2, 2]);
    }
}
