//! Records of prompts that the model completes itself, or of completions with their rewards.

use super::encode::{Encoder, Found};
use super::example::Example;
use super::files::{Placed, report};
use super::preferences::Texts;
use super::record::Record;
use super::sides::{Side, one_prompt, prompt, side};
use super::turns::{MEDIA, Source, refuse};
use crate::text::{Message, TextError};
use anyhow::ensure;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A prompt, and a completion of it if the record has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompted {
    /// The prompt, and the completion unless it is token ids.
    pub texts: Texts,
    /// The reward, tokens and log-probabilities that the record has of the completion.
    pub recorded: Option<Recording>,
    /// All fields of the record, for a reward program.
    pub fields: Map<String, Value>,
}

/// A completion that a model wrote before.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Its token ids, if the record has these and no text.
    pub ids: Option<Vec<u32>>,
    /// Its reward.
    pub reward: f64,
    /// The log-probability of each token by the model that wrote it.
    pub old: Option<Vec<f64>>,
}

impl Prompted {
    /// Reads a record from its fields.
    ///
    /// # Errors
    /// Returns the problem with the record.
    pub fn parse(source: &Source<'_>) -> Result<Self, String> {
        let fields = source.fields;
        refuse(fields, &MEDIA)?;
        one_prompt(fields)?;
        let prompt = prompt(source)?.ok_or("`prompt` is missing")?;
        let recorded = Recording::parse(fields)?;
        let has_text = recorded.as_ref().is_some_and(|own| own.ids.is_none());
        let completion = has_text.then(|| side(source, "completion")).transpose()?;
        let texts = match (prompt, completion) {
            (Side::Plain(prompt), None) => Texts::Plain {
                prompt,
                answers: Vec::new(),
            },
            (Side::Plain(prompt), Some(Side::Plain(answer))) => Texts::Plain {
                prompt,
                answers: vec![answer],
            },
            (Side::Turns(prompt), None) => Texts::Chat {
                prompt,
                answers: Vec::new(),
            },
            (Side::Turns(prompt), Some(Side::Turns(answer))) => Texts::Chat {
                prompt,
                answers: vec![answer],
            },
            (Side::Turns(prompt), Some(Side::Plain(answer))) => Texts::Chat {
                prompt,
                answers: vec![vec![Message::assistant(answer)]],
            },
            (Side::Plain(_), Some(Side::Turns(_))) => {
                return Err("`completion` must be a text, as `prompt` is".into());
            }
        };
        Ok(Self {
            texts: texts.checked(source, ["`completion`"; 2])?,
            recorded,
            fields: fields.clone(),
        })
    }
}

impl Recording {
    fn parse(fields: &Map<String, Value>) -> Result<Option<Self>, String> {
        let field = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let Some(completion) = field("completion") else {
            let of_none = ["reward", "old_logps"].into_iter();
            return match of_none.into_iter().find(|name| field(name).is_some()) {
                Some(name) => Err(format!(
                    "`{name}` is that of a `completion`, which is missing"
                )),
                None => Ok(None),
            };
        };
        let reward = field("reward").ok_or(
            "`completion` has no `reward`; give it, or rename the field, such as to `answer`, for the model to complete the \
             prompt",
        )?;
        let number = |name: &str, value: &Value| {
            let fits = |number: &f64| (*number as f32).is_finite();
            let wrong =
                || format!("`{name}` must be a number within the range of f32, but is {value}");
            value.as_f64().filter(fits).ok_or_else(wrong)
        };
        let old = field("old_logps").map(|value| {
            let numbers = value.as_array();
            // Losses are computed in f32.
            let fits = |number: &f64| *number <= 0.0 && (*number as f32).is_finite();
            let number = |value: &Value| value.as_f64().filter(fits);
            let numbers = numbers.and_then(|all| all.iter().map(number).collect::<Option<_>>());
            numbers
                .ok_or("`old_logps` must be a list of numbers of at most 0 within the range of f32")
        });
        Ok(Some(Self {
            ids: token_ids(completion)?,
            reward: number("reward", reward)?,
            old: old.transpose()?,
        }))
    }
}

/// Returns a completion that is a list of token ids.
fn token_ids(completion: &Value) -> Result<Option<Vec<u32>>, String> {
    let list = completion
        .as_array()
        .filter(|list| list.iter().any(Value::is_number));
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let Some(list) = list else {
        return Ok(None);
    };
    let ids: Option<Vec<u32>> = list.iter().map(id).collect();
    ids.map(Some)
        .ok_or_else(|| "`completion` is a list of numbers, but not of token ids".into())
}

/// A prompt of a run.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Its tokens.
    pub ids: Vec<u32>,
    /// The fields of its record.
    pub fields: Map<String, Value>,
    /// The completions that its records have, at least two, or none.
    pub recorded: Vec<Recorded>,
}

impl Prompt {
    /// Returns its completions as examples, or the prompt alone as one in which nothing is learned.
    pub fn examples(&self) -> Vec<Example> {
        if self.recorded.is_empty() {
            return vec![Example::new(self.ids.clone(), Vec::new())];
        }
        self.recorded
            .iter()
            .map(|own| own.example.clone())
            .collect()
    }
}

/// A completion behind its prompt, with its reward.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its tokens, which are learned, behind those of the prompt.
    pub example: Example,
    /// Its reward.
    pub reward: f64,
    /// The log-probability of each of its tokens by the model that wrote it.
    pub old: Option<Vec<f64>>,
}

/// The prompts of files.
#[derive(Debug, Default)]
pub struct Prompts {
    /// The prompts.
    pub rows: Vec<Prompt>,
    /// The places of records that were left out, because they are too long.
    pub left_out: Vec<String>,
}

impl Encoder {
    /// Returns the prompts of records, in their order. Completions of one prompt are brought together. `room` is the
    /// largest number of tokens of a completion.
    ///
    /// # Errors
    /// Returns an error that lists all records that can't be turned into token ids or are not like the others, and one if no
    /// prompt is left.
    pub fn encode_prompts(
        &self,
        records: &[Placed],
        room: usize,
        progress: impl FnMut(usize),
    ) -> anyhow::Result<Prompts> {
        let (mut found, mut problems) = (Prompts::default(), Vec::new());
        let (mut known, mut places) = (BTreeMap::new(), Vec::new());
        self.each(records, progress, |place, record, (mut examples, _)| {
            let (Record::Prompt(record), Some(example)) = (record, examples.pop()) else {
                unreachable!("records of prompts are read");
            };
            let start = example.learned[0].start;
            let needed = match record.recorded {
                Some(_) => example.ids.len(),
                None => start.saturating_add(room),
            };
            if needed > self.length() {
                found.left_out.push(place.to_owned());
                return;
            }
            let ids = example.ids[..start].to_vec();
            let Some(own) = &record.recorded else {
                places.push(place.to_owned());
                found.rows.push(Prompt {
                    ids,
                    fields: record.fields.clone(),
                    recorded: Vec::new(),
                });
                return;
            };
            let tokens = example.targets();
            if let Some(old) = own.old.as_ref().filter(|old| old.len() != tokens) {
                problems.push(format!(
                    "{place}: `old_logps` has {} numbers, but the completion {tokens} tokens; `completion` as a list of token \
                     ids leaves no doubt",
                    old.len()
                ));
            }
            // A completion can change the last token of its prompt.
            let prompt = record.texts.prompt_number();
            let row = *known.entry(prompt).or_insert_with(|| {
                places.push(place.to_owned());
                found.rows.push(Prompt {
                    ids,
                    fields: record.fields.clone(),
                    recorded: Vec::new(),
                });
                found.rows.len() - 1
            });
            found.rows[row].recorded.push(Recorded {
                example,
                reward: own.reward,
                old: own.old.clone(),
            });
        })?;
        for (row, place) in found.rows.iter().zip(&places) {
            if row.recorded.len() == 1 {
                problems.push(format!(
                    "{place}: it is the only completion of its prompt, but an advantage compares at least two"
                ));
            }
        }
        report(&problems)?;
        ensure!(
            !found.rows.is_empty(),
            "no prompt leaves room for a completion within {} tokens; a larger --seq or a smaller --max-new-tokens keeps more",
            self.length()
        );
        Ok(found)
    }

    /// Returns a prompt as an example that learns nothing behind it, or with a completion.
    pub(super) fn prompted(&self, record: &Prompted) -> Result<Found, TextError> {
        let ids = record.recorded.as_ref().and_then(|own| own.ids.as_ref());
        let has_text = record.recorded.is_some() && ids.is_none();
        if has_text {
            return self.answers(&record.texts, true);
        }
        let mut all = self.prompt(&record.texts)?;
        let start = all.len();
        let wrong = |problem: String| Err(TextError::Conversation(problem));
        if start == 0 {
            return wrong("the prompt has no token".into());
        }
        if ids.is_some_and(Vec::is_empty) {
            return wrong("the completion is empty".into());
        }
        let vocabulary = self.vocabulary();
        let mut foreign = ids.into_iter().flatten();
        if let Some(id) = foreign.find(|id| **id as usize >= vocabulary) {
            return wrong(format!("token {id} is not in 0..{vocabulary} (vocab_size)"));
        }
        all.extend(ids.into_iter().flatten());
        let learned = std::iter::once(start..all.len()).collect();
        let example = Example::new(all, learned);
        Ok((vec![example], Vec::new()))
    }
}

/// Checks that prompts are all to be completed, or all have completions, and that these are alike.
///
/// # Errors
/// Returns an error if they are not.
pub fn check_alike(prompts: &[Prompt]) -> anyhow::Result<()> {
    let completions = || prompts.iter().flat_map(|prompt| &prompt.recorded);
    let recorded = prompts
        .iter()
        .filter(|prompt| !prompt.recorded.is_empty())
        .count();
    ensure!(
        recorded == 0 || recorded == prompts.len(),
        "{recorded} of {} prompts have completions; give them for all or for none",
        prompts.len()
    );
    let known = completions().filter(|own| own.old.is_some()).count();
    ensure!(
        known == 0 || known == completions().count(),
        "{known} of {} completions have `old_logps`; give them in all or in none",
        completions().count()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(record: &Value) -> Result<Prompted, String> {
        Prompted::parse(&Source {
            fields: record.as_object().unwrap(),
            ordered: serde_json::from_value(record.clone()).unwrap(),
        })
    }

    #[test]
    fn prompts_and_completions_are_read() {
        let found = parse(&json!({"prompt": "1 + 1 =", "answer": 2})).unwrap();
        assert_eq!(
            (found.recorded, found.fields["answer"].as_u64()),
            (None, Some(2))
        );
        let ask = json!([{"role": "user", "content": "q"}]);
        let found = parse(&json!({"prompt": ask, "completion": "a", "reward": 1})).unwrap();
        assert!(
            matches!(&found.texts, Texts::Chat { answers, .. } if answers[0][0].content == "a")
        );
        let record =
            json!({"prompt": "p", "completion": [4, 5], "reward": -0.5, "old_logps": [-1, -2.5]});
        let own = parse(&record).unwrap().recorded.unwrap();
        assert_eq!((own.ids, own.reward), (Some(vec![4, 5]), -0.5));
        assert_eq!(own.old, Some(vec![-1.0, -2.5]));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (record, expected) in [
            (json!({"text": "a"}), "`prompt` is missing"),
            (
                json!({"prompt": "a", "completion": "b"}),
                "`completion` has no `reward`",
            ),
            (
                json!({"prompt": "a", "reward": 1}),
                "`completion`, which is missing",
            ),
            (
                json!({"prompt": "a", "completion": "b", "reward": "1"}),
                "`reward` must be a number",
            ),
            (
                json!({"prompt": "a", "completion": "b", "reward": 1e300}),
                "`reward` must be a number within the range of f32",
            ),
            (
                json!({"prompt": "a", "completion": [1, -1], "reward": 1}),
                "not of token ids",
            ),
            (
                json!({"prompt": "a", "completion": [1], "reward": 1, "old_logps": [0.5]}),
                "numbers of at most 0",
            ),
            (
                json!({"prompt": "a", "completion": [1], "reward": 1, "old_logps": [-1e300]}),
                "within the range of f32",
            ),
            (
                json!({"prompt": "a", "instruction": "b"}),
                "`instruction` and `prompt`, which are both prompts",
            ),
            (
                json!({"prompt": "a", "messages": [{"role": "user", "content": "q"}]}),
                "`messages` and `prompt`, which are both prompts",
            ),
            (
                json!({"prompt": "a", "history": [["q", "a"]]}),
                "`history` goes with `instruction`",
            ),
            (
                json!({"prompt": "a", "image": "a.png"}),
                "`image` is read with conversations of --loss sft alone",
            ),
            (
                json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}),
                "must end with the user's turn",
            ),
        ] {
            let said = parse(&record).unwrap_err();
            assert!(said.contains(expected), "{record}: {said}");
        }
    }
}
