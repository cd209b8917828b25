//! Records of answers that are compared or judged, as TRL and LLaMA-Factory write them.

use super::calls;
use super::json::Ordered;
use super::record::{Chat, alpaca_question, check_turns, with_system};
use super::turns::{Source, UNKNOWN, messages, of_turns, refuse, text};
use super::unlearned::{self, Part};
use crate::text::Message;
use serde_json::{Map, Value};

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
    /// The log-probabilities of both answers by the reference, if the record has them.
    pub reference: Option<[f64; 2]>,
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

/// The value of a field: a text, or turns.
pub(super) enum Side {
    Plain(String),
    Turns(Vec<Message>),
}

impl Preference {
    /// Reads a record from its fields.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(source: &Source<'_>, kind: Kind) -> Result<Vec<Self>, String> {
        let fields = source.fields;
        let mut others = fields.clone();
        for name in ["history", "label"] {
            others.remove(name);
        }
        if kind == Kind::Scored {
            others.remove("margin");
        }
        refuse(&others, &UNKNOWN)?;
        refuse(&others, &["margin", "ref_logps", "ref_KL_logps"])?;
        unlearned::refuse(&others)?;
        let is_pair = fields.contains_key("chosen") || fields.contains_key("rejected");
        match (kind, is_pair) {
            (Kind::Pairs, _) => Ok(vec![Self::pair(source)?]),
            (Kind::Scored, _) => {
                let margin = margin(fields)?;
                Ok(vec![Self {
                    margin,
                    ..Self::pair(source)?
                }])
            }
            (Kind::Single, true) => Ok(Self::pair(source)?.apart()),
            (Kind::Single, false) => Ok(vec![Self::single(source)?]),
            (Kind::Prompts, _) => unreachable!("prompts are records of their own"),
        }
    }

    fn pair(source: &Source<'_>) -> Result<Self, String> {
        let [chosen, rejected] = ["chosen", "rejected"].map(|name| side(source, name));
        let (chosen, rejected) = (chosen?, rejected?);
        let prompt = prompt(source)?;
        let texts = match (chosen, rejected) {
            (Side::Plain(chosen), Side::Plain(rejected)) => plain_pair(prompt, chosen, rejected)?,
            (Side::Turns(chosen), Side::Turns(rejected)) => chat_pair(prompt, chosen, rejected)?,
            _ => return Err("`chosen` and `rejected` must both be texts or both be turns".into()),
        };
        Ok(Self {
            texts: texts.checked(source, ["`chosen`", "`rejected`"])?,
            desirable: None,
            reference: reference(source.fields)?,
            margin: None,
        })
    }

    /// Returns the answers of a pair as single ones.
    fn apart(self) -> Vec<Self> {
        let single = |texts, desirable| Self {
            texts,
            desirable: Some(desirable),
            reference: None,
            margin: None,
        };
        let texts: Vec<Texts> = match self.texts {
            Texts::Plain { prompt, answers } => {
                let each = answers.into_iter().map(|answer| Texts::Plain {
                    prompt: prompt.clone(),
                    answers: vec![answer],
                });
                each.collect()
            }
            Texts::Chat { prompt, answers } => {
                let each = answers.into_iter().map(|answer| Texts::Chat {
                    prompt: prompt.clone(),
                    answers: vec![answer],
                });
                each.collect()
            }
        };
        texts
            .into_iter()
            .zip([true, false])
            .map(|(texts, desirable)| single(texts, desirable))
            .collect()
    }

    fn single(source: &Source<'_>) -> Result<Self, String> {
        let fields = source.fields;
        let given = ["label", "kto_tag"]
            .into_iter()
            .filter(|name| fields.contains_key(*name));
        let desirable = match given.collect::<Vec<_>>()[..] {
            [name] => fields[name].as_bool().ok_or_else(|| {
                format!("`{name}` must be true or false, but is {}", fields[name])
            })?,
            [] => return Err("`label` (TRL) or `kto_tag` (LLaMA-Factory) is missing".into()),
            _ => return Err("the record has `label` and `kto_tag`; keep one".into()),
        };
        let empty = || "the completion is empty".to_owned();
        let turns = |mut all: Vec<Message>| {
            let answer = all.pop().filter(Message::is_answer);
            let answer = answer.ok_or("the last turn must be the assistant's")?;
            match answer.content.trim().is_empty() && answer.calls().is_empty() {
                true => Err(empty()),
                false => Ok((all, vec![answer])),
            }
        };
        let texts = if let Some(name) = conversation(fields) {
            let (prompt, answer) = turns(with_system_field(fields, plain_turns(source, name)?)?)?;
            chat(prompt, vec![answer])
        } else if fields.contains_key("instruction") {
            let answer = Message::assistant(text(fields, "output")?);
            let (prompt, answer) = turns([instruction(fields)?, vec![answer]].concat())?;
            chat(prompt, vec![answer])
        } else {
            let completion = side(source, "completion")?;
            match (prompt(source)?.ok_or("`prompt` is missing")?, completion) {
                (Side::Plain(prompt), Side::Plain(answer)) => match answer.trim().is_empty() {
                    true => return Err(empty()),
                    false => Texts::Plain {
                        prompt,
                        answers: vec![answer],
                    },
                },
                (Side::Turns(prompt), Side::Turns(answer)) => chat(prompt, vec![answer]),
                _ => {
                    return Err(
                        "`prompt` and `completion` must both be texts or both be turns".into(),
                    );
                }
            }
        };
        Ok(Self {
            texts: texts.checked(source, ["`completion`"; 2])?,
            desirable: Some(desirable),
            reference: None,
            margin: None,
        })
    }
}

fn chat(prompt: Vec<Message>, answers: Vec<Vec<Message>>) -> Texts {
    Texts::Chat { prompt, answers }
}

impl Texts {
    /// Checks turns, and adds the functions that the assistant can call. `names` are those of the answers.
    pub(super) fn checked(mut self, source: &Source<'_>, names: [&str; 2]) -> Result<Self, String> {
        let Self::Chat { prompt, answers } = &mut self else {
            refuse(source.fields, &["tools", "functions"])?;
            return Ok(self);
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
        let own = prompt[0].tools.take();
        prompt[0].tools = match (calls::tools(&source.ordered)?, own) {
            (Some(_), Some(_)) => {
                return Err("the record and a message have `tools`; keep one".into());
            }
            (tools, own) => tools.or(own),
        };
        Ok(self)
    }
}

/// Returns the name of the field with a conversation of the kinds that LLaMA-Factory reads.
fn conversation(fields: &Map<String, Value>) -> Option<&'static str> {
    let mut names = ["conversations", "messages"].into_iter();
    names.find(|name| fields.contains_key(*name))
}

/// Returns the prompt that a record names, or `None` if its answers begin with it.
pub(super) fn prompt(source: &Source<'_>) -> Result<Option<Side>, String> {
    let fields = source.fields;
    if let Some(name) = conversation(fields) {
        let turns = with_system_field(fields, plain_turns(source, name)?)?;
        return Ok(Some(Side::Turns(turns)));
    }
    if fields.contains_key("instruction") {
        return Ok(Some(Side::Turns(instruction(fields)?)));
    }
    match fields.contains_key("prompt") {
        true => side(source, "prompt").map(Some),
        false => Ok(None),
    }
}

/// Reads an instruction with what was said before, as Alpaca and LLaMA-Factory write it.
fn instruction(fields: &Map<String, Value>) -> Result<Vec<Message>, String> {
    let mut turns = Vec::new();
    let history = fields.get("history").filter(|history| !history.is_null());
    if let Some(history) = history {
        let pair = |turn: &Value| -> Option<[Message; 2]> {
            let [question, answer] = &turn.as_array()?[..] else {
                return None;
            };
            Some([
                Message::user(question.as_str()?),
                Message::assistant(answer.as_str()?),
            ])
        };
        let pairs = history
            .as_array()
            .and_then(|all| all.iter().map(pair).collect());
        let pairs: Vec<[Message; 2]> =
            pairs.ok_or("`history` must be a list of pairs of a question and its answer")?;
        turns.extend(pairs.into_iter().flatten());
    }
    turns.push(Message::user(alpaca_question(fields)?));
    with_system_field(fields, turns)
}

fn with_system_field(
    fields: &Map<String, Value>,
    turns: Vec<Message>,
) -> Result<Vec<Message>, String> {
    let turns = turns.into_iter().map(|turn| (turn, Part::Prompt));
    Ok(with_system(fields, turns)?.messages)
}

/// Reads a field that is a text, a list of turns, or one turn.
pub(super) fn side(source: &Source<'_>, name: &str) -> Result<Side, String> {
    match source.fields.get(name) {
        // LLaMA-Factory's answers to an instruction are texts, and so are those of conversations.
        Some(Value::String(text)) if source.fields.contains_key("instruction") => {
            Ok(Side::Turns(vec![Message::assistant(text.as_str())]))
        }
        Some(Value::String(text)) => Ok(Side::Plain(text.clone())),
        Some(Value::Array(_)) => plain_turns(source, name).map(Side::Turns),
        Some(turn @ Value::Object(_)) => {
            let fields = Map::from_iter([(name.to_owned(), Value::from(vec![turn.clone()]))]);
            let ordered = source.ordered.get_attr(name).unwrap_or_default();
            let ordered = Ordered::from_pairs([(name, Ordered::from(vec![ordered]))]);
            let one = Source {
                fields: &fields,
                ordered,
            };
            plain_turns(&one, name).map(Side::Turns)
        }
        Some(_) => Err(format!("`{name}` must be a text or turns")),
        None => Err(format!("`{name}` is missing")),
    }
}

/// Reads turns in either spelling. All of an answer counts, so none can be marked as not to be learned.
fn plain_turns(source: &Source<'_>, name: &str) -> Result<Vec<Message>, String> {
    let first = source.fields.get(name).and_then(|turns| turns.get(0));
    let chat: Chat = match first.and_then(Value::as_object) {
        Some(first) if first.contains_key("from") => of_turns(source, name, "from", "value")?,
        _ => messages(source, name)?,
    };
    match chat.parts.contains(&Part::Unlearned) {
        true => Err(format!(
            "`{name}` has a turn that is marked as not to be learned, but a loss of answers counts all of an answer"
        )),
        false => Ok(chat.messages),
    }
}

fn plain_pair(prompt: Option<Side>, chosen: String, rejected: String) -> Result<Texts, String> {
    if chosen == rejected {
        return Err(EQUAL.into());
    }
    let (prompt, answers) = match prompt {
        Some(Side::Plain(prompt)) => (prompt, [chosen, rejected]),
        // Answers to turns of a conversation.
        Some(Side::Turns(prompt)) => {
            let answers = [chosen, rejected].map(|answer| vec![Message::assistant(answer)]);
            return Ok(chat(prompt, answers.into()));
        }
        None => {
            let same = chosen.chars().zip(rejected.chars());
            let same = same.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8());
            let common = &chosen[..same.sum::<usize>()];
            // A blank is of the word behind it, in most vocabularies.
            let common = common.strip_suffix(' ').unwrap_or(common).to_owned();
            let answers = [&chosen, &rejected].map(|answer| answer[common.len()..].to_owned());
            (common, answers)
        }
    };
    Ok(Texts::Plain {
        prompt,
        answers: answers.into(),
    })
}

fn chat_pair(
    prompt: Option<Side>,
    chosen: Vec<Message>,
    rejected: Vec<Message>,
) -> Result<Texts, String> {
    if chosen == rejected {
        return Err(EQUAL.into());
    }
    if let Some(Side::Turns(prompt)) = prompt {
        return Ok(chat(prompt, vec![chosen, rejected]));
    }
    let same = chosen.iter().zip(&rejected);
    let common = same.take_while(|(a, b)| a == b).count();
    let begin = &chosen[..common];
    if let Some(Side::Plain(prompt)) = prompt
        && !begin.iter().any(|turn| turn.content == prompt)
    {
        return Err("`prompt` is a text, but no turn that both answers begin with".into());
    }
    let answers = [&chosen, &rejected].map(|answer| answer[common..].to_vec());
    Ok(chat(begin.to_vec(), answers.into()))
}

const EQUAL: &str = "`chosen` and `rejected` are equal";

/// Reads the least difference of a pair's scores.
fn margin(fields: &Map<String, Value>) -> Result<Option<f64>, String> {
    const MOST: f64 = 1e6;
    let Some(value) = fields.get("margin").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = value.as_f64().filter(|number| number.abs() <= MOST);
    let wrong = || format!("`margin` must be a number from -{MOST} to {MOST}, but is {value}");
    number.map(Some).ok_or_else(wrong)
}

/// Reads log-probabilities of a reference, as TRL writes them.
fn reference(fields: &Map<String, Value>) -> Result<Option<[f64; 2]>, String> {
    let names = ["ref_chosen_logps", "ref_rejected_logps"];
    let given = names.map(|name| fields.get(name).filter(|value| !value.is_null()));
    match given {
        [None, None] => Ok(None),
        [Some(chosen), Some(rejected)] => {
            let number = |name: &str, value: &Value| {
                let number = value.as_f64().filter(|number| *number <= 0.0);
                number.ok_or_else(|| {
                    format!("`{name}` must be a number of at most 0, but is {value}")
                })
            };
            Ok(Some([
                number(names[0], chosen)?,
                number(names[1], rejected)?,
            ]))
        }
        _ => Err("the record has the reference's log-probability of one answer alone".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(record: &Value, kind: Kind) -> Result<Vec<Preference>, String> {
        let source = Source {
            fields: record.as_object().unwrap(),
            ordered: serde_json::from_value(record.clone()).unwrap(),
        };
        Preference::parse(&source, kind)
    }

    fn turns(messages: &[Message]) -> Value {
        let turn = |message: &Message| json!({"role": message.role, "content": message.content});
        messages.iter().map(turn).collect()
    }

    /// Returns what a record means, as the goldens write it.
    fn meaning(found: &Preference) -> Value {
        let (prompt, answers): (Value, Vec<Value>) = match &found.texts {
            Texts::Plain { prompt, answers } => (
                json!(prompt),
                answers.iter().map(|answer| json!(answer)).collect(),
            ),
            Texts::Chat { prompt, answers } => (
                turns(prompt),
                answers.iter().map(|answer| turns(answer)).collect(),
            ),
        };
        let mut meaning = match (&answers[..], found.desirable) {
            ([chosen, rejected], None) => {
                json!({"prompt": prompt, "chosen": chosen, "rejected": rejected})
            }
            ([completion], Some(label)) => {
                json!({"prompt": prompt, "completion": completion, "label": label})
            }
            other => panic!("{other:?}"),
        };
        if let Some([chosen, rejected]) = found.reference {
            meaning["ref_chosen_logps"] = json!(chosen);
            meaning["ref_rejected_logps"] = json!(rejected);
        }
        meaning
    }

    #[test]
    fn records_of_both_peers_mean_what_they_mean_there() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/fixtures/preference/formats.json"
        );
        let text = std::fs::read_to_string(path).unwrap();
        let known: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(known.len(), 34);
        for case in known {
            let (name, record, means) = (&case["name"], &case["record"], &case["means"]);
            let fields = record.as_object().unwrap();
            let is_single = ["label", "kto_tag"]
                .iter()
                .any(|name| fields.contains_key(*name));
            let kind = if is_single { Kind::Single } else { Kind::Pairs };
            match (parse(record, kind), means["error"].as_str()) {
                (Ok(found), None) => {
                    assert_eq!(found.len(), 1, "{name}");
                    assert_eq!(&meaning(&found[0]), means, "{name}");
                }
                (Err(said), Some(expected)) => {
                    let said = said.replace('`', "");
                    assert!(said.contains(expected), "{name}: {said}");
                }
                (found, expected) => panic!("{name}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_pair_is_two_single_answers() {
        let record = json!({"prompt": "a", "chosen": " b", "rejected": " c"});
        let found = parse(&record, Kind::Single).unwrap();
        let found: Vec<Value> = found.iter().map(meaning).collect();
        assert_eq!(
            found,
            [
                json!({"prompt": "a", "completion": " b", "label": true}),
                json!({"prompt": "a", "completion": " c", "label": false}),
            ]
        );
    }

    #[test]
    fn tools_are_those_of_the_prompt() {
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        let record = json!({
            "tools": tools,
            "prompt": [{"role": "user", "content": "q"}],
            "chosen": [{"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}],
            "rejected": [{"role": "assistant", "content": "no"}],
        });
        let found = parse(&record, Kind::Pairs).unwrap();
        let Texts::Chat { prompt, answers } = &found[0].texts else {
            panic!("{found:?}");
        };
        assert!(prompt[0].tools.is_some());
        assert_eq!(answers[0][0].calls().len(), 1);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let ask = json!([{"role": "user", "content": "q"}]);
        for (record, kind, expected) in [
            (
                json!({"prompt": "a", "completion": "b"}),
                Kind::Pairs,
                "`chosen` is missing",
            ),
            (
                json!({"prompt": "a", "completion": "b"}),
                Kind::Single,
                "`label` (TRL) or `kto_tag`",
            ),
            (
                json!({"prompt": "a", "completion": "b", "label": true, "kto_tag": true}),
                Kind::Single,
                "keep one",
            ),
            (
                json!({"prompt": "a", "completion": " ", "label": true}),
                Kind::Single,
                "the completion is empty",
            ),
            (
                json!({"completion": "b", "label": true}),
                Kind::Single,
                "`prompt` is missing",
            ),
            (
                json!({"prompt": "a", "chosen": "b", "rejected": ["c"]}),
                Kind::Pairs,
                "message 1: expected an object",
            ),
            (
                json!({"prompt": ask, "chosen": "b", "rejected": [{"role": "assistant", "content": "c"}]}),
                Kind::Pairs,
                "both be texts or both be turns",
            ),
            (
                json!({"prompt": "a", "chosen": "b", "rejected": "c", "margin": 0.5}),
                Kind::Pairs,
                "`margin` is not supported",
            ),
            (
                json!({"prompt": "a", "chosen": "b", "rejected": "c", "tools": [{"name": "f"}]}),
                Kind::Pairs,
                "`tools` is not supported",
            ),
            (
                json!({"prompt": "a", "chosen": "b", "rejected": "c", "ref_chosen_logps": -1.0}),
                Kind::Pairs,
                "of one answer alone",
            ),
            (
                json!({"prompt": "a", "chosen": "b", "rejected": "c", "ref_chosen_logps": -1.0, "ref_rejected_logps": 1.0}),
                Kind::Pairs,
                "`ref_rejected_logps` must be a number of at most 0",
            ),
            (
                json!({"prompt": "a", "chosen": "b", "rejected": "c", "weight": 0}),
                Kind::Pairs,
                "not to be learned",
            ),
            (
                json!({"prompt": ask, "chosen": [{"role": "assistant", "content": "b", "train": false}], "rejected": [{"role": "assistant", "content": "c"}]}),
                Kind::Pairs,
                "counts all of an answer",
            ),
            (
                json!({"instruction": "q", "history": [["a"]], "chosen": "b", "rejected": "c"}),
                Kind::Pairs,
                "`history` must be",
            ),
            (
                json!({"chosen": [{"role": "assistant", "content": "b"}], "rejected": [{"role": "assistant", "content": "c"}]}),
                Kind::Pairs,
                "the prompt has no turn",
            ),
        ] {
            let said = parse(&record, kind).unwrap_err();
            assert!(said.contains(expected), "{record}: {said}");
        }
    }
}
