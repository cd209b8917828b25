//! The loop of generation: logits, choice, next pass.

use std::ops::ControlFlow;

use burn::tensor::{DType, Int, Tensor, TensorData};

use super::random::SplitMix64;
use super::{Generation, check};
use crate::error::ModelError;
use crate::layers::cache::Cache;
use crate::model::causal_lm::CausalLm;

/// A generated token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewToken {
    /// The place of its prompt among the prompts, from 0.
    pub prompt: usize,
    /// The token.
    pub id: u32,
}

/// The tokens after a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The tokens. The last can be an end token.
    pub ids: Vec<u32>,
    /// The reason why generation ended.
    pub finish: Finish,
}

/// The reason why a text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// Its last token is an end token.
    End,
    /// It has as many tokens as were allowed.
    Length,
    /// The model has no position for a further token. The longest text of a call decides.
    Positions,
    /// The caller stopped it.
    Stopped,
}

/// A text that is generated.
pub(super) struct Text {
    /// The tokens of the prompt, and those after it.
    pub(super) ids: Vec<u32>,
    prompt: usize,
    prompt_length: usize,
    random: SplitMix64,
    finish: Option<Finish>,
}

impl Text {
    pub(super) fn new(prompt: usize, ids: &[u32], settings: &Generation) -> Self {
        let sampling = settings.sampling.as_ref();
        let (seed, first) = sampling.map_or((0, 0), |own| (own.seed, own.first_place));
        Self {
            ids: ids.to_vec(),
            prompt,
            prompt_length: ids.len(),
            random: SplitMix64::of_text(seed, first.wrapping_add(prompt)),
            finish: None,
        }
    }

    pub(super) fn generated(self) -> Generated {
        Generated {
            ids: self.ids[self.prompt_length..].to_vec(),
            finish: self.finish.unwrap_or(Finish::Stopped),
        }
    }

    /// Adds the next token.
    fn extend(
        &mut self,
        logits: &[f64],
        settings: &Generation,
        on_token: &mut impl FnMut(NewToken) -> ControlFlow<()>,
    ) {
        let id = settings.choose(logits, &self.ids, &mut self.random);
        self.ids.push(id);
        let prompt = self.prompt;
        let told = on_token(NewToken { prompt, id });
        self.finish = if settings.end_tokens.contains(&id) {
            Some(Finish::End)
        } else if told.is_break() {
            Some(Finish::Stopped)
        } else if self.ids.len() - self.prompt_length >= settings.max_new_tokens {
            Some(Finish::Length)
        } else {
            None
        };
    }
}

impl CausalLm {
    /// Continues prompts together, and returns the tokens after each. `on_token` is called with every token once it is
    /// chosen, and can end its text with [`ControlFlow::Break`].
    ///
    /// A model for generation is on a device without autodiff, because the cache would keep the graph of all passes.
    ///
    /// ```no_run
    /// use burn::tensor::{Device, FloatDType};
    /// use kernels_models::Generation;
    /// use std::ops::ControlFlow;
    /// # fn main() -> Result<(), kernels_models::ModelError> {
    /// let folder = "checkpoint".as_ref();
    /// let (config, model) = kernels_models::load(folder, &Device::default(), FloatDType::F32)?;
    /// let settings = Generation::open(folder, &config)?;
    /// let prompts = [vec![17, 4], vec![8, 15, 16, 23]];
    /// let texts = model.generate(&prompts, &settings, |token| {
    ///     println!("prompt {}: {}", token.prompt, token.id);
    ///     ControlFlow::Continue(())
    /// })?;
    /// # let _ = texts;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for settings that [`Generation::check`] refuses, for a prompt that is empty, has a token outside
    /// the vocabulary, or is longer than `max_position_embeddings`, and for logits that are not numbers.
    pub fn generate(
        &self,
        prompts: &[Vec<u32>],
        settings: &Generation,
        mut on_token: impl FnMut(NewToken) -> ControlFlow<()>,
    ) -> Result<Vec<Generated>, ModelError> {
        settings.check()?;
        let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        check::prompts(&prompts, self.config())?;
        if prompts.is_empty() {
            return Ok(Vec::new());
        }
        let texts = prompts.iter().enumerate();
        let texts = texts.map(|(place, ids)| Text::new(place, ids, settings));
        let mut texts: Vec<Text> = texts.collect();
        let mut cache = self.config().cache();
        let logits = self.begin(&prompts, &mut cache)?;
        self.continue_texts(logits, &mut texts, settings, &mut cache, &mut on_token)?;
        Ok(texts.into_iter().map(Text::generated).collect())
    }

    /// Continues one prompt with pictures, as [`generate`](Self::generate) continues prompts without. Some of its tokens
    /// stand for the parts of the pictures, whose patches are `pixel_values` `[patches, values]` and whose sizes are
    /// `image_grid_thw` `[pictures, 3]`; see [`Batch::with_pictures`](crate::Batch::with_pictures).
    ///
    /// # Errors
    ///
    /// Returns an error as `generate` does, and for pictures that [`check_batch`](Self::check_batch) refuses.
    pub fn generate_with_pictures(
        &self,
        prompt: &[u32],
        pixel_values: Tensor<2>,
        image_grid_thw: Tensor<2, Int>,
        settings: &Generation,
        mut on_token: impl FnMut(NewToken) -> ControlFlow<()>,
    ) -> Result<Generated, ModelError> {
        settings.check()?;
        check::prompts(&[prompt], self.config())?;
        let mut cache = self.config().cache();
        let ids = self.ids(prompt.iter().copied(), [1, prompt.len()]);
        let logits = self.next_with_pictures(ids, pixel_values, image_grid_thw, &mut cache)?;
        let mut text = Text::new(0, prompt, settings);
        let texts = std::slice::from_mut(&mut text);
        self.continue_texts(logits, texts, settings, &mut cache, &mut on_token)?;
        Ok(text.generated())
    }

    /// Has an empty cache take the prompts. Returns the logits of the next tokens.
    fn begin(&self, prompts: &[&[u32]], cache: &mut Cache) -> Result<Tensor<3>, ModelError> {
        let lengths: Vec<usize> = prompts.iter().map(|prompt| prompt.len()).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let row = |prompt: &&[u32]| {
            let padding = std::iter::repeat_n(0, longest - prompt.len());
            padding.chain(prompt.iter().copied()).collect::<Vec<u32>>()
        };
        let ids = prompts.iter().flat_map(row);
        let ids = self.ids(ids, [prompts.len(), longest]);
        self.next_padded(ids, &lengths, cache)
    }

    /// Returns token ids as a tensor on the model's device.
    pub(super) fn ids(&self, ids: impl Iterator<Item = u32>, shape: [usize; 2]) -> Tensor<2, Int> {
        let device = self.model.embed_tokens.weight.base().device();
        let ids: Vec<i64> = ids.map(i64::from).collect();
        Tensor::from_data(TensorData::new(ids, shape), (&device, DType::I64))
    }

    /// Adds tokens to texts until all have ended. `logits` `[b, 1, vocab]` are those of their next tokens.
    pub(super) fn continue_texts(
        &self,
        mut logits: Tensor<3>,
        texts: &mut [Text],
        settings: &Generation,
        cache: &mut Cache,
        on_token: &mut impl FnMut(NewToken) -> ControlFlow<()>,
    ) -> Result<(), ModelError> {
        let limit = self.config().max_position_embeddings;
        loop {
            let vocabulary = logits.dims()[2];
            let values = numbers(logits)?;
            for (text, logits) in texts.iter_mut().zip(values.chunks(vocabulary)) {
                if text.finish.is_none() {
                    text.extend(logits, settings, on_token);
                }
            }
            let full = cache.positions() >= limit;
            for text in texts.iter_mut().filter(|_| full) {
                text.finish.get_or_insert(Finish::Positions);
            }
            if texts.iter().all(|text| text.finish.is_some()) {
                return Ok(());
            }
            if self.turns_keys(cache.positions(), 1) {
                cache.clear();
                let all: Vec<&[u32]> = texts.iter().map(|text| &text.ids[..]).collect();
                logits = self.begin(&all, cache)?;
                continue;
            }
            // Texts that have ended go on with their last token, which nobody reads.
            let last = texts.iter().filter_map(|text| text.ids.last().copied());
            let ids = self.ids(last, [texts.len(), 1]);
            logits = self.next(ids, cache)?;
        }
    }
}

/// Copies logits to the host.
fn numbers(logits: Tensor<3>) -> Result<Vec<f64>, ModelError> {
    let fail = |problem: String| ModelError::Input {
        input: "logits",
        problem,
    };
    let values = logits.try_into_vec_as::<f64>();
    let values =
        values.map_err(|error| fail(format!("cannot be read from the device: {error}")))?;
    if values.iter().any(|value| !value.is_finite()) {
        let problem = "some are not finite; the weights are damaged, or the dtype is too narrow for them (f16 ends at \
                       65504): use another one";
        return Err(fail(problem.into()));
    }
    Ok(values)
}
