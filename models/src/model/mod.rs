//! Models: from token ids to logits, losses and gradients.

pub(crate) mod batch;
pub(crate) mod causal_lm;
pub(crate) mod decoder;
mod decoding;
pub(crate) mod log_probs;
pub(crate) mod loss;
mod passes;
mod places;
mod recompute;
pub(crate) mod sequences;
mod sites;
