//! Conversations as token ids.

use super::answers::{Answer, Finder};
use super::{ChatTemplate, Date, Message, Offsets, TextError, Tokenizer, kept};
use std::ops::Range;
use std::path::Path;

/// A tokenizer and a chat template.
#[derive(Debug)]
pub struct Chat {
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// The special tokens, the longest first.
    special: Vec<(String, u32)>,
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
    /// Returns an error if the folder has no template, or if the template can't be read.
    pub fn open(folder: &Path, tokenizer: Tokenizer) -> Result<Self, TextError> {
        let template = ChatTemplate::open(folder, &tokenizer)?;
        let template = template.ok_or_else(|| TextError::Missing {
            folder: folder.into(),
            problem: "the checkpoint has no chat template (chat_template.jinja, or `chat_template` in \
                      tokenizer_config.json); it may not be tuned for conversations",
        })?;
        Ok(Self {
            special: tokenizer.special_tokens(),
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

    /// Returns the tokenizer alone.
    pub fn into_tokenizer(self) -> Tokenizer {
        self.tokenizer
    }

    /// Returns `true` for a special token, which can end an answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.special.iter().any(|(_, special)| *special == id)
    }

    /// Returns the template.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// Returns the token ids of a conversation and of the start of the assistant's next turn, for a model to go on.
    ///
    /// # Errors
    /// Returns an error if the template refuses the conversation or leaves out a part of it, or if the tokenizer fails.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>, TextError> {
        let text = self.template.render(messages, true)?;
        kept::check(&self.template, messages, (&text, true))?;
        Ok(self.tokenizer.encode_plain(&text)?.ids)
    }

    /// Returns the token ids of a whole conversation, and which of them the assistant writes.
    ///
    /// The template's tags `{% generation %}` say which, if it has any. Otherwise an answer begins where the template has
    /// the model begin. It ends with `eos_token`, or else with the special token that the template writes behind it: in the
    /// same turn, or else as the first of the next turn. Behind the last answer such a token is added. Without
    /// any, it ends where the template ends the turn. A token across the border of an answer is a token of the answer.
    ///
    /// # Errors
    /// Returns an error if the template refuses the conversation or leaves out a part of it, if the tokenizer fails, or if an
    /// answer can't be found in the rendered conversation.
    pub fn tokens(&self, messages: &[Message]) -> Result<Tokens, TextError> {
        let rendered = self.template.marked(messages, false)?;
        let text = &rendered.text;
        kept::check(&self.template, messages, (text, false))?;
        let answers: Vec<Answer> = match self.template.marks_answers {
            true => rendered.answers.into_iter().map(Answer::from).collect(),
            false => {
                let eos = self.tokenizer.special("eos_token");
                Finder::new(&self.template, (&self.special, eos), messages, text).answers()?
            }
        };
        let Offsets { mut ids, bytes } = self.tokenizer.encode_plain_long(text)?;
        // Tokens of text are in its order.
        let first = |byte| bytes.partition_point(|token: &Range<usize>| token.end <= byte);
        let end = |byte| bytes.partition_point(|token: &Range<usize>| token.start < byte);
        let mut found = Vec::with_capacity(answers.len());
        for answer in answers {
            let mut tokens = first(answer.bytes.start)..end(answer.bytes.end);
            if let Some(end) = answer.unwritten {
                ids.push(end);
                tokens.end = ids.len();
            }
            found.push(tokens);
        }
        Ok(Tokens {
            ids,
            answers: found,
        })
    }
}
