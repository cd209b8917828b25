//! Pictures in their places among the tokens of an example or a batch.

use super::Picture;
use anyhow::Context;
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_models::vision::Grid;
use kernels_models::{CausalLm, SequencePictures};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// The pictures among some tokens, and the positions of all tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pictures {
    /// The position of each token in time, height and width. Empty if each token has its place in all three.
    pub positions: Vec<[i64; 3]>,
    /// The pictures, in the order of their tokens.
    pub list: Vec<Placed>,
}

/// A picture, and the tokens that stand for its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The picture.
    pub picture: Arc<Picture>,
    /// Its tokens.
    pub tokens: Range<usize>,
}

impl Pictures {
    /// Returns the number of patches of all pictures.
    pub fn patches(&self) -> usize {
        let patches = |placed: &Placed| placed.picture.grid().iter().product::<usize>();
        self.list.iter().map(patches).sum()
    }

    /// Returns the bytes of memory that places, positions, and pictures of `data:` URLs take.
    pub fn bytes(&self) -> usize {
        let own = self.list.iter().map(|placed| placed.picture.bytes());
        size_of_val(&self.positions[..]) + size_of_val(&self.list[..]) + own.sum::<usize>()
    }

    /// Returns the largest number of tokens, up to `length`, that ends with no part of a picture: `length`, or the start of
    /// the picture across it.
    pub fn end(&self, length: usize) -> usize {
        let across = |placed: &&Placed| placed.tokens.contains(&length);
        let across = self.list.iter().find(across);
        across.map_or(length, |placed| placed.tokens.start)
    }

    /// Removes the positions and pictures behind the first `length` tokens.
    pub fn cut(&mut self, length: usize) {
        self.positions.truncate(length);
        self.list.retain(|placed| placed.tokens.end <= length);
    }

    /// Adds the positions and pictures of a document of `length` tokens.
    pub fn append(&mut self, document: &Self, length: usize) {
        let start = self.positions.len();
        match document.positions.is_empty() {
            true => self.pad(length),
            false => self.positions.extend(&document.positions),
        }
        self.list.extend(document.list.iter().map(|placed| Placed {
            picture: placed.picture.clone(),
            tokens: start + placed.tokens.start..start + placed.tokens.end,
        }));
    }

    /// Adds the positions of a document of `length` tokens without pictures.
    pub fn pad(&mut self, length: usize) {
        self.positions.extend((0..length as i64).map(|at| [at; 3]));
    }

    /// Returns the positions and pictures of some tokens, which are whole sequences.
    pub fn part(&self, tokens: Range<usize>) -> Self {
        let inside = |placed: &&Placed| tokens.contains(&placed.tokens.start);
        let moved = |placed: &Placed| Placed {
            picture: placed.picture.clone(),
            tokens: placed.tokens.start - tokens.start..placed.tokens.end - tokens.start,
        };
        Self {
            positions: self.positions[tokens.clone()].to_vec(),
            list: self.list.iter().filter(inside).map(moved).collect(),
        }
    }

    /// Returns the features of the pictures by the model's tower, which is not trained, for sequences of this shape.
    ///
    /// # Errors
    /// Returns an error that names a picture that can't be read.
    pub fn seen(
        &self,
        model: &CausalLm,
        device: &Device,
        [sequences, length]: [usize; 2],
    ) -> anyhow::Result<SequencePictures> {
        let tower = model.vision_tower();
        let tower = tower.context("a model that sees was loaded with its tower")?;
        let values = self.list.par_iter().map(|placed| placed.picture.patches());
        let values: Vec<Vec<f32>> = values.collect::<anyhow::Result<_>>()?;
        let shape = [self.patches(), tower.config().pixels()];
        let values = TensorData::new(values.concat(), shape);
        let values = Tensor::from_data(values, (&device.clone().inner(), DType::F32));
        let grids = self.list.iter();
        let grids: Vec<Grid> = grids.map(|placed| placed.picture.grid().into()).collect();
        let axes = (0..3).flat_map(|axis| self.positions.iter().map(move |all| all[axis]));
        let axes = TensorData::new(axes.collect::<Vec<i64>>(), [3, sequences, length]);
        Ok(SequencePictures {
            features: tower.clone().valid().forward(values, &grids),
            places: self
                .list
                .iter()
                .flat_map(|placed| placed.tokens.clone())
                .collect(),
            position_ids: Tensor::from_data(axes, (device, DType::I64)),
        })
    }
}
