//! Chat templates: conversations as the text that a model was tuned on.

mod engine;
mod filters;
mod format;
mod json;
mod methods;
mod objects;
mod operators;
mod printf;
mod python;
mod tags;
mod worker;
mod write;

use super::config::TokenizerConfig;
use super::{Message, TextError, Tokenizer};
use engine::Setup;
use jiff::civil::Date;
use minijinja::{Value, context};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use worker::{Renderer, Stop};
pub use worker::{interrupt_templates_on, isolate_templates};

/// The chat template of a checkpoint.
///
/// It is a template of Jinja, and sees what transformers gives it: `messages`, `add_generation_prompt`, the special
/// tokens (`bos_token`, `eos_token` and so on), `raise_exception`, `strftime_now` and Python's `tojson`. `tools` are
/// those of the first message, and `documents` is always `none`.
///
/// After [`isolate_templates`], it renders in a process that is ended if it takes 1 GiB of memory (on Linux) or 10 seconds.
/// Otherwise only the number of its steps and the length of its text have limits.
#[derive(Debug)]
pub struct ChatTemplate {
    renderer: Renderer,
    writes_date: bool,
    file: PathBuf,
    special: BTreeMap<String, String>,
    /// True if the template itself marks the assistant's turns, by `{% generation %}`.
    pub(super) marks_answers: bool,
}

/// A rendered conversation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) text: String,
    /// The bytes of the parts that the template marks as the assistant's.
    pub(super) answers: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// Reads the template of a folder: `chat_template.jinja`, or the field `chat_template` of `chat_template.json` or
    /// `tokenizer_config.json`. Returns `None` if the folder has none of them.
    ///
    /// # Errors
    /// Returns an error that names the file if it can't be read or is not a template.
    pub fn open(folder: &Path, tokenizer: &Tokenizer) -> Result<Option<Self>, TextError> {
        let Some((file, source)) = TokenizerConfig::open(folder)?.template else {
            return Ok(None);
        };
        Self::new(file, &source, tokenizer.specials().clone()).map(Some)
    }

    fn new(
        file: PathBuf,
        source: &str,
        special: BTreeMap<String, String>,
    ) -> Result<Self, TextError> {
        // Python reads all ends of lines as this one.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let (source, marks_answers) = tags::replace(&source);
        let writes_date = source.contains("strftime_now");
        let renderer = Renderer::new(Setup { source, date: None });
        Ok(Self {
            renderer: renderer.map_err(|stop| failed(&file, stop))?,
            writes_date,
            file,
            special,
            marks_answers,
        })
    }

    /// Has the template write this date, in place of today's.
    #[must_use]
    pub fn dated(mut self, date: Date) -> Self {
        self.renderer.fix_date(date);
        self
    }

    /// Returns `true` if the template itself marks answers, by `{% generation %}`.
    pub fn marks_answers(&self) -> bool {
        self.marks_answers
    }

    /// Returns `true` if the template asks for the date.
    pub fn writes_date(&self) -> bool {
        self.writes_date
    }

    /// Returns the text of a conversation. `answer_next` adds the start of the assistant's next turn.
    ///
    /// # Errors
    /// Returns the template's own message if it refuses the conversation, or the reason why it fails.
    pub fn render(&self, messages: &[Message], answer_next: bool) -> Result<String, TextError> {
        Ok(self.marked(messages, answer_next)?.text)
    }

    /// Renders a conversation, with the parts that the template marks.
    pub(super) fn marked(
        &self,
        messages: &[Message],
        answer_next: bool,
    ) -> Result<Rendered, TextError> {
        if messages.is_empty() {
            let problem = "the conversation is empty; it needs at least one message";
            return Err(TextError::Conversation(problem.into()));
        }
        let contents = messages.iter().map(|message| message.content.as_str());
        tags::refuse_marks(contents)?;
        let values = context! {
            messages => messages.iter().map(Message::dictionary).collect::<Vec<_>>(),
            add_generation_prompt => answer_next,
            tools => messages[0].tools.clone(),
            documents => (),
            ..Value::from_pairs(self.special.iter().map(|(name, token)| (name.as_str(), token.as_str())))
        };
        let line = serde_json::to_string(&values);
        let line = line.map_err(|error| TextError::Conversation(error.to_string()))?;
        tags::refuse_marks_in(&line)?;
        let text = self.renderer.render(&line);
        let text = text.map_err(|stop| failed(&self.file, stop))?;
        Ok(tags::take_marks(&text))
    }
}

fn failed(file: &Path, stop: Stop) -> TextError {
    match stop {
        Stop::Interrupted => TextError::Interrupted,
        Stop::Failed(failure) => TextError::Template {
            file: file.into(),
            line: failure.line,
            problem: failure.problem,
        },
    }
}
