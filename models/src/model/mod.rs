//! Models: from token ids to logits, losses and gradients.

mod balanced;
pub(crate) mod batch;
pub(crate) mod built;
pub(crate) mod causal_lm;
pub(crate) mod code2wav;
pub(crate) mod code_predictor;
pub(crate) mod decoder;
mod decoding;
pub(crate) mod divergences;
pub(crate) mod log_probs;
pub(crate) mod loss;
pub(crate) mod observed;
mod passes;
pub(crate) mod pictures;
mod places;
pub(crate) mod projection;
mod recompute;
mod rewards;
pub(crate) mod sequences;
mod sites;
pub(crate) mod tiles;
mod trunk;
pub(crate) mod vision;
