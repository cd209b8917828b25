//! Decoding with a cache: the logits of the next token.

use burn::tensor::{Int, Tensor};

use crate::config::RopeScaling;
use crate::error::ModelError;
use crate::layers::cache::Cache;
use crate::model::batch::Batch;
use crate::model::causal_lm::CausalLm;
use crate::model::pictures::SeenPictures;

impl CausalLm {
    /// Returns the logits `[b, 1, vocab]` of the next token after `input_ids` `[b, s]`, which follow the tokens that the
    /// cache has taken; then the cache has taken them too. [`ModelConfig::cache`](crate::ModelConfig::cache) makes an
    /// empty one. [`next_padded`](Self::next_padded) begins with prompts of different lengths.
    ///
    /// The logits are those of the last position of [`forward`](Self::forward) on all tokens.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Input`] if no token is given, if the tokens go beyond `max_position_embeddings`, or if the
    /// cache is of another model, batch or device. With `longrope` (Phi-3), also if the tokens are the first beyond
    /// `original_max_position_embeddings`: from there on, all keys have other rotations, so an empty cache must take all
    /// tokens again. If a layer other than the first refuses the tokens, the cache
    /// is then empty.
    ///
    /// # Panics
    ///
    /// Panics, or returns meaningless logits, on token ids that [`check_inputs`](Self::check_inputs) refuses.
    pub fn next(
        &self,
        input_ids: Tensor<2, Int>,
        cache: &mut Cache,
    ) -> Result<Tensor<3>, ModelError> {
        let limit = self.config().max_position_embeddings;
        let [batch, seq] = tokens(&input_ids)?;
        let positions = cache.positions();
        if seq > limit.saturating_sub(positions) {
            let problem = format!(
                "{seq} tokens after {positions} are more than the configuration's max_position_embeddings, {limit}"
            );
            return fail("input_ids", problem);
        }
        if self.turns_keys(positions, seq) {
            let problem = format!(
                "{seq} tokens after {positions} are the first beyond original_max_position_embeddings, from where on all \
                 keys have other rotations; clear the cache, and have it take all tokens"
            );
            return fail("input_ids", problem);
        }
        let prompts = cache.subtracted().len();
        if prompts > 0 && prompts != batch {
            let problem = format!(
                "it holds {prompts} sequences, but input_ids {batch}: it is of another model or batch"
            );
            return fail("cache", problem);
        }
        self.append(input_ids, cache)
    }

    /// Returns true if the keys of a cache that has taken `taken` tokens have other rotations once it has taken so many
    /// more.
    pub(crate) fn turns_keys(&self, taken: usize, further: usize) -> bool {
        match self.config().rope.scaling {
            RopeScaling::LongRope {
                original_max_position_embeddings: original,
                ..
            } => taken > 0 && taken <= original && taken + further > original,
            _ => false,
        }
    }

    /// Returns the logits `[b, 1, vocab]` of the next token after prompts of different lengths, which an empty cache
    /// takes. [`next`](Self::next) then goes on with the same number of tokens for each sequence.
    ///
    /// A row of `input_ids` `[b, s]` ends with its prompt, as tokenizers pad with `padding_side="left"`, and `lengths`
    /// holds the number of tokens of each prompt: the sums of the rows of an `attention_mask`. The padding may be any
    /// token of the vocabulary. No query sees it, and positions are counted from the first token of each prompt, so the
    /// logits are those of each prompt alone. With `longrope` (Phi-3), all prompts have the rotations of the longest, as in
    /// transformers.
    ///
    /// ```no_run
    /// use burn::tensor::{Device, FloatDType, Int, Tensor};
    /// # fn main() -> Result<(), kernels_models::ModelError> {
    /// let device = Device::default();
    /// let (config, model) = kernels_models::load("checkpoint".as_ref(), &device, FloatDType::F32)?;
    /// // A prompt of two tokens and one of four.
    /// let prompts = Tensor::<2, Int>::from_data([[0, 0, 17, 4], [8, 15, 16, 23]], &device);
    /// let mut cache = config.cache();
    /// let mut logits = model.next_padded(prompts, &[2, 4], &mut cache)?;
    /// for _ in 0..16 {
    ///     let tokens = logits.argmax(2).squeeze_dim::<2>(2); // [2, 1]
    ///     logits = model.next(tokens, &mut cache)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Input`] if no token is given, if `lengths` does not have one length for each row, if a
    /// length is 0 or above `s`, if a prompt is longer than `max_position_embeddings`, or if the cache is of another
    /// model or holds tokens. The cache is then as it was.
    ///
    /// # Panics
    ///
    /// Panics, or returns meaningless logits, on token ids that [`check_inputs`](Self::check_inputs) refuses.
    pub fn next_padded(
        &self,
        input_ids: Tensor<2, Int>,
        lengths: &[usize],
        cache: &mut Cache,
    ) -> Result<Tensor<3>, ModelError> {
        let limit = self.config().max_position_embeddings;
        let [_, seq] = tokens(&input_ids)?;
        let longest = longest(input_ids.dims(), lengths, limit)?;
        refuse_taken(cache, "lengths are those of the first tokens")?;
        // Columns that are padding in every row are not computed.
        let input_ids = input_ids.narrow(1, seq - longest, longest);
        cache.pad(lengths.iter().map(|length| longest - length).collect());
        let logits = self.append(input_ids, cache);
        if logits.is_err() {
            cache.clear();
        }
        logits
    }

    /// Returns the logits `[b, 1, vocab]` of the next token after prompts with pictures, which an empty cache takes.
    /// [`next`](Self::next) then goes on behind the pictures, as `rope_deltas` in `transformers` have it.
    ///
    /// The prompts `input_ids` `[b, s]` have equal lengths. Pictures are those of
    /// [`Batch::with_pictures`], and so is the model: one with its [vision tower](crate::load_with_vision).
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Input`] for batches that [`check_batch`](Self::check_batch) refuses, and if the cache is
    /// of another model or holds tokens.
    pub fn next_with_pictures(
        &self,
        input_ids: Tensor<2, Int>,
        pixel_values: Tensor<2>,
        image_grid_thw: Tensor<2, Int>,
        cache: &mut Cache,
    ) -> Result<Tensor<3>, ModelError> {
        refuse_taken(cache, "pictures are among the first tokens")?;
        self.check_inputs(&input_ids, None)?;
        let batch = Batch::new(input_ids).with_pictures(pixel_values, image_grid_thw);
        let (batch, seen) = self.see(batch)?;
        cache.clear();
        cache.share(
            seen.as_ref()
                .map_or_else(Vec::new, |seen| seen.shared.clone()),
        );
        let logits = self.append_batch(batch, seen, cache);
        if logits.is_err() {
            cache.clear();
        }
        logits
    }

    /// Has the cache take tokens. Returns the logits of the next.
    fn append(
        &self,
        input_ids: Tensor<2, Int>,
        cache: &mut Cache,
    ) -> Result<Tensor<3>, ModelError> {
        self.append_batch(Batch::new(input_ids), None, cache)
    }

    fn append_batch(
        &self,
        batch: Batch,
        seen: Option<SeenPictures>,
        cache: &mut Cache,
    ) -> Result<Tensor<3>, ModelError> {
        let layers = self.config().num_hidden_layers;
        if cache.len() != layers {
            let problem = format!("it has {} layers, but the model {layers}", cache.len());
            return fail("cache", problem);
        }
        let [_, seq] = batch.input_ids.dims();
        let taken = cache.positions();
        match self.model.forward_seeing(batch, seen, Some(&mut *cache)) {
            Ok((hidden, _)) => Ok(self.logits(hidden.narrow(1, seq - 1, 1))),
            Err(error) => {
                // Layers before the one that refuses have taken the tokens.
                if cache.positions() != taken {
                    cache.clear();
                }
                fail("cache", error.to_string())
            }
        }
    }
}

/// Returns an error for a cache that has taken tokens.
fn refuse_taken(cache: &Cache, but: &str) -> Result<(), ModelError> {
    match cache.positions() {
        0 => Ok(()),
        taken => fail(
            "cache",
            format!("it has taken {taken} tokens, but {but}; clear it, or make a new one"),
        ),
    }
}

/// Returns the shape of token ids, if they hold any.
fn tokens(input_ids: &Tensor<2, Int>) -> Result<[usize; 2], ModelError> {
    match input_ids.dims() {
        [batch, seq] if batch == 0 || seq == 0 => fail(
            "input_ids",
            format!("shape [{batch}, {seq}] holds no token"),
        ),
        shape => Ok(shape),
    }
}

/// Returns the longest of the lengths, if they go with token ids of this shape and with the model's limit.
fn longest([batch, seq]: [usize; 2], lengths: &[usize], limit: usize) -> Result<usize, ModelError> {
    if lengths.len() != batch {
        let problem = format!("there are {}, but {batch} rows of input_ids", lengths.len());
        return fail("lengths", problem);
    }
    for (row, &length) in lengths.iter().enumerate() {
        let problem = if length == 0 {
            "a prompt needs at least one token".into()
        } else if length > seq {
            format!("input_ids has only {seq} columns")
        } else if length > limit {
            format!("it is more than the configuration's max_position_embeddings, {limit}")
        } else {
            continue;
        };
        return fail(
            "lengths",
            format!("row {row} has a length of {length}: {problem}"),
        );
    }
    Ok(lengths.iter().copied().max().unwrap_or(0))
}

fn fail<T>(input: &'static str, problem: String) -> Result<T, ModelError> {
    Err(ModelError::Input { input, problem })
}
