//! Records of answers that are compared or judged, as TRL and LLaMA-Factory write them.

use super::calls;
use super::chat::check_turns;
use super::sides::{self, Side, conversation, instruction, plain_turns, side};
use super::turns::{PICTURES, Source, UNKNOWN, given, optional, refuse, text};
use super::unlearned;
use crate::text::Message;
use serde_json::{Map, Value};
use std::hash::{DefaultHasher, Hash, Hasher};

#[cfg(test)]
mod tests;

/// The records that a loss of answers takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pairs of a chosen and a rejected answer.
    Pairs,
    /// Such pairs, which can have a margin, for reward models.
    Scored,
    /// Single answers that are desirable or not. A pair is one of each.
    Single,
    /// Prompts that the model completes itself, or completions with their rewards.
    Prompts,
}

/// Answers to one prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Preference {
    /// The prompt and its answers: a chosen and a rejected one, or one alone.
    pub texts: Texts,
    /// True if the one answer is desirable. `None` for a pair.
    pub desirable: Option<bool>,
    /// The log-probabilities of the answers by the reference, if the record has them.
    pub reference: Option<Vec<f64>>,
    /// The least difference of the scores of a pair, if the record has it.
    pub margin: Option<f64>,
}

/// A prompt and its answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Texts {
    /// Texts.
    Plain {
        prompt: String,
        answers: Vec<String>,
    },
    /// Turns of a conversation.
    Chat {
        prompt: Vec<Message>,
        answers: Vec<Vec<Message>>,
    },
}

/// The fields that say whether a single answer is desirable: TRL's and LLaMA-Factory's.
const LABELS: [&str; 2] = ["label", "kto_tag"];

impl Preference {
    /// Reads a record from its fields.
    ///
    /// # Errors
    /// Returns the problem.
    pub fn parse(source: &Source<'_>, kind: Kind) -> Result<Vec<Self>, String> {
        let fields = source.fields;
        refuse(fields, &UNKNOWN)?;
        refuse(fields, &PICTURES)?;
        if kind != Kind::Scored {
            refuse(fields, &["margin"])?;
        }
        refuse(fields, &["ref_logps", "ref_KL_logps"])?;
        unlearned::refuse(fields, &["loss"])?;
        sides::check_fields(fields)?;
        let has = |name: &&str| given(fields, name).is_some();
        let is_pair = ["chosen", "rejected"].iter().any(has);
        if is_pair {
            refuse(fields, &LABELS)?;
        }
        match (kind, is_pair) {
            (Kind::Pairs, true) => Ok(vec![Self::pair(source)?]),
            (Kind::Scored, true) => Ok(vec![Self {
                margin: margin(fields)?,
                ..Self::pair(source)?
            }]),
            (Kind::Pairs | Kind::Scored, false) => Err(no_pair(fields)),
            (Kind::Single, true) => Ok(Self::pair(source)?.apart()),
            (Kind::Single, false) => Ok(vec![Self::single(source)?]),
            (Kind::Prompts, _) => unreachable!("prompts are records of their own"),
        }
    }

    fn pair(source: &Source<'_>) -> Result<Self, String> {
        let [chosen, rejected] = ["chosen", "rejected"].map(|name| side(source, name));
        let (chosen, rejected) = (chosen?, rejected?);
        let texts = sides::pair(sides::prompt(source)?, chosen, rejected)?;
        Ok(Self {
            texts: texts.checked(source, ["`chosen`", "`rejected`"])?,
            desirable: None,
            reference: reference(source.fields)?,
            margin: None,
        })
    }

    /// Returns the answers of a pair as single ones.
    fn apart(self) -> Vec<Self> {
        let single = |at: usize| Self {
            texts: match &self.texts {
                Texts::Plain { prompt, answers } => Texts::Plain {
                    prompt: prompt.clone(),
                    answers: vec![answers[at].clone()],
                },
                Texts::Chat { prompt, answers } => {
                    Texts::chat(prompt.clone(), vec![answers[at].clone()])
                }
            },
            desirable: Some(at == 0),
            reference: self.reference.as_ref().map(|known| vec![known[at]]),
            margin: None,
        };
        vec![single(0), single(1)]
    }

    fn single(source: &Source<'_>) -> Result<Self, String> {
        let desirable = label(source.fields)?;
        let texts = single_answer(source)?;
        Ok(Self {
            texts: texts.checked(source, ["`completion`"; 2])?,
            desirable: Some(desirable),
            reference: None,
            margin: None,
        })
    }
}

/// Returns the error of a record without answers that can be compared.
fn no_pair(fields: &Map<String, Value>) -> String {
    let other = match LABELS.iter().any(|name| fields.contains_key(*name)) {
        true => "one with a label is for --loss kto or apo-zero-unpaired",
        false => "other records are for --loss sft",
    };
    format!(
        "`chosen` is missing: this loss compares pairs, records with `chosen` and `rejected`; {other}"
    )
}

/// Returns whether a single answer is desirable.
fn label(fields: &Map<String, Value>) -> Result<bool, String> {
    let names = LABELS.into_iter();
    let names = names.filter(|name| given(fields, name).is_some());
    match names.collect::<Vec<_>>()[..] {
        [name] => fields[name]
            .as_bool()
            .ok_or_else(|| format!("`{name}` must be true or false, but is {}", fields[name])),
        [] => Err(
            "`label` (TRL) or `kto_tag` (LLaMA-Factory) is missing: this loss judges single answers, records with \
             `completion` and a label, or both answers of pairs, records with `chosen` and `rejected`"
                .into(),
        ),
        _ => Err("the record has `label` and `kto_tag`; keep one".into()),
    }
}

/// Returns the prompt and the answer of a record with one.
fn single_answer(source: &Source<'_>) -> Result<Texts, String> {
    let fields = source.fields;
    let empty = || "the completion is empty".to_owned();
    let turns = |mut all: Vec<Message>| {
        let answer = all.pop().filter(Message::is_answer);
        let answer = answer.ok_or("the last turn must be the assistant's")?;
        match answer.content.trim().is_empty() && answer.calls().is_empty() {
            true => Err(empty()),
            false => Ok(Texts::chat(all, vec![vec![answer]])),
        }
    };
    let has_completion = given(fields, "completion").is_some();
    if let Some(name) = conversation(fields) {
        return match has_completion {
            true => Err(format!(
                "the record has `{name}`, which ends with the answer, and `completion`; keep one"
            )),
            false => turns(plain_turns(source, name)?),
        };
    }
    if given(fields, "instruction").is_some() && !has_completion {
        let answer = Message::assistant(text(fields, "output")?);
        return turns([instruction(fields)?, vec![answer]].concat());
    }
    let completion = side(source, "completion")?;
    match (
        sides::prompt(source)?.ok_or("`prompt` is missing")?,
        completion,
    ) {
        (Side::Plain(_), Side::Plain(answer)) if answer.trim().is_empty() => Err(empty()),
        (Side::Plain(prompt), Side::Plain(answer)) => Ok(Texts::Plain {
            prompt,
            answers: vec![answer],
        }),
        (Side::Turns(prompt), Side::Turns(answer)) => Ok(Texts::chat(prompt, vec![answer])),
        _ => Err("`prompt` and `completion` must both be texts or both be turns".into()),
    }
}

impl Texts {
    /// Returns turns of a conversation.
    pub fn chat(prompt: Vec<Message>, answers: Vec<Vec<Message>>) -> Self {
        Self::Chat { prompt, answers }
    }

    /// Returns a number that tells the prompt apart.
    pub fn prompt_number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Plain { prompt, .. } => prompt.hash(&mut hasher),
            Self::Chat { prompt, .. } => {
                for turn in prompt {
                    let others = format!("{:?} {:?}", turn.fields, turn.tools);
                    (&turn.role, &turn.content, others).hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }

    /// Puts the system message of a record before its turns.
    fn with_system(mut self, fields: &Map<String, Value>) -> Result<Self, String> {
        let system = optional(fields, "system")?.filter(|system| !system.is_empty());
        let Some(system) = system else {
            return Ok(self);
        };
        let Self::Chat { prompt, .. } = &mut self else {
            return Err(
                "`system` is of a conversation, but prompt and answers are texts; make turns of them, or write it into \
                 `prompt`"
                    .into(),
            );
        };
        match prompt.first().filter(|turn| turn.role == "system") {
            Some(_) => Err(
                "the record has `system`, and its first turn is the system's too; keep one".into(),
            ),
            None => {
                prompt.insert(0, Message::system(system));
                Ok(self)
            }
        }
    }

    /// Checks turns, and adds the system message and the functions that the assistant can call. `names` are those of the
    /// answers.
    pub fn checked(self, source: &Source<'_>, names: [&str; 2]) -> Result<Self, String> {
        let mut whole = self.with_system(source.fields)?;
        let Self::Chat { prompt, answers } = &mut whole else {
            refuse(source.fields, &["tools", "functions"])?;
            return Ok(whole);
        };
        if answers.iter().any(Vec::is_empty) {
            return Err("a completion is empty".into());
        }
        let last = prompt.last().ok_or("the prompt has no turn")?;
        if last.is_answer() {
            return Err("the prompt must end with the user's turn".into());
        }
        check_turns(prompt)?;
        for (answer, name) in answers.iter().zip(names) {
            let ends = [answer.first(), answer.last()];
            if !ends.into_iter().flatten().all(Message::is_answer) {
                return Err(format!("{name} must be the assistant's"));
            }
            check_turns(answer).map_err(|problem| format!("{name}: {problem}"))?;
        }
        let own = prompt.iter_mut().find_map(|turn| turn.tools.take());
        prompt[0].tools = match (calls::tools(&source.ordered)?, own) {
            (Some(_), Some(_)) => {
                return Err("the record and a message have `tools`; keep one".into());
            }
            (tools, own) => tools.or(own),
        };
        Ok(whole)
    }
}

/// Reads the least difference of a pair's scores.
fn margin(fields: &Map<String, Value>) -> Result<Option<f64>, String> {
    const MOST: f64 = 1e6;
    let Some(value) = given(fields, "margin") else {
        return Ok(None);
    };
    let number = value.as_f64().filter(|number| number.abs() <= MOST);
    let wrong = || format!("`margin` must be a number from -{MOST} to {MOST}, but is {value}");
    number.map(Some).ok_or_else(wrong)
}

/// Reads log-probabilities of a reference, as TRL writes them.
fn reference(fields: &Map<String, Value>) -> Result<Option<Vec<f64>>, String> {
    let names = ["ref_chosen_logps", "ref_rejected_logps"];
    let given = names.map(|name| fields.get(name).filter(|value| !value.is_null()));
    match given {
        [None, None] => Ok(None),
        [Some(chosen), Some(rejected)] => {
            let number = |name: &str, value: &Value| {
                // Losses are computed in f32.
                let fits = |number: &f64| *number <= 0.0 && (*number as f32).is_finite();
                value.as_f64().filter(fits).ok_or_else(|| {
                    format!(
                        "`{name}` must be a number of at most 0 within the range of f32, but is {value}"
                    )
                })
            };
            Ok(Some(vec![
                number(names[0], chosen)?,
                number(names[1], rejected)?,
            ]))
        }
        _ => Err("the record has the reference's log-probability of one answer alone".into()),
    }
}
