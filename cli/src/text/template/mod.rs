//! Chat templates: conversations as the text that a model was tuned on.

mod python;
mod tags;

use super::config::TokenizerConfig;
use super::{Message, TextError, Tokenizer};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value, context};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The work that a template may do. A conversation of a hundred thousand messages takes a part of it.
const FUEL: u64 = 1 << 26;

/// The chat template of a checkpoint.
///
/// It is a template of Jinja, and sees what transformers gives it: `messages`, `add_generation_prompt`, the special
/// tokens (`bos_token`, `eos_token` and so on), `raise_exception`, `strftime_now` and Python's `tojson`. `tools`
/// are those of the first message, and `documents` are none.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
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

const NAME: &str = "chat";

impl ChatTemplate {
    /// Reads the template of a folder: `chat_template.jinja`, or the field `chat_template` of `chat_template.json` or
    /// `tokenizer_config.json`. Returns `None` if there is none.
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
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
        environment.set_fuel(Some(FUEL));
        python::add(&mut environment);
        tags::add(&mut environment);
        let (source, marks_answers) = tags::replace(source);
        let added = environment.add_template_owned(NAME, source);
        added.map_err(|error| failed(&file, &error))?;
        Ok(Self {
            environment,
            file,
            special,
            marks_answers,
        })
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
        let template = self.environment.get_template(NAME);
        let text = template.and_then(|template| template.render(values));
        let text = text.map_err(|error| failed(&self.file, &error))?;
        Ok(tags::take_marks(&text))
    }
}

fn failed(file: &Path, error: &minijinja::Error) -> TextError {
    let mut problem = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "it does not end".to_owned(),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    };
    // The cause of an error in a nested call says more.
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        problem = format!("{problem}: {inner}");
        cause = inner.source();
    }
    TextError::Template {
        file: file.into(),
        line: error.line(),
        problem,
    }
}
