//! A template that can render.

use super::{operators, python};
use crate::text::Date;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value};
use serde::{Deserialize, Serialize};

/// The work that a template may do. A conversation of a hundred thousand messages takes a part of it.
const FUEL: u64 = 1 << 26;

/// The problem of a template that takes more work.
pub(super) const ENDLESS: &str = "it does not end";

/// The name of the one template.
const NAME: &str = "chat";

/// The bytes of a rendered text that are always allowed, and those for each byte of the values.
const LONGEST: (usize, usize) = (1 << 20, 16);

/// The characters of a template's own message that are shown.
const LONGEST_PROBLEM: usize = 1000;

/// A template, in an environment like that of transformers.
#[derive(Debug)]
pub(super) struct Engine(Environment<'static>);

/// The parts that make an engine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Setup {
    /// The template, in which tags of answers are replaced.
    pub(super) source: String,
    /// The date that the template is told, in place of today's.
    pub(super) date: Option<String>,
}

/// The reason why a template can't be read or rendered.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Failure {
    /// The line of the template, if it is known.
    pub(super) line: Option<usize>,
    /// The template's own message, or the reason.
    pub(super) problem: String,
}

impl Engine {
    /// Reads a template.
    pub(super) fn new(setup: Setup) -> Result<Self, Failure> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
        environment.set_fuel(Some(FUEL));
        python::add(&mut environment);
        environment.add_template_owned(NAME, operators::replace(&setup.source))?;
        let mut engine = Self(environment);
        if let Some(date) = setup.date {
            let date = date.parse::<Date>();
            let date = date.map_err(|error| Failure::new(error.to_string()))?;
            engine.fix_date(date);
        }
        Ok(engine)
    }

    /// Has the template write this date, in place of today's.
    pub(super) fn fix_date(&mut self, date: Date) {
        python::fix_date(&mut self.0, date);
    }

    /// Renders values, a JSON object.
    pub(super) fn render(&self, values: &str) -> Result<String, Failure> {
        let longest = LONGEST.0 + LONGEST.1 * values.len();
        let values: Value = serde_json::from_str(values)
            .map_err(|error| Failure::new(format!("the conversation is not taken: {error}")))?;
        let text = self.0.get_template(NAME)?.render(values)?;
        match text.len() > longest {
            true => Err(Failure::new(format!(
                "its text has {} bytes, more than {longest}, which are allowed for a conversation of this size",
                text.len()
            ))),
            false => Ok(text),
        }
    }
}

impl Failure {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self {
            line: None,
            problem: problem.into(),
        }
    }
}

impl From<minijinja::Error> for Failure {
    fn from(error: minijinja::Error) -> Self {
        let mut problem = match (error.kind(), error.detail()) {
            (ErrorKind::OutOfFuel, _) => ENDLESS.to_owned(),
            (_, Some(detail)) => detail.to_owned(),
            (kind, None) => kind.to_string(),
        };
        // The cause of an error in a nested call says more.
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            problem = format!("{problem}: {inner}");
            cause = inner.source();
        }
        if let Some((end, _)) = problem.char_indices().nth(LONGEST_PROBLEM) {
            problem.truncate(end);
            problem.push('…');
        }
        Self {
            line: error.line(),
            problem,
        }
    }
}
