//! One growing text, whose keys and values are kept from one call to the next.

use std::ops::ControlFlow;

use super::run::{Generated, NewToken, Text};
use super::{Generation, check};
use crate::cache::Cache;
use crate::causal_lm::CausalLm;
use crate::error::ModelError;

/// Generation that keeps the keys and values of its last text, for conversations: a prompt that begins with that text
/// costs only its new tokens.
#[derive(Debug)]
pub struct Session<'a> {
    model: &'a CausalLm,
    cache: Cache,
    /// The tokens that the cache has taken.
    taken: Vec<u32>,
    /// The number of texts so far. Each has its own draws.
    texts: usize,
}

impl<'a> Session<'a> {
    /// Returns a session without a text.
    pub fn new(model: &'a CausalLm) -> Self {
        Self {
            cache: model.config().cache(),
            taken: Vec::new(),
            texts: 0,
            model,
        }
    }

    /// Continues a prompt, as [`CausalLm::generate`] does. The result does not depend on earlier calls, except for the
    /// draws, which go on, and for rounding.
    ///
    /// # Errors
    ///
    /// Returns an error as `generate` does. The session is then without a text.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        settings: &Generation,
        mut on_token: impl FnMut(NewToken) -> ControlFlow<()>,
    ) -> Result<Generated, ModelError> {
        settings.check()?;
        check::prompts(&[prompt], self.model.config())?;
        let mut text = Text::new(self.texts, prompt, settings);
        self.texts += 1;
        let done = self.run(&mut text, prompt, settings, &mut on_token);
        if done.is_err() {
            self.clear();
        }
        done?;
        self.taken = text.ids[..self.cache.positions()].to_vec();
        Ok(text.generated())
    }

    fn run(
        &mut self,
        text: &mut Text,
        prompt: &[u32],
        settings: &Generation,
        on_token: &mut impl FnMut(NewToken) -> ControlFlow<()>,
    ) -> Result<(), ModelError> {
        let known = prompt.len() > self.taken.len() && prompt.starts_with(&self.taken);
        let turns = || {
            let taken = self.taken.len();
            self.model.turns_keys(taken, prompt.len() - taken)
        };
        if !known || turns() {
            self.clear();
        }
        let new = &prompt[self.taken.len()..];
        let ids = self.model.ids(new.iter().copied(), [1, new.len()]);
        let logits = self.model.next(ids, &mut self.cache)?;
        let texts = std::slice::from_mut(text);
        self.model
            .continue_texts(logits, texts, settings, &mut self.cache, on_token)
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        self.cache.clear();
        self.taken.clear();
    }

    /// Returns the number of tokens whose keys and values are kept.
    pub fn kept(&self) -> usize {
        self.taken.len()
    }
}
