//! Reward models: the scores of texts.

use burn::module::Param;
use burn::nn::Initializer;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::nn::Linear;

use crate::error::ModelError;
use crate::model::batch::Batch;
use crate::model::causal_lm::CausalLm;

impl CausalLm {
    /// Returns a reward model with this decoder and a new head `score`, normal with the standard deviation
    /// `initializer_range`, as in transformers. It has no output projection. Its configuration is that of
    /// [`ModelConfig::into_reward_model`](crate::ModelConfig::into_reward_model).
    ///
    /// # Errors
    /// Returns an error as `into_reward_model` does.
    pub fn into_reward_model(self, padding: Option<u32>, seed: u64) -> Result<Self, ModelError> {
        let config = self.config().clone().into_reward_model(padding)?;
        let embedding = self.model.embed_tokens.weight.base();
        let (device, dtype) = (embedding.device(), embedding.dtype());
        let host = Device::flex();
        host.seed(seed);
        let range = Initializer::Normal {
            mean: 0.0,
            std: config.initializer_range,
        };
        let drawn: Param<Tensor<2>> = range.init([config.hidden_size, 1], &host);
        let weight = Tensor::from_data(drawn.val().into_data(), (&device, dtype));
        Ok(Self {
            model: self.model.with_config(config),
            projections: None,
            balanced: self.balanced,
            lm_head: None,
            visual: self.visual,
            score: Some(Linear {
                weight: Param::from_tensor(weight),
                bias: None,
            }),
        })
    }

    /// Has the head of a reward model trained in f32, though the rest may be frozen below adapters.
    #[must_use]
    pub fn with_trained_score(mut self) -> Self {
        self.score = self.score.map(|score| {
            let weight = score.weight.val();
            let device = weight.device();
            let weight = Tensor::<2>::from_data(weight.into_data(), (&device, DType::F32));
            Linear {
                weight: Param::from_tensor(weight),
                ..score
            }
        });
        self
    }

    /// Returns the scores `[b]` of the texts of a batch, in f32 (f64 for f64 weights): those of each row's last token,
    /// by the mask and not by the padding token, which a text may end with.
    ///
    /// # Panics
    /// Panics if the model is not a reward model, and as [`output_of`](Self::output_of) does.
    pub fn rewards(&self, batch: Batch) -> Tensor<1> {
        let places = batch.last_tokens();
        let hidden = self.model.forward(batch, None);
        let (hidden, _) = hidden.expect("a pass without a cache has no error of one");
        let score = self.score.as_ref().expect(NO_SCORE);
        scores(hidden, &places, score)
    }
}

const NO_SCORE: &str = "the model is not a reward model";

/// Returns the scores of the tokens at these places of hidden states `[b, s, hidden]`.
pub(super) fn scores(hidden: Tensor<3>, places: &[usize], score: &Linear) -> Tensor<1> {
    let [batch, seq, width] = hidden.dims();
    let data = places.iter().map(|place| *place as i64).collect();
    let data = TensorData::new::<i64, _>(data, [places.len()]);
    let places = Tensor::<1, Int>::from_data(data, (&hidden.device(), DType::I64));
    let hidden = hidden.reshape([batch * seq, width]).select(0, places);
    let scores = hidden.matmul(score.weight.val()).squeeze_dim::<1>(1);
    match scores.dtype() {
        DType::F64 => scores,
        _ => scores.cast(FloatDType::F32),
    }
}
