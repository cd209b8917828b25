//! Every form of a record, and what is wrong with others.

use super::super::unlearned::Part;
use super::*;
use crate::text::Message;

fn parse(text: &str) -> Result<Record, String> {
    Record::parse(&serde_json::from_str(text).unwrap(), || {
        serde_json::from_str(text).unwrap()
    })
}

#[test]
fn all_forms_are_read() {
    let chat = Record::Chat(Chat::new([
        (Message::system("s"), Part::Prompt),
        (Message::user("q\ni"), Part::Prompt),
        (Message::assistant("a"), Part::Answer),
    ]));
    for text in [
        r#"{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
        r#"{"system": "s", "conversations": [{"from": "human", "value": "q\ni"}, {"from": "gpt", "value": "a"}]}"#,
        r#"{"conversations": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
        r#"{"system": "s", "instruction": "q", "input": "i", "output": "a"}"#,
        r#"{"system": "s", "messages": [{"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
        r#"{"system": "s", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
        r#"{"system": "s", "prompt": [{"role": "user", "content": "q\ni"}], "completion": [{"role": "assistant", "content": "a"}]}"#,
    ] {
        assert_eq!(parse(text), Ok(chat.clone()), "{text}");
    }
    let continued = parse(
        r#"{"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}], "completion": [{"role": "assistant", "content": "a"}]}"#,
    );
    let expected = Record::Chat(Chat::new([
        (Message::user("q"), Part::Prompt),
        (Message::assistant("b"), Part::Prompt),
        (Message::assistant("a"), Part::Answer),
    ]));
    assert_eq!(continued, Ok(expected));
    let pair = parse(r#"{"prompt": "", "completion": "c"}"#);
    let expected = Record::Pair {
        prompt: String::new(),
        completion: "c".into(),
    };
    assert_eq!(pair, Ok(expected));
    assert_eq!(parse(r#"{"text": "t"}"#), Ok(Record::Text("t".into())));
    // Tables have nulls for the fields of other rows.
    let nulls = parse(r#"{"messages": null, "prompt": null, "text": "t"}"#);
    assert_eq!(nulls, Ok(Record::Text("t".into())));
    // Forms that published records repeat, and empty columns.
    for text in [
        r#"{"prompt": "q", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}"#,
        r#"{"text": null, "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}"#,
        r#"{"text": "q a", "instruction": "q", "output": "a"}"#,
    ] {
        assert!(matches!(parse(text), Ok(Record::Chat(_))), "{text}");
    }
}

#[test]
fn calls_are_the_assistants_and_their_answers_are_of_a_tool() {
    let read = |text: &str| match parse(text) {
        Ok(Record::Chat(chat)) => chat,
        other => panic!("{text}: {other:?}"),
    };
    let usual = read(
        r#"{"tools": [{"type": "function", "function": {"name": "f"}}], "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"x": 1}}]},
            {"role": "tool", "content": "1", "name": "f"},
            {"role": "assistant", "content": "a"}]}"#,
    );
    let parts = [Part::Prompt, Part::Answer, Part::Prompt, Part::Answer];
    assert_eq!(usual.parts, parts);
    assert!(usual.messages[0].tools.is_some());
    let names = |at: usize| -> Vec<&str> {
        usual.messages[at]
            .fields
            .iter()
            .map(|(name, _)| *name)
            .collect()
    };
    assert_eq!((names(1), names(2)), (vec!["tool_calls"], vec!["name"]));
    let older = read(
        r#"{"functions": [{"name": "f"}], "messages": [
            {"role": "user", "content": "q", "name": "Ada"},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{\"x\": 1}"}},
            {"role": "function", "content": "1", "name": "f"},
            {"role": "assistant", "content": "a"}]}"#,
    );
    assert_eq!(older, usual);
    let mut shared = read(
        r#"{"tools": "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]", "conversations": [
            {"from": "human", "value": "q"},
            {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
            {"from": "observation", "value": "1"},
            {"from": "gpt", "value": "a"}]}"#,
    );
    shared.messages[2]
        .fields
        .clone_from(&usual.messages[2].fields);
    assert_eq!(shared, usual);
}

/// Most records are read once: only some have values whose order templates write.
#[test]
fn the_order_of_fields_is_read_where_it_is_written() {
    let read = |text: &str| {
        let mut asked = false;
        let ordered = || {
            asked = true;
            serde_json::from_str(text).unwrap()
        };
        let value = serde_json::from_str(text).unwrap();
        Record::preferences(&value, Kind::Pairs, ordered).unwrap();
        asked
    };
    assert!(!read(
        r#"{"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]}"#
    ));
    assert!(read(
        r#"{"messages": [{"role": "user", "content": "q"}], "rejected": {"role": "assistant", "content": "b"},
            "chosen": {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"z": 1, "a": 2}}]}}"#
    ));
}

#[test]
fn what_is_wrong_is_told() {
    for (text, expected) in [
        ("3", "expected a JSON object"),
        (
            r#"{"text": "t", "tools": [{"name": "f"}]}"#,
            "`tools` is not supported",
        ),
        (
            r#"{"prompt": "p", "completion": "c", "functions": "[{\"name\": \"f\"}]"}"#,
            "`functions` is not supported",
        ),
        (
            r#"{"messages": [{"role": "assistant", "content": "a", "reasoning_content": 3}]}"#,
            "message 1: `reasoning_content` must be a text",
        ),
        (
            r#"{"messages": [{"role": "user", "content": "a", "tool_calls": [{"name": "f"}]}]}"#,
            "message 1: a turn of the role `user` calls a function",
        ),
        (
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tools": [{}, {"name": "f"}]}]}"#,
            "message 2: only the record or its first message can have `tools`",
        ),
        (
            r#"{"messages": [{"role": "assistant", "content": "a", "documents": ["d"]}]}"#,
            "message 1: `documents` is not supported",
        ),
        (
            r#"{"messages": [{"role": "assistant", "content": "a"}], "thinking": "t"}"#,
            "`thinking` is not supported",
        ),
        (
            r#"{"messages": [{"role": "assistant", "content": "a"}], "chat_template_kwargs": {"enable_thinking": false}}"#,
            "`chat_template_kwargs` is not supported",
        ),
        (
            r#"{"messages": [{"role": "assistant", "content": "a"}], "images": ["a.png"]}"#,
            "`images` is not supported",
        ),
        (
            r#"{"system": "t", "conversations": [{"from": "system", "value": "s"}, {"from": "gpt", "value": "a"}]}"#,
            "the record has `system`, and its first turn is the system's too",
        ),
        (
            r#"{"prompt": "p", "completion": "c", "system": "s"}"#,
            "`system` is of a conversation",
        ),
        (
            r#"{"prompt": "p", "completion": "c", "input": "i"}"#,
            "`input` goes with `instruction`",
        ),
        (
            r#"{"prompt": "p", "completion": "c", "suffix": "s"}"#,
            "`suffix` is not supported",
        ),
        (
            r#"{"prompt": [{"role": "user", "content": "q"}], "completion": "c"}"#,
            "`completion` must be a list of messages, as `prompt` is",
        ),
        (
            r#"{"text": "t", "images": ["a.png"]}"#,
            "`images` is not supported, as language models are trained without their towers",
        ),
        (
            r#"{"prompt": "p", "completion": "c", "image": "a.png"}"#,
            "`image` is not supported, as language models are trained without their towers",
        ),
        (
            r#"{"prompt": [], "chosen": [], "rejected": []}"#,
            "is a pair, for --loss dpo",
        ),
        (
            r#"{"prompt": "p", "completion": "c", "label": false}"#,
            "`label` is false",
        ),
        (
            r#"{"text": "t", "messages": [{"role": "assistant", "content": "a"}]}"#,
            "`messages` and `text` are two forms of a record",
        ),
        (
            r#"{"prompt": "p", "completion": "c", "text": "t"}"#,
            "`completion` and `text` are two forms",
        ),
        (
            r#"{"messages": [], "conversations": []}"#,
            "`messages` and `conversations` are two forms",
        ),
        ("{}", "expected `text`"),
        (r#"{"text": " "}"#, "the text is empty"),
        (r#"{"text": 3}"#, "`text` must be a text"),
        (r#"{"prompt": "p"}"#, "`completion` is missing"),
        (r#"{"completion": "p"}"#, "`prompt` is missing"),
        (
            r#"{"prompt": "p", "completion": "\n"}"#,
            "the completion is empty",
        ),
        (r#"{"messages": {}}"#, "`messages` must be a list"),
        (r#"{"messages": [3]}"#, "message 1: expected an object"),
        (
            r#"{"messages": [{"role": "user", "content": "q"}]}"#,
            "nothing to learn",
        ),
        (
            r#"{"messages": [{"role": "bot", "content": "q"}]}"#,
            "the role `bot` is unknown",
        ),
        (
            r#"{"messages": [{"role": "user"}]}"#,
            "message 1: `content` is missing",
        ),
        (
            r#"{"messages": [{"role": "assistant", "content": ""}]}"#,
            "turn is empty",
        ),
        (
            r#"{"conversations": [{"from": "dog", "value": "q"}]}"#,
            "the role `dog` is unknown",
        ),
        (
            r#"{"instruction": "q", "output": ""}"#,
            "message 2: the assistant's turn is empty",
        ),
        (r#"{"instruction": "q"}"#, "`output` is missing"),
        (
            r#"{"prompt": [{"role": "assistant", "content": "a"}], "completion": [{"role": "user", "content": "q"}]}"#,
            "`completion`: no turn is the assistant's",
        ),
        (
            r#"{"prompt": [], "completion": [{"role": "assistant", "content": ""}]}"#,
            "`completion`: message 1: the assistant's turn is empty",
        ),
    ] {
        let found = parse(text).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
}
