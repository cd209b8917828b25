//! Generation: token ids that continue prompts.
//!
//! [`Generation`] says how tokens are chosen and when a text ends. [`CausalLm::generate`](crate::CausalLm::generate)
//! continues prompts, and [`Session`] one growing text, such as a conversation.

mod check;
mod file;
mod random;
mod run;
mod sampler;
mod session;

pub use run::{Finish, Generated, NewToken};
pub use session::Session;

/// The choice of the next tokens, and the end of a text.
///
/// [`Generation::open`] reads the settings of a checkpoint. The default takes the most probable token each time, and has
/// no end tokens.
///
/// The settings take effect in the order of transformers: the penalty on repetitions, the temperature, the `top_k` most
/// probable tokens, the smallest set with the probability `top_p`, and the tokens that are at least `min_p` times as
/// probable as the first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Generation {
    /// The number of tokens after which a text ends.
    pub max_new_tokens: usize,
    /// The tokens that end a text. They are among its tokens.
    pub end_tokens: Vec<u32>,
    /// The number that positive logits of tokens in the text or its prompt are divided by, and negative ones multiplied
    /// with. 1 has no effect.
    pub repetition_penalty: f64,
    /// The way tokens are drawn. `None` takes the most probable one; among equal ones, that of the lowest id.
    pub sampling: Option<Sampling>,
    /// The way of drawing that the checkpoint names, in effect only where `sampling` has it. A checkpoint may name one and
    /// still take the most probable token.
    pub suggested: Sampling,
}

impl Default for Generation {
    fn default() -> Self {
        Self {
            max_new_tokens: 256,
            end_tokens: Vec::new(),
            repetition_penalty: 1.0,
            sampling: None,
            suggested: Sampling {
                top_k: Some(TOP_K),
                ..Sampling::default()
            },
        }
    }
}

/// The number of most probable tokens that transformers draws from, if a checkpoint does not say.
pub(crate) const TOP_K: usize = 50;

/// The way tokens are drawn from their probabilities.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// The number that logits are divided by, above 0. Below 1, probable tokens become more probable.
    pub temperature: f64,
    /// The number of most probable tokens that are kept, if not all.
    pub top_k: Option<usize>,
    /// The probability that the kept tokens have together at least, above 0 and at most 1.
    pub top_p: f64,
    /// The probability that a kept token has at least, as a part of the largest one, from 0 to 1.
    pub min_p: f64,
    /// The seed of the draws. A seed gives the same tokens for the same probabilities. Each prompt has its own draws, by
    /// its place among the prompts.
    pub seed: u64,
    /// The place of the first prompt, if the prompts of a call are a part of several.
    pub first_place: usize,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
            first_place: 0,
        }
    }
}
