//! Pictures among the tokens of a batch.

use burn::module::Module;
use burn::tensor::{DType, Int, Tensor, TensorData};

use crate::config::ModelConfig;
use crate::error::ModelError;
use crate::layers::layer::Residual;
use crate::model::batch::{Batch, PositionIds};
use crate::model::causal_lm::CausalLm;
use crate::model::vision::{VisionFeatures, VisionTower, indices};
use crate::vision::{Grid, TokenPositions, Tokens};

/// The pictures of a batch, in the order of their tokens.
#[derive(Clone, Debug)]
pub(crate) struct Pictures {
    /// The values of patches, `[patches, values]`.
    pixel_values: Tensor<2>,
    /// Frames, rows and columns of patches, `[pictures, 3]`.
    image_grid_thw: Tensor<2, Int>,
}

impl Batch {
    /// Sets the pictures, whose parts some of the tokens stand for, row by row: their patches `pixel_values`
    /// `[patches, values]`, and `image_grid_thw` `[pictures, 3]`, the frames, rows and columns of patches of each. Without
    /// explicit positions, tokens have those of `get_rope_index` in `transformers`.
    ///
    /// [`CausalLm::output_of`], [`CausalLm::loss_of`] and [`CausalLm::losses_of`] take pictures, of a model with its
    /// [vision tower](crate::load_with_vision). [`CausalLm::generate_with_pictures`] continues prompts with them.
    #[must_use]
    pub fn with_pictures(self, pixel_values: Tensor<2>, image_grid_thw: Tensor<2, Int>) -> Self {
        Self {
            pictures: Some(Pictures {
                pixel_values,
                image_grid_thw,
            }),
            ..self
        }
    }
}

/// The places of pictures in a batch.
struct Placed {
    grids: Vec<Grid>,
    positions: TokenPositions,
}

/// The features of pictures, for the layers of a text model.
pub(crate) struct SeenPictures {
    /// The tokens of pictures, `[n, hidden]`.
    embeddings: Tensor<2>,
    /// The places of these tokens: `row · s + column`.
    places: Vec<usize>,
    /// The features that are added behind the first layers, `[b, s, hidden]` each.
    added: Vec<Tensor<3>>,
    /// The number of positions that the tokens of pictures share with others, of each row of a prompt. A picture has at least
    /// as many tokens as positions.
    pub(crate) shared: Vec<usize>,
}

/// The pictures of [`Sequences`](crate::Sequences), as features of the vision tower. The features of a tower that is not
/// trained have no autodiff.
#[derive(Clone, Debug)]
pub struct SequencePictures {
    /// The features of all pictures, in the dtype of the weights.
    pub features: VisionFeatures,
    /// The place of each token of the pictures, in their order: `row · s + column`.
    pub places: Vec<usize>,
    /// The positions of all tokens, `[3, b, s]`: time, height and width.
    pub position_ids: Tensor<3, Int>,
}

impl SequencePictures {
    /// Checks shapes and places, for sequences of this shape.
    pub(crate) fn check(&self, config: &ModelConfig, shape: [usize; 2]) -> Result<(), ModelError> {
        let [rows, columns] = shape;
        let (tokens, hidden) = (self.places.len(), config.hidden_size);
        let deepstack = &self.features.deepstack;
        let mut features = deepstack.iter().chain([&self.features.embeddings]);
        let mut places = self.places.clone();
        places.sort_unstable();
        places.dedup();
        let positions = self.position_ids.dims();
        let problem = if config.rope.sections.is_none() {
            format!("tokens of {} have one position", config.architecture)
        } else if positions != [3, rows, columns] {
            format!("expected positions of shape [3, {rows}, {columns}], found {positions:?}")
        } else if places.len() < tokens || places.last().is_some_and(|last| *last >= rows * columns)
        {
            format!("their places are not those of {tokens} of {rows} × {columns} tokens")
        } else if let Some(other) = features.find(|own| own.dims() != [tokens, hidden]) {
            let found = other.dims();
            format!("expected features of shape [{tokens}, {hidden}], found {found:?}")
        } else if deepstack.len() > config.num_hidden_layers {
            let (found, layers) = (deepstack.len(), config.num_hidden_layers);
            format!("features for {found} layers are more than the {layers} of the model")
        } else {
            return Ok(());
        };
        Err(ModelError::Input {
            input: "pictures",
            problem,
        })
    }

    /// Returns the positions, and the features in their places.
    pub(crate) fn seen(self, shape: [usize; 2]) -> (Tensor<3, Int>, SeenPictures) {
        let Self {
            features,
            places,
            position_ids,
        } = self;
        let added = features.deepstack.into_iter();
        let added = added.map(|own| spread(own, &places, shape));
        let seen = SeenPictures {
            embeddings: features.embeddings,
            added: added.collect(),
            shared: Vec::new(),
            places,
        };
        (position_ids, seen)
    }
}

impl CausalLm {
    /// Returns the vision tower, if the model was loaded with it.
    pub fn vision_tower(&self) -> Option<&VisionTower> {
        self.visual.as_ref()
    }

    /// Adds a vision tower.
    pub(crate) fn with_vision(self, tower: VisionTower) -> Self {
        Self {
            visual: Some(tower),
            ..self
        }
    }

    /// Freezes the vision tower, with its merger, and passes the rest of the model to `change`, such as
    /// [`with_adapters`](Self::with_adapters), whose targets are then those of the language model alone.
    ///
    /// # Errors
    /// Returns the error of `change`.
    pub fn beside_frozen_vision<E>(
        mut self,
        change: impl FnOnce(Self) -> Result<Self, E>,
    ) -> Result<Self, E> {
        let visual = self.visual.take().map(Module::no_grad);
        Ok(Self {
            visual,
            ..change(self)?
        })
    }

    /// Checks the pictures of a batch, whose token ids are in the vocabulary.
    pub(crate) fn check_pictures(&self, batch: &Batch) -> Result<(), ModelError> {
        let Some(pictures) = &batch.pictures else {
            return Ok(());
        };
        self.place(batch, pictures).map(drop)
    }

    /// Finds the pictures of a batch among its tokens.
    fn place(&self, batch: &Batch, pictures: &Pictures) -> Result<Placed, ModelError> {
        let Some(tower) = &self.visual else {
            return Err(ModelError::Input {
                input: "pixel_values",
                problem: "the model was loaded without a vision tower, which reads pictures".into(),
            });
        };
        let config = tower.config();
        let grids = config.grids(&pictures.pixel_values, &pictures.image_grid_thw)?;
        let ids = batch.input_ids.try_to_vec_as::<i64>();
        let ids = ids.map_err(|error| ModelError::Input {
            input: "input_ids",
            problem: format!("cannot be read from the device: {error}"),
        })?;
        let [_, columns] = batch.input_ids.dims();
        let tokens = Tokens {
            ids: &ids,
            columns,
            is_token: batch.padding.as_ref().map(|padding| padding.is_token()),
            marks: config.marks.expect("the tower is part of a whole model"),
        };
        let positions = tokens.positions(&grids, &[], config.spatial_merge_size)?;
        Ok(Placed { positions, grids })
    }

    /// Returns a batch with the positions of its tokens, and the features of its pictures.
    ///
    /// # Errors
    /// Returns an error as [`check_pictures`](Self::check_pictures) does.
    pub(crate) fn see(
        &self,
        mut batch: Batch,
    ) -> Result<(Batch, Option<SeenPictures>), ModelError> {
        let Some(pictures) = batch.pictures.take() else {
            return Ok((batch, None));
        };
        let Placed { grids, positions } = self.place(&batch, &pictures)?;
        let [rows, columns] = batch.input_ids.dims();
        let device = batch.input_ids.device();
        if batch.position_ids.is_none() {
            let ids = TensorData::new(positions.ids, [3, rows, columns]);
            let ids = Tensor::<3, Int>::from_data(ids, (&device, DType::I64));
            batch.position_ids = Some(PositionIds::Axes(ids));
        }
        let tower = self
            .visual
            .as_ref()
            .expect("pictures have places with a tower");
        let features = tower.forward(pictures.pixel_values, &grids);
        let places = positions.images;
        let added = features.deepstack.into_iter();
        let added = added.map(|own| spread(own, &places, [rows, columns]));
        let shared = positions.deltas.iter();
        let shared = shared.map(|delta| usize::try_from(-delta).unwrap_or(0));
        let seen = SeenPictures {
            embeddings: features.embeddings,
            added: added.collect(),
            shared: shared.collect(),
            places,
        };
        Ok((batch, Some(seen)))
    }
}

impl SeenPictures {
    /// Returns the features without a gradient.
    pub(crate) fn constant(self) -> Self {
        Self {
            embeddings: self.embeddings.without_autodiff(),
            added: self
                .added
                .into_iter()
                .map(Tensor::without_autodiff)
                .collect(),
            ..self
        }
    }

    /// Puts the tokens of pictures in their places among embedded tokens `[b, s, hidden]`.
    ///
    /// # Panics
    /// Panics if the features have another dtype than the embedded tokens.
    pub(crate) fn insert(&self, embedded: Tensor<3>) -> Tensor<3> {
        assert_eq!(
            self.embeddings.dtype(),
            embedded.dtype(),
            "features of pictures have the dtype of the weights"
        );
        let shape @ [rows, columns, hidden] = embedded.dims();
        let tokens = rows * columns;
        let mut order: Vec<usize> = (0..tokens).collect();
        for (token, &place) in self.places.iter().enumerate() {
            order[place] = tokens + token;
        }
        let embedded = embedded.reshape([tokens, hidden]);
        let order = indices(&order, &embedded.device());
        let all = Tensor::cat(vec![embedded, self.embeddings.clone()], 0);
        all.select(0, order).reshape(shape)
    }

    /// Returns the stream behind a layer, counted from 0, with the features that are added there.
    pub(crate) fn add(&self, layer: usize, residual: Residual) -> Residual {
        match self.added.get(layer) {
            Some(added) => Residual::new(residual.sum() + added.clone()),
            None => residual,
        }
    }
}

/// Returns features `[n, hidden]` at their places, and zeros elsewhere: `[b, s, hidden]`.
fn spread(features: Tensor<2>, places: &[usize], [rows, columns]: [usize; 2]) -> Tensor<3> {
    let [_, hidden] = features.dims();
    let zero = features.zeros_like().narrow(0, 0, 1);
    let mut order = vec![0; rows * columns];
    for (token, &place) in places.iter().enumerate() {
        order[place] = token + 1;
    }
    let order = indices(&order, &features.device());
    let all = Tensor::cat(vec![zero, features], 0);
    all.select(0, order).reshape([rows, columns, hidden])
}
