//! The prompt and the answers of a record, which are texts or turns.

use super::chat::{Chat, alpaca_question};
use super::json::Ordered;
use super::preferences::Texts;
use super::turns::{Source, given, messages, not_a_text, of_turns, says};
use super::unlearned::Part;
use crate::text::Message;
use serde_json::{Map, Value};

/// The value of a field: a text, or turns.
pub enum Side {
    /// A text.
    Plain(String),
    /// Turns of a conversation.
    Turns(Vec<Message>),
}

const EQUAL: &str = "`chosen` and `rejected` are equal";

/// Returns the name of the field with a conversation of the kinds that LLaMA-Factory reads. Some files of TRL's form repeat the
/// chosen answer in such a field.
pub fn conversation(fields: &Map<String, Value>) -> Option<&'static str> {
    let is_prompt = |turns: &Value| fields.get("chosen") != Some(turns);
    let mut names = ["conversations", "messages"].into_iter();
    names.find(|name| given(fields, name).is_some_and(is_prompt))
}

/// Returns the name of the field with the prompt. Refuses two prompts, and a `history` without `instruction`.
///
/// # Errors
/// Returns an error that names the field.
pub fn one_prompt(fields: &Map<String, Value>) -> Result<Option<&'static str>, String> {
    let named = ["instruction", "prompt"].into_iter();
    let named = named.filter(|name| given(fields, name).is_some());
    let prompts: Vec<&'static str> = conversation(fields).into_iter().chain(named).collect();
    if let [one, other, ..] = prompts[..] {
        return Err(format!(
            "the record has `{one}` and `{other}`, which are both prompts; keep one"
        ));
    }
    let form = prompts.first().copied();
    if form != Some("instruction") && says(fields, "history") {
        return Err(
            "`history` goes with `instruction`; make turns of the prompt and of what was said before it"
                .into(),
        );
    }
    Ok(form)
}

/// Refuses fields that would be a part of the prompt in a record of another form, and two prompts.
///
/// # Errors
/// Returns an error that names the field.
pub fn check_fields(fields: &Map<String, Value>) -> Result<(), String> {
    let form = one_prompt(fields)?;
    for (name, belongs, advice) in [
        (
            "input",
            form == Some("instruction"),
            "goes with `instruction`; rename it to `prompt`, or write it into that",
        ),
        (
            "question",
            form.is_some(),
            "is not read; rename it to `prompt`, or to `instruction` if answers are of a conversation",
        ),
    ] {
        if !belongs && says(fields, name) {
            return Err(format!("`{name}` {advice}"));
        }
    }
    Ok(())
}

/// Returns the prompt that a record names, or `None` if its answers begin with it.
///
/// # Errors
/// Returns the problem.
pub fn prompt(source: &Source<'_>) -> Result<Option<Side>, String> {
    let fields = source.fields;
    if let Some(name) = conversation(fields) {
        return Ok(Some(Side::Turns(plain_turns(source, name)?)));
    }
    if given(fields, "instruction").is_some() {
        return Ok(Some(Side::Turns(instruction(fields)?)));
    }
    match given(fields, "prompt") {
        Some(_) => side(source, "prompt").map(Some),
        None => Ok(None),
    }
}

/// Reads an instruction with the turns before it, as Alpaca and LLaMA-Factory write it.
///
/// # Errors
/// Returns the problem.
pub fn instruction(fields: &Map<String, Value>) -> Result<Vec<Message>, String> {
    let mut turns = Vec::new();
    if let Some(history) = given(fields, "history") {
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
    Ok(turns)
}

/// Reads a field that is a text, a list of turns, or one turn.
///
/// # Errors
/// Returns the problem.
pub fn side(source: &Source<'_>, name: &str) -> Result<Side, String> {
    match given(source.fields, name) {
        // LLaMA-Factory's answers to an instruction are texts, and so are those of conversations.
        Some(Value::String(text)) if given(source.fields, "instruction").is_some() => {
            Ok(Side::Turns(vec![Message::assistant(text.as_str())]))
        }
        Some(Value::String(text)) => Ok(Side::Plain(text.clone())),
        Some(Value::Array(_)) => plain_turns(source, name).map(Side::Turns),
        Some(Value::Object(turn)) if turn.contains_key("role") || turn.contains_key("from") => {
            let turn = Value::Object(turn.clone());
            let fields = Map::from_iter([(name.to_owned(), Value::from(vec![turn]))]);
            let ordered = source.ordered.get_attr(name).unwrap_or_default();
            let ordered = Ordered::from_pairs([(name, Ordered::from(vec![ordered]))]);
            let one = Source {
                fields: &fields,
                ordered,
            };
            plain_turns(&one, name).map(Side::Turns)
        }
        Some(other) => Err(not_a_text(name, "a text or turns", other)),
        None => Err(format!("`{name}` is missing")),
    }
}

/// Reads turns in either spelling. All of an answer counts, so none can be marked as not to be learned.
///
/// # Errors
/// Returns the problem.
pub fn plain_turns(source: &Source<'_>, name: &str) -> Result<Vec<Message>, String> {
    let first = source.fields.get(name).and_then(|turns| turns.get(0));
    let chat: Chat = match first.and_then(Value::as_object) {
        Some(first) if first.contains_key("from") => {
            of_turns(source, name, ["from", "value"], None)
        }
        _ => messages(source, name, None),
    }
    .map_err(|problem| match problem.starts_with('`') {
        true => problem,
        false => format!("`{name}`: {problem}"),
    })?;
    match chat.parts.contains(&Part::Unlearned) {
        true => Err(format!(
            "`{name}` has a turn that is marked as not to be learned, but a loss of answers counts all of an answer"
        )),
        false => Ok(chat.messages),
    }
}

/// Returns a pair of answers to the prompt, or to their common beginning.
///
/// # Errors
/// Returns the problem.
pub fn pair(prompt: Option<Side>, chosen: Side, rejected: Side) -> Result<Texts, String> {
    match (chosen, rejected) {
        (Side::Plain(chosen), Side::Plain(rejected)) => plain_pair(prompt, chosen, rejected),
        (Side::Turns(chosen), Side::Turns(rejected)) => chat_pair(prompt, chosen, rejected),
        _ => Err("`chosen` and `rejected` must both be texts or both be turns".into()),
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
            return Ok(Texts::chat(prompt, answers.into()));
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
        return Ok(Texts::chat(prompt, vec![chosen, rejected]));
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
    Ok(Texts::chat(begin.to_vec(), answers.into()))
}
