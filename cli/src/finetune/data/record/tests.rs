//! Every form of a record, and what is wrong with others.

use super::super::unlearned::Part;
use super::*;
use crate::text::Message;

fn parse(text: &str) -> Result<Record, String> {
    let value = serde_json::from_str(text).unwrap();
    Record::parse(&value, Path::new("data"), || {
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
            IMAGES,
        ),
        (
            r#"{"messages": [{"role": "assistant", "content": "a"}], "videos": ["a.mp4"]}"#,
            "`videos` is not supported, as models are trained without their towers for it",
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
            "`images` is read with conversations of --loss sft alone",
        ),
        (
            r#"{"prompt": "p", "completion": "c", "image": "a.png"}"#,
            "`image` is read with conversations of --loss sft alone",
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

/// The error of a picture beside a conversation without a place for it.
#[cfg(feature = "images")]
const IMAGES: &str = "the record names 1 picture, but its messages have 0 places";
#[cfg(not(feature = "images"))]
const IMAGES: &str = "`images` needs a build with `--features images`";

#[cfg(feature = "images")]
mod pictures {
    use super::*;
    use crate::pictures::Source;
    use serde_json::json;

    fn chat(record: &Value) -> Chat {
        match parse(&record.to_string()) {
            Ok(Record::Chat(chat)) => chat,
            other => panic!("{record}: {other:?}"),
        }
    }

    fn files(names: &[&str]) -> Vec<Source> {
        let file = |name: &&str| Source::File(Path::new("data").join(name));
        names.iter().map(file).collect()
    }

    /// LLaMA-Factory's `<image>`, and OpenAI's parts.
    #[test]
    fn pictures_have_their_places_in_every_form() {
        let (question, answer) = ("<image>a<image>\nb", "c");
        let parts: Vec<minijinja::Value> = [
            json!({"type": "image"}),
            json!({"type": "text", "text": "a"}),
            json!({"type": "image"}),
            json!({"type": "text", "text": "\nb"}),
        ]
        .map(|part| serde_json::from_value(part).unwrap())
        .into();
        let images = json!(["x.png", "y.png"]);
        for record in [
            json!({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}], "images": images}),
            json!({"conversations": [{"from": "human", "value": question}, {"from": "gpt", "value": answer}], "images": images}),
            json!({"instruction": "<image>a<image>", "input": "b", "output": answer, "images": images}),
            json!({"prompt": [{"role": "user", "content": question}], "completion": [{"role": "assistant", "content": answer}], "images": images}),
            json!({"messages": [
                {"role": "user", "content": [
                    {"type": "image_url", "image_url": {"url": "x.png"}}, {"type": "text", "text": "a"},
                    {"type": "image", "path": "y.png"}, {"type": "text", "text": "\nb"}]},
                {"role": "assistant", "content": [{"type": "text", "text": answer}]}]}),
        ] {
            let found = chat(&record);
            assert_eq!(found.messages[0].parts, parts, "{record}");
            assert_eq!(found.messages[0].content, "", "{record}");
            assert_eq!(found.messages[1], Message::assistant(answer), "{record}");
            assert_eq!(found.pictures, files(&["x.png", "y.png"]), "{record}");
        }
        // Without pictures, a text is one like any other.
        let record = json!({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}], "images": []});
        assert_eq!(chat(&record).messages[0], Message::user(question));
    }

    #[test]
    fn pictures_that_can_not_be_placed_are_refused() {
        let asked = |content: Value, images: Value| json!({"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "a"}], "images": images});
        let mut answered = asked(json!("q"), json!(["x.png"]));
        answered["messages"][1]["content"] = json!("<image>");
        for (record, expected) in [
            (
                asked(json!("<image><image>"), json!(["x.png"])),
                "message 1: the record names 1 picture",
            ),
            (
                asked(json!("<image>"), json!(["x.png", "y.png"])),
                "the record names 2 pictures",
            ),
            (
                asked(json!("<image>"), json!(["https://a/b.png"])),
                "download the picture",
            ),
            (
                asked(json!([{"type": "video", "video": "a.mp4"}]), json!(null)),
                "message 1: part 1 of `content` has the type",
            ),
            (answered, "message 2: a picture in a turn of the assistant"),
        ] {
            let found = parse(&record.to_string()).unwrap_err();
            assert!(found.contains(expected), "{record}: {found}");
        }
    }
}
