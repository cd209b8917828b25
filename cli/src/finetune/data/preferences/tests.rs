//! Records of both peers, and what is wrong with others.

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
    if let Some([chosen, rejected]) = found.reference.as_deref() {
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
fn fields_that_belong_to_another_form_are_refused() {
    let turn = |role: &str, text: &str| json!([{"role": role, "content": text}]);
    let (ask, good, bad) = (
        turn("user", "q"),
        turn("assistant", "b"),
        turn("assistant", "c"),
    );
    for (extra, value, expected) in [
        (
            "history",
            json!([["a", "b"]]),
            "`history` goes with `instruction`",
        ),
        ("input", json!("i"), "`input` goes with `instruction`"),
        ("system", json!("s"), "`system` is of a conversation"),
        ("label", json!(true), "`label` is not supported"),
        ("kto_tag", json!(false), "`kto_tag` is not supported"),
        (
            "instruction",
            json!("q"),
            "`instruction` and `prompt`, which are both prompts",
        ),
        (
            "messages",
            ask.clone(),
            "`messages` and `prompt`, which are both prompts",
        ),
    ] {
        let mut record = json!({"prompt": "a", "chosen": " b", "rejected": " c"});
        record[extra] = value;
        for kind in [Kind::Pairs, Kind::Single] {
            let said = parse(&record, kind).unwrap_err();
            assert!(said.contains(expected), "{record}: {said}");
        }
        record[extra] = Value::Null;
        parse(&record, Kind::Pairs).unwrap();
    }
    let asked = json!({"question": "q", "chosen": " b", "rejected": " c"});
    let said = parse(&asked, Kind::Pairs).unwrap_err();
    assert!(said.contains("`question` is not read; rename it"), "{said}");
    let single = json!({"messages": ask, "completion": good, "kto_tag": true});
    let said = parse(&single, Kind::Single).unwrap_err();
    assert!(
        said.contains("`messages`, which ends with the answer"),
        "{said}"
    );

    // A system message is the first turn of each conversation.
    let system = json!({"role": "system", "content": "s"});
    let expected = json!([system, ask[0]]);
    let whole = |answer: &Value| json!([ask[0], answer[0]]);
    for record in [
        json!({"system": "s", "prompt": ask, "chosen": good, "rejected": bad}),
        json!({"system": "s", "chosen": whole(&good), "rejected": whole(&bad)}),
        json!({"system": "s", "instruction": "q", "chosen": "b", "rejected": "c"}),
        // Some files repeat the chosen answer.
        json!({"system": "s", "chosen": whole(&good), "rejected": whole(&bad), "messages": whole(&good)}),
    ] {
        let found = parse(&record, Kind::Pairs).unwrap();
        assert_eq!(meaning(&found[0])["prompt"], expected, "{record}");
    }
    let twice = json!({"system": "t", "prompt": expected, "chosen": good, "rejected": bad});
    let said = parse(&twice, Kind::Pairs).unwrap_err();
    assert!(said.contains("keep one"), "{said}");
}

#[test]
fn a_pair_is_two_single_answers() {
    let record = json!({"prompt": "a", "chosen": " b", "rejected": " c"});
    let known = json!({
        "prompt": "a", "chosen": " b", "rejected": " c", "ref_chosen_logps": -1.0, "ref_rejected_logps": -2.0,
    });
    let found = parse(&known, Kind::Single).unwrap();
    let known: Vec<_> = found.into_iter().map(|single| single.reference).collect();
    assert_eq!(known, [Some(vec![-1.0]), Some(vec![-2.0])]);
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
            "`label` (TRL) or `kto_tag` (LLaMA-Factory) is missing: this loss judges single answers",
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
            json!({"prompt": ask, "chosen": [{"role": "assistant", "content": "b"}], "rejected": [{"role": "assistant", "content": " "}]}),
            Kind::Pairs,
            "`rejected`: message 1: the assistant's turn is empty",
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
