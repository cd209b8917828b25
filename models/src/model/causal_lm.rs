//! The whole model: logits, loss and gradients of token ids.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::{Linear, Quantized};
use burn_kernels::ops::linear::in_parts;

use crate::config::ModelConfig;
use crate::error::ModelError;
use crate::layers::blocks::new_linear;
use crate::layers::qwen_omni::TalkerProjections;
use crate::layers::scores::capped;
use crate::model::balanced::Balanced;
use crate::model::batch::Batch;
use crate::model::decoder::Decoder;
use crate::model::loss::{
    capped_projected_loss, capped_tied_loss, next_tokens, projected_loss, quantised_loss,
    require_next_token, tied_loss,
};
use crate::model::sequences::Counted;
use crate::model::vision::VisionTower;

/// A decoder-only language model.
///
/// The path of a parameter is its name in the checkpoint, such as `model.layers.0.mlp.gate_proj.weight`. The weights of
/// projections are transposed to Burn's `[input, output]`.
#[derive(Module, Debug)]
pub struct CausalLm {
    pub(crate) model: Decoder,
    /// The output projection, if it is not the embedding table.
    pub(crate) lm_head: Option<Linear>,
    /// The head of a reward model, `[hidden, 1]`. Such a model has no logits.
    pub(crate) score: Option<Linear>,
    /// The vision tower, if the model was loaded with it.
    pub(crate) visual: Option<VisionTower>,
    /// The projections of the thinker's states, of a talker of Qwen3-Omni.
    pub(crate) projections: Option<TalkerProjections>,
    /// The batches that load-balancing losses are of.
    #[module(skip)]
    pub(crate) balanced: Balanced,
}

/// Returns the logits `[b, s, vocab]` of hidden states, for the table of embeddings `[vocab, hidden]` as output weight.
#[fused_kernel("npu_fused_linear", layout = output_major, layer = "Linear")]
fn tied_logits(hidden: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    in_parts(hidden, weight.transpose(), None)
}

impl ModelConfig {
    /// Creates a model with fresh weights in the device's default float dtype: projections and embeddings are normal
    /// with standard deviation `initializer_range`, normalisation weights are 1, biases are 0.
    ///
    /// [`Device::seed`] sets the seed. Weights are allocated on first use.
    ///
    /// # Panics
    ///
    /// Panics if this is not a [language model](Self::is_language_model).
    pub fn init(&self, device: &Device) -> CausalLm {
        assert!(
            self.is_language_model(),
            "{} is not a language model",
            self.architecture
        );
        CausalLm {
            model: Decoder::new(self, device),
            lm_head: (!self.tie_word_embeddings && !self.rewards)
                .then(|| new_linear(self, [self.hidden_size, self.vocab_size], false, device)),
            score: self
                .rewards
                .then(|| new_linear(self, [self.hidden_size, 1], false, device)),
            visual: None,
            projections: TalkerProjections::new(self, device),
            balanced: Balanced::default(),
        }
    }
}

/// The results of a forward pass; see [`CausalLm::output`].
#[derive(Debug, Clone)]
pub struct Output {
    /// The logits `[b, s, vocab]`, in the weights' dtype.
    pub logits: Tensor<3>,
    /// The router logits of each sparse layer, in order: `[b · s, num_experts]`, in the weights' dtype. Empty for a
    /// dense model.
    pub router_logits: Vec<Tensor<2>>,
}

/// A loss and its parts; see [`CausalLm::losses`] and [`CausalLm::training_losses`]. Each has shape `[1]` and dtype
/// `f32` (`f64` for `f64` weights).
#[derive(Debug, Clone)]
pub struct Losses {
    /// The loss to minimise: the cross-entropy, plus the load-balancing loss times `router_aux_loss_coef` if the
    /// configuration sets `output_router_logits`.
    pub total: Tensor<1>,
    /// The [`next_token_loss`](crate::next_token_loss).
    pub next_token: Tensor<1>,
    /// The [load-balancing loss](burn_kernels::ops::moe::load_balancing_loss) of all sparse layers, without its
    /// coefficient. `None` for a model without sparse layers.
    pub load_balancing: Option<Tensor<1>>,
    /// The last hidden states, `[b, s, hidden]`, without gradients. `None` beside logits.
    pub(crate) hidden: Option<Tensor<3>>,
}

impl CausalLm {
    /// Returns the logits `[b, s, vocab]` of the token ids `[b, s]`, in the weights' dtype.
    ///
    /// `position_ids` is `[b, s]` or `[1, s]`, and by default `0..s` for each row. They rotate queries and keys. The
    /// causal mask depends only on a token's place in the sequence.
    ///
    /// # Panics
    ///
    /// Panics, or returns meaningless logits, on inputs that [`check_inputs`](Self::check_inputs) refuses. Call that
    /// first on ids from outside.
    pub fn forward(
        &self,
        input_ids: Tensor<2, Int>,
        position_ids: Option<Tensor<2, Int>>,
    ) -> Tensor<3> {
        self.output(input_ids, position_ids).logits
    }

    /// Returns the logits of [`forward`](Self::forward), and those of the routers.
    ///
    /// # Panics
    ///
    /// Panics as [`forward`](Self::forward) does.
    pub fn output(
        &self,
        input_ids: Tensor<2, Int>,
        position_ids: Option<Tensor<2, Int>>,
    ) -> Output {
        self.output_of(unpadded(input_ids, position_ids))
    }

    /// Returns the results of [`output`](Self::output) for explicit positions of three axes, `[3, b or 1, s]`: time,
    /// height and width, in families that have them (Qwen2.5-VL, Qwen3-VL, Qwen3.5, GLM-4.5V). For text alone, all
    /// three are the place of a token, which is the default of the other methods.
    ///
    /// # Panics
    ///
    /// Panics as [`forward`](Self::forward) does, and if tokens of this family have one position. Call
    /// [`check_axes`](Self::check_axes) first on positions from outside.
    pub fn output_at(&self, input_ids: Tensor<2, Int>, position_ids: Tensor<3, Int>) -> Output {
        self.output_of(Batch::new(input_ids).at_axes(position_ids))
    }

    pub(crate) fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.assert_logits();
        let embedding = &self.model.embed_tokens;
        let logits = match (&self.lm_head, embedding.table()) {
            (Some(lm_head), _) => lm_head.forward(hidden),
            (None, Some(table)) => table.forward(hidden),
            (None, None) => tied_logits(hidden, embedding.weight.val()),
        };
        match self.softcap() {
            Some(cap) => capped(logits, cap),
            None => logits,
        }
    }

    /// Returns the weight of the output projection, if it is quantised and has no adapter: that of the head, or the
    /// table of embeddings.
    pub(crate) fn quantised_head(&self) -> Option<&Quantized> {
        let head = match &self.lm_head {
            Some(lm_head) => lm_head.weight.reparameterization::<Quantized>(),
            None => self.model.embed_tokens.table(),
        };
        head.filter(|head| head.adapter().is_none())
    }

    /// Panics for a reward model, which has no logits.
    pub(crate) fn assert_logits(&self) {
        assert!(self.score.is_none(), "a reward model has no logits");
    }

    /// Returns the cap of the logits, if there is one.
    pub(crate) fn softcap(&self) -> Option<f64> {
        let scores = self.config().scores.as_ref();
        scores.and_then(|scores| scores.final_logit_softcapping)
    }

    /// Returns the logits of [`forward`](Self::forward), and the [total loss](Losses::total) `[1]`. For a dense model
    /// this is the [`next_token_loss`](crate::next_token_loss).
    ///
    /// # Panics
    ///
    /// Panics as [`forward`](Self::forward) does, and on sequences of one token; see
    /// [`check_loss_inputs`](Self::check_loss_inputs).
    pub fn loss(
        &self,
        input_ids: Tensor<2, Int>,
        position_ids: Option<Tensor<2, Int>>,
    ) -> (Tensor<3>, Tensor<1>) {
        self.loss_of(unpadded(input_ids, position_ids))
    }

    pub(crate) fn adds_load_balancing(&self) -> bool {
        let moe = self.config().moe.as_ref();
        moe.is_some_and(|moe| moe.output_router_logits)
    }

    /// Returns the results of [`output`](Self::output), and the losses.
    ///
    /// # Panics
    ///
    /// Panics as [`loss`](Self::loss) does.
    pub fn losses(
        &self,
        input_ids: Tensor<2, Int>,
        position_ids: Option<Tensor<2, Int>>,
    ) -> (Output, Losses) {
        self.losses_of(unpadded(input_ids, position_ids))
    }

    /// Returns the losses of [`losses`](Self::losses), without the logits, which are never in memory for all tokens.
    ///
    /// # Panics
    ///
    /// Panics as [`loss`](Self::loss) does.
    pub fn training_losses(
        &self,
        input_ids: Tensor<2, Int>,
        position_ids: Option<Tensor<2, Int>>,
    ) -> Losses {
        let [_, seq] = input_ids.dims();
        require_next_token(seq);
        let batch = unpadded(input_ids.clone(), position_ids);
        let passed = self.model.forward(batch, None);
        let passed = passed.expect("a pass without a cache has no error of one");
        let counted = Counted {
            targets: next_tokens(input_ids),
            mask: None,
        };
        self.losses_of_hidden(passed, counted)
    }

    /// Returns the losses of hidden states `[b, s, hidden]` and router logits.
    pub(crate) fn losses_of_hidden(
        &self,
        (hidden, router_logits): (Tensor<3>, Vec<Tensor<2>>),
        Counted { targets, mask }: Counted,
    ) -> Losses {
        self.assert_logits();
        let [batch, seq, width] = hidden.dims();
        let last = hidden.clone();
        let hidden = hidden.reshape([batch * seq, width]);
        let next_token = self.next_token_loss(hidden, targets);
        self.with_load_balancing(next_token, &router_logits, mask)
            .of_hidden(last)
    }

    /// Returns the mean loss of hidden states `[tokens, hidden]` at the positions with a target.
    fn next_token_loss(&self, hidden: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let cap = self.softcap();
        if let Some(head) = self.quantised_head() {
            return quantised_loss(head, hidden, targets, cap);
        }
        match (&self.lm_head, cap) {
            (Some(lm_head), None) => projected_loss(hidden, lm_head.weight.val(), targets),
            (Some(lm_head), Some(cap)) => {
                capped_projected_loss(hidden, lm_head.weight.val(), targets, cap)
            }
            (None, None) => tied_loss(hidden, self.model.embed_tokens.weight.val(), targets),
            (None, Some(cap)) => {
                capped_tied_loss(hidden, self.model.embed_tokens.weight.val(), targets, cap)
            }
        }
    }

    /// Adds the load-balancing loss, if there is one. `mask` `[b · s]` is 1 for the tokens that count, by default all.
    pub(crate) fn with_load_balancing(
        &self,
        next_token: Tensor<1>,
        router_logits: &[Tensor<2>],
        mask: Option<Tensor<1>>,
    ) -> Losses {
        let moe = self.config().moe.as_ref();
        let load_balancing = moe
            .filter(|_| !router_logits.is_empty())
            .map(|moe| self.balanced.loss(moe, router_logits, mask));
        let total = match (moe, &load_balancing) {
            (Some(moe), Some(auxiliary)) if moe.output_router_logits => {
                next_token.clone() + auxiliary.clone() * moe.router_aux_loss_coef
            }
            _ => next_token.clone(),
        };
        Losses {
            total,
            next_token,
            load_balancing,
            hidden: None,
        }
    }

    /// Checks shapes and values of the inputs of [`forward`](Self::forward). This copies them to the host.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Input`] for an empty or too long sequence, for a token outside the vocabulary, and for
    /// position ids that have another shape, are negative, or are not below `max_position_embeddings`.
    pub fn check_inputs(
        &self,
        input_ids: &Tensor<2, Int>,
        position_ids: Option<&Tensor<2, Int>>,
    ) -> Result<(), ModelError> {
        let config = self.model.config();
        let [batch, seq] = input_ids.dims();
        let fail = |input, problem| Err(ModelError::Input { input, problem });
        if batch == 0 || seq == 0 {
            return fail(
                "input_ids",
                format!("shape [{batch}, {seq}] holds no token"),
            );
        }
        if seq > config.max_position_embeddings {
            let problem = format!(
                "sequences of {seq} tokens are longer than the configuration's max_position_embeddings, {}",
                config.max_position_embeddings
            );
            return fail("input_ids", problem);
        }
        check_values("input_ids", input_ids, config.vocab_size, "vocab_size")?;
        if let Some(position_ids) = position_ids {
            let shape = position_ids.dims();
            if shape != [batch, seq] && shape != [1, seq] {
                let other = match batch {
                    1 => String::new(),
                    _ => format!(" or [1, {seq}]"),
                };
                let problem = format!("expected shape [{batch}, {seq}]{other}, found {shape:?}");
                return fail("position_ids", problem);
            }
            let limit = config.max_position_embeddings;
            check_values(
                "position_ids",
                position_ids,
                limit,
                "max_position_embeddings",
            )?;
        }
        Ok(())
    }

    /// Checks positions of three axes for token ids of this shape. This copies them to the host.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Input`] if tokens of this family have one position, and for position ids that have another shape
    /// than `[3, b or 1, s]`, are negative, or are not below `max_position_embeddings`.
    pub fn check_axes(
        &self,
        input_ids: &Tensor<2, Int>,
        position_ids: &Tensor<3, Int>,
    ) -> Result<(), ModelError> {
        let config = self.config();
        let ([batch, seq], shape) = (input_ids.dims(), position_ids.dims());
        let problem = if config.rope.sections.is_none() {
            format!("tokens of {} have one position", config.architecture)
        } else if shape != [3, batch, seq] && shape != [3, 1, seq] {
            let other = match batch {
                1 => String::new(),
                _ => format!(" or [3, 1, {seq}]"),
            };
            format!("expected shape [3, {batch}, {seq}]{other}, found {shape:?}")
        } else {
            let [_, rows, seq] = shape;
            let rows = position_ids.clone().reshape([3 * rows, seq]);
            let limit = config.max_position_embeddings;
            return check_values("position_ids", &rows, limit, "max_position_embeddings");
        };
        Err(ModelError::Input {
            input: "position_ids",
            problem,
        })
    }

    /// Checks inputs as [`check_inputs`](Self::check_inputs) does, and that there is a next token to predict.
    ///
    /// # Errors
    ///
    /// Returns an error as `check_inputs` does, and for sequences of one token.
    pub fn check_loss_inputs(
        &self,
        input_ids: &Tensor<2, Int>,
        position_ids: Option<&Tensor<2, Int>>,
    ) -> Result<(), ModelError> {
        self.check_inputs(input_ids, position_ids)?;
        if input_ids.dims()[1] < 2 {
            let problem = "the loss needs sequences of at least 2 tokens, found 1".into();
            return Err(ModelError::Input {
                input: "input_ids",
                problem,
            });
        }
        Ok(())
    }

    /// Returns the projections of the thinker's states, of a talker of Qwen3-Omni. The inputs of a talker are sums of
    /// projected states and embedded codes; see [`Batch::embedded`].
    pub fn projections(&self) -> Option<&TalkerProjections> {
        self.projections.as_ref()
    }

    /// Returns the configuration that the model was built from.
    pub fn config(&self) -> &ModelConfig {
        self.model.config()
    }
}

/// Returns a batch without padding.
fn unpadded(input_ids: Tensor<2, Int>, position_ids: Option<Tensor<2, Int>>) -> Batch {
    match position_ids {
        Some(position_ids) => Batch::new(input_ids).at(position_ids),
        None => Batch::new(input_ids),
    }
}

pub(super) fn check_values(
    input: &'static str,
    ids: &Tensor<2, Int>,
    limit: usize,
    limit_name: &str,
) -> Result<(), ModelError> {
    let [_, seq] = ids.dims();
    let values = ids
        .try_to_vec_as::<i64>()
        .map_err(|error| ModelError::Input {
            input,
            problem: format!("cannot be read from the device: {error}"),
        })?;
    let outside = values
        .iter()
        .position(|&id| id < 0 || id as u64 >= limit as u64);
    match outside {
        Some(at) => {
            let problem = format!(
                "row {}, column {}: {} is not in 0..{limit} ({limit_name})",
                at / seq,
                at % seq,
                values[at]
            );
            Err(ModelError::Input { input, problem })
        }
        None => Ok(()),
    }
}
