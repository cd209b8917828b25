//! Fields that say whether a turn is learned.

use crate::text::Message;
use serde_json::{Map, Value};

/// The learned part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it: an answer.
    Answer,
    /// Nothing, unless prompts are learned too.
    Prompt,
    /// Nothing in any case: an answer that is marked so.
    Unlearned,
}

/// The fields of turns that other programs read, each with its value in a turn that is learned.
const OF_TURNS: [(&str, bool); 9] = [
    ("weight", true),
    ("train", true),
    ("training", true),
    ("trainable", true),
    ("loss", true),
    ("loss_mask", true),
    ("loss_weight", true),
    ("loss_scale", true),
    ("masked", false),
];

/// The fields of records that other programs read, each with its value in a record that is learned.
const OF_RECORDS: [(&str, bool); 5] = [
    ("weight", true),
    ("train", true),
    ("loss_mask", true),
    ("loss_weight", true),
    ("masked", false),
];

/// The fields about single tokens or characters, and those that programs understand differently.
const UNREADABLE: [&str; 5] = [
    "mask",
    "train_detail",
    "training_detail",
    "completion_mask",
    "assistant_masks",
];

/// Returns the part of a turn that the model learns.
///
/// # Errors
/// Returns an error if a field of the turn can't be followed.
pub fn part(turn: &Map<String, Value>, message: &Message) -> Result<Part, String> {
    Ok(match (said(turn, &OF_TURNS)?, message.is_answer()) {
        (None | Some((_, true)), true) => Part::Answer,
        (Some((_, false)), true) => Part::Unlearned,
        (None | Some((_, false)), false) => Part::Prompt,
        (Some((name, true)), false) => {
            return Err(format!(
                "`{name}` has a turn of the role `{}` learned, but only the assistant's turns are; remove it, or learn all \
                 turns with --all-tokens",
                message.role
            ));
        }
    })
}

/// Refuses a record that is not to be learned, also if it has one of these `labels` that is false.
///
/// # Errors
/// Returns an error that names the field.
pub fn refuse(record: &Map<String, Value>, labels: &[&'static str]) -> Result<(), String> {
    // A label that is a number is a class in most data, and such a loss was measured.
    let is_bad = |name: &&&str| record.get(**name) == Some(&Value::Bool(false));
    let label = labels.iter().find(is_bad);
    let label = label.map(|name| (*name, false));
    match label.or(said(record, &OF_RECORDS)?) {
        Some((name, false)) => Err(format!(
            "`{name}` is {}, so the record is not to be learned; remove the record, or the field to learn it",
            record[name]
        )),
        _ => Ok(()),
    }
}

/// Returns the last of some fields that says whether a turn or a record is learned, and `true` if it is learned.
fn said(
    fields: &Map<String, Value>,
    names: &[(&'static str, bool)],
) -> Result<Option<(&'static str, bool)>, String> {
    let value = |name: &str| fields.get(name).filter(|value| !value.is_null());
    if let Some(name) = UNREADABLE.iter().find(|name| value(name).is_some()) {
        return Err(format!(
            "`{name}` is not supported, and would change what is learned; remove it to learn without it"
        ));
    }
    let mut found = None;
    for &(name, learned) in names {
        let Some(value) = value(name) else { continue };
        let set = match (value.as_bool(), value.as_f64()) {
            (Some(set), _) => set,
            (_, Some(0.0)) => false,
            (_, Some(1.0)) => true,
            _ => {
                return Err(format!(
                    "`{name}` is {value}, but only true, false, 1 and 0 can be followed"
                ));
            }
        };
        let says = set == learned;
        match found {
            Some((other, before)) if before != says => {
                return Err(format!("`{other}` and `{name}` contradict each other"));
            }
            _ => found = Some((name, says)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn every_spelling_is_followed() {
        let answer = Message::assistant("a");
        for text in [
            r#"{"weight": 0}"#,
            r#"{"weight": 0.0, "train": false}"#,
            r#"{"loss_mask": 0}"#,
            r#"{"masked": true}"#,
            r#"{"masked": 1, "train": null}"#,
        ] {
            assert_eq!(part(&fields(text), &answer), Ok(Part::Unlearned), "{text}");
            let said = refuse(&fields(text), &[]).unwrap_err();
            assert!(said.contains("not to be learned"), "{said}");
            assert_eq!(
                part(&fields(text), &Message::user("q")),
                Ok(Part::Prompt),
                "{text}"
            );
        }
        for text in [
            "{}",
            r#"{"weight": 1}"#,
            r#"{"masked": false, "loss_mask": true, "train": 1.0}"#,
        ] {
            assert_eq!(part(&fields(text), &answer), Ok(Part::Answer), "{text}");
            assert_eq!(refuse(&fields(text), &[]), Ok(()), "{text}");
        }
        const LABELS: &[&str] = &["label", "loss"];
        let numbers = fields(r#"{"label": 0, "loss": 2.5}"#);
        assert_eq!(refuse(&numbers, LABELS), Ok(()));
        assert!(refuse(&fields(r#"{"loss": false}"#), LABELS).is_err());
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        for (text, expected) in [
            (r#"{"weight": 0.5}"#, "`weight` is 0.5"),
            (r#"{"train": "no"}"#, "`train` is \"no\""),
            (
                r#"{"weight": 1, "masked": true}"#,
                "`weight` and `masked` contradict",
            ),
            (r#"{"mask": 1}"#, "`mask` is not supported"),
            (r#"{"loss_mask": [0, 1]}"#, "`loss_mask` is [0,1]"),
        ] {
            let said = part(&fields(text), &Message::assistant("a")).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
        let said = part(&fields(r#"{"train": true}"#), &Message::user("q")).unwrap_err();
        assert!(
            said.contains("the role `user`") && said.contains("--all-tokens"),
            "{said}"
        );
    }
}
