//! The token ids of one pass.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use kernels_models::Sequences;

/// Sequences of token ids, on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The target of each token, or [`Sequences::IGNORED`].
    pub targets: Vec<i64>,
    /// The position of each token in its document.
    pub positions: Vec<i64>,
    /// The lengths of all documents, if a sequence has several.
    pub documents: Option<Vec<usize>>,
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

    /// Returns the sequences with their targets.
    pub fn sequences(&self, device: &Device) -> Sequences {
        #[cfg(feature = "text")]
        if let Some(labels) = &self.labels {
            return Sequences {
                input_ids: self.input_ids(device),
                targets: self.tensor(&labels.targets, device),
                position_ids: self.tensor(&labels.positions, device),
                documents: labels.documents.clone(),
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
        }
    }

    /// Returns the number of tokens.
    pub fn tokens(&self) -> usize {
        self.ids.len()
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

/// The data of a run. Batches are functions of their number alone, so a run can go on from any step.
pub trait Source {
    /// Returns the batches of a training step, counted from 0. Their gradients are added up.
    fn training(&self, step: usize) -> Vec<Batch>;

    /// Returns the number of batches in a validation.
    fn validations(&self) -> usize;

    /// Returns a batch of the held-out data, counted from 0.
    fn validation(&self, index: usize) -> Batch;
}
