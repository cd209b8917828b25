//! Conversations as token ids.

use super::{ChatTemplate, Date, Message, Offsets, TextError, Tokenizer};
use std::ops::Range;
use std::path::Path;

/// A tokenizer and a chat template.
#[derive(Debug)]
pub struct Chat {
    tokenizer: Tokenizer,
    template: ChatTemplate,
}

/// The token ids of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The token ids, special tokens among them.
    pub ids: Vec<u32>,
    /// The tokens that the assistant writes: each of its turns, with the token that ends it.
    pub answers: Vec<Range<usize>>,
}

impl Chat {
    /// Reads the chat template of a folder.
    ///
    /// # Errors
    /// Returns an error if there is none, or if it can't be read.
    pub fn open(folder: &Path, tokenizer: Tokenizer) -> Result<Self, TextError> {
        let template = ChatTemplate::open(folder, &tokenizer)?;
        let template = template.ok_or_else(|| TextError::Missing {
            folder: folder.into(),
            problem: "the checkpoint has no chat template (chat_template.jinja, or `chat_template` in \
                      tokenizer_config.json); it may not be tuned for conversations",
        })?;
        Ok(Self {
            tokenizer,
            template,
        })
    }

    /// Has the template write this date, in place of today's.
    #[must_use]
    pub fn dated(self, date: Date) -> Self {
        Self {
            template: self.template.dated(date),
            ..self
        }
    }

    /// Returns the tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Returns the template.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// Returns the token ids of a conversation and of the start of the assistant's next turn, for a model to go on.
    ///
    /// # Errors
    /// Returns an error if the template refuses the conversation, or if the tokenizer fails.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>, TextError> {
        let text = self.template.render(messages, true)?;
        Ok(self.tokenizer.encode_plain(&text)?.ids)
    }

    /// Returns the token ids of a whole conversation, and which of them the assistant writes.
    ///
    /// The template's tags `{% generation %}` say which, if it has any. Otherwise an answer begins where the template
    /// has the model begin, and ends with `eos_token`, or where the template ends the turn. A token that begins in an
    /// answer is a token of the answer.
    ///
    /// # Errors
    /// Returns an error if the template refuses the conversation, if the tokenizer fails, or if an answer can't be found
    /// in the rendered conversation.
    pub fn tokens(&self, messages: &[Message]) -> Result<Tokens, TextError> {
        let rendered = self.template.marked(messages, false)?;
        let answers = match self.template.marks_answers {
            true => rendered.answers,
            false => self.find_answers(messages, &rendered.text)?,
        };
        let Offsets { ids, bytes } = self.tokenizer.encode_plain(&rendered.text)?;
        // Tokens of text are in its order.
        let token = |byte| bytes.partition_point(|token: &Range<usize>| token.start < byte);
        let answers = answers
            .iter()
            .map(|part| token(part.start)..token(part.end));
        Ok(Tokens {
            answers: answers.collect(),
            ids,
        })
    }

    /// Returns the bytes of the assistant's turns in the rendered conversation.
    fn find_answers(
        &self,
        messages: &[Message],
        text: &str,
    ) -> Result<Vec<Range<usize>>, TextError> {
        let answers = messages.iter().enumerate();
        let answers = answers.filter(|(_, message)| message.is_answer());
        answers
            .map(|(at, _)| self.find_answer(messages, at, text))
            .collect()
    }

    fn find_answer(
        &self,
        messages: &[Message],
        at: usize,
        text: &str,
    ) -> Result<Range<usize>, TextError> {
        let lost = || {
            TextError::Conversation(format!(
                "message {}: the chat template writes this answer otherwise than it has the model begin it, so its tokens \
                 can't be found; a template with the tags {{% generation %}} and {{% endgeneration %}} around answers can \
                 be used",
                at + 1
            ))
        };
        let start = match at {
            // Nothing precedes it that a template could render.
            0 => text.find(messages[0].content.trim()).ok_or_else(lost)?,
            _ => {
                let before = self.template.render(&messages[..at], true)?;
                text.starts_with(&before)
                    .then_some(before.len())
                    .ok_or_else(lost)?
            }
        };
        let turn = self.template.render(&messages[..=at], false)?;
        let end = match text.starts_with(&turn) && turn.len() > start {
            true => turn.len(),
            // Some templates shorten older answers. What was said is still there.
            false => {
                let content = messages[at].content.trim();
                let found = text[start..].find(content).ok_or_else(lost)?;
                start + found + content.len()
            }
        };
        Ok(start..self.end_of_turn(text, start, end))
    }

    /// Returns the end of `eos_token`, if only blanks lie between it and the end of an answer. Otherwise returns the
    /// end.
    fn end_of_turn(&self, text: &str, start: usize, end: usize) -> usize {
        let Some(eos) = self
            .tokenizer
            .special("eos_token")
            .filter(|eos| !eos.is_empty())
        else {
            return end;
        };
        let blank = |part: &str| part.trim().is_empty();
        let inside = text[start..end].rfind(eos).map(|at| start + at + eos.len());
        if let Some(inside) = inside.filter(|&inside| blank(&text[inside..end])) {
            return inside;
        }
        let behind = text[end..].find(eos).map(|at| end + at);
        match behind.filter(|&behind| blank(&text[end..behind])) {
            Some(behind) => behind + eos.len(),
            None => end,
        }
    }
}
