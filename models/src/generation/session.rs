//! One growing text, whose keys and values are kept from one call to the next.

use std::ops::ControlFlow;

use burn::tensor::Tensor;

use super::run::{Generated, NewToken, Text};
use super::{Generation, check};
use crate::error::ModelError;
use crate::layers::cache::{Cache, Mark};
use crate::model::causal_lm::CausalLm;

/// The number of tokens at the end of a prompt that follow the states which are kept of it. Templates put a few
/// tokens behind the messages, where an answer begins, and may leave them out of earlier turns.
const BEHIND: usize = 8;

/// Generation that keeps the keys and values of its last text, for conversations: of a prompt, only the tokens after the
/// part that both have in common are computed.
///
/// A layer with a window drops keys. Where the common part ends before the last prompt did, some tokens before its
/// end can be computed too, and all if it ends much earlier. A layer with linear attention keeps the states a few
/// tokens before the end of the last prompt, and after the last text: where the common part ends elsewhere, the
/// tokens from the first of these places on are computed, or all if it ends before.
#[derive(Debug)]
pub struct Session<'a> {
    model: &'a CausalLm,
    cache: Cache,
    /// The tokens that the cache has taken.
    taken: Vec<u32>,
    /// The layers with a window at the end of the last prompt, or with a state up to [`BEHIND`] tokens before it.
    mark: Option<Mark>,
    /// The number of tokens of the last prompt that the cache had.
    reused: usize,
    /// The number of texts so far. Each has its own draws.
    texts: usize,
}

impl<'a> Session<'a> {
    /// Returns a session without a text.
    pub fn new(model: &'a CausalLm) -> Self {
        Self {
            cache: model.config().cache(),
            taken: Vec::new(),
            mark: None,
            reused: 0,
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
        self.reused = self.reuse(prompt);
        let new = &prompt[self.reused..];
        let behind = match self.model.config().linear {
            Some(_) => BEHIND,
            None => 0,
        };
        let (before, behind) = new.split_at(new.len().saturating_sub(behind));
        let mut logits = self.take(before)?;
        self.mark = Some(self.cache.mark(self.model.config()));
        if let Some(last) = self.take(behind)? {
            logits = Some(last);
        }
        let logits = logits.expect("the last token is always read");
        let texts = std::slice::from_mut(text);
        self.model
            .continue_texts(logits, texts, settings, &mut self.cache, on_token)
    }

    /// Adds tokens to the cache. Returns the logits of the next token, or `None` without tokens.
    fn take(&mut self, tokens: &[u32]) -> Result<Option<Tensor<3>>, ModelError> {
        if tokens.is_empty() {
            return Ok(None);
        }
        let ids = self.model.ids(tokens.iter().copied(), [1, tokens.len()]);
        self.model.next(ids, &mut self.cache).map(Some)
    }

    /// Cuts the cache back to the tokens that the prompt begins with. Returns their number.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        let both = prompt.iter().zip(&self.taken);
        let common = both.take_while(|(new, taken)| new == taken).count();
        // The last token is always read, for its logits.
        let common = common.min(prompt.len() - 1);
        let left = self.cache.cut(common, self.mark.as_ref());
        let longest = prompt.len().max(self.taken.len());
        match self.model.turns_keys(left, longest - left) {
            true => {
                self.clear();
                0
            }
            false => left,
        }
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        self.cache.clear();
        self.taken.clear();
        self.mark = None;
    }

    /// Returns the number of tokens of the last prompt whose keys and values were there already.
    pub fn reused(&self) -> usize {
        self.reused
    }

    /// Returns the number of tokens whose keys and values are kept.
    pub fn kept(&self) -> usize {
        self.taken.len()
    }
}
