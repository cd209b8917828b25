//! Functions that the assistant can call, its calls, and its thoughts, in the spellings that files have.

use crate::text::Message;
use minijinja::Value;
use minijinja::value::ValueKind;

/// The fields with functions, of a record or of its first message.
const TOOLS: [&str; 2] = ["tools", "functions"];

/// The fields that templates see as they are.
const TEXTS: [&str; 5] = [
    "reasoning_content",
    "reasoning",
    "thinking",
    "tool_call_id",
    "name",
];

/// Returns the functions of a record or a message.
///
/// # Errors
/// Returns the problem.
pub fn tools(fields: &Value) -> Result<Option<Value>, String> {
    for name in TOOLS {
        let Some(tools) = list(fields, name)? else {
            continue;
        };
        let tool = |tool: Value| match tool.kind() {
            ValueKind::Map if name == "functions" && given(&tool, "function").is_none() => {
                Ok(function(tool))
            }
            ValueKind::Map => Ok(tool),
            _ => Err(format!("`{name}` must be a list of objects")),
        };
        let tools = tools.into_iter().map(tool).collect::<Result<Vec<_>, _>>()?;
        return Ok(Some(Value::from(tools)));
    }
    Ok(None)
}

/// Returns the fields of a message other than its role and its text.
///
/// # Errors
/// Returns the problem.
pub fn fields(message: &Value) -> Result<Vec<(&'static str, Value)>, String> {
    let mut fields = Vec::new();
    for name in [Message::CALLS, "function_call"] {
        if let Some(calls) = list(message, name)? {
            let calls = calls.iter().map(call).collect::<Result<Vec<_>, _>>()?;
            fields.push((Message::CALLS, Value::from(calls)));
        }
    }
    for name in TEXTS {
        match given(message, name) {
            None => {}
            Some(text) if text.as_str().is_some() => fields.push((name, text)),
            Some(_) => return Err(format!("`{name}` must be a text")),
        }
    }
    match fields
        .iter()
        .filter(|(name, _)| *name == Message::CALLS)
        .count()
    {
        0 | 1 => Ok(fields),
        _ => Err("`tool_calls` and `function_call` are two spellings; keep one".into()),
    }
}

/// Returns the calls in the text of a turn, as ShareGPT writes them.
///
/// # Errors
/// Returns the problem.
pub fn of_text(text: &str) -> Result<(&'static str, Value), String> {
    let message = Value::from_pairs([(Message::CALLS, text)]);
    let calls = fields(&message)?.into_iter().next();
    calls.ok_or_else(|| "the turn calls no function".into())
}

/// Returns a call with `function`, `name` and `arguments`, the form that templates know.
fn call(call: &Value) -> Result<Value, String> {
    let inner = given(call, "function").filter(|inner| inner.kind() == ValueKind::Map);
    let inner = inner.as_ref().unwrap_or(call);
    let name = given(inner, "name").filter(|name| name.as_str().is_some());
    let name = name.ok_or("a call of a function has no `name`")?;
    let arguments = given(inner, "arguments").or_else(|| given(inner, "parameters"));
    let arguments = match &arguments {
        // Templates write objects, and OpenAI's files have them as text.
        Some(text) => text
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok()),
        None => Some(Value::from_pairs(None::<(&str, Value)>)),
    }
    .or(arguments)
    .unwrap_or_default();
    let whole = function(Value::from_pairs([
        ("name", name),
        ("arguments", arguments),
    ]));
    Ok(match given(call, "id") {
        Some(id) => Value::from_pairs(std::iter::once(("id", id)).chain(
            ["type", "function"].map(|name| (name, whole.get_attr(name).unwrap_or_default())),
        )),
        None => whole,
    })
}

fn function(function: Value) -> Value {
    Value::from_pairs([("type", Value::from("function")), ("function", function)])
}

/// Returns the entries of a field that is a list, one entry, or one of both as JSON in a text.
fn list(fields: &Value, name: &str) -> Result<Option<Vec<Value>>, String> {
    let Some(mut value) = given(fields, name) else {
        return Ok(None);
    };
    if let Some(text) = value.as_str() {
        let parsed = serde_json::from_str(text);
        value = parsed.map_err(|error| format!("`{name}` is a text that is not JSON: {error}"))?;
    }
    match value.kind() {
        ValueKind::Map => Ok(Some(vec![value])),
        ValueKind::Seq => Ok(value.try_iter().ok().map(Iterator::collect)),
        _ => Err(format!("`{name}` must be a list of objects")),
    }
}

/// Returns a field that says something.
fn given(fields: &Value, name: &str) -> Option<Value> {
    let value = fields.get_attr(name).ok()?;
    let empty = match value.as_str() {
        // A list or an object can be written as text.
        Some(text) => ["", "[]", "{}", "null"].contains(&text.trim()),
        None => value.is_undefined() || value.is_none() || value.len() == Some(0),
    };
    (!empty).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn json(value: &impl serde::Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn every_spelling_of_a_call_is_the_same() {
        let call = r#"[{"type":"function","function":{"name":"f","arguments":{"b":1,"a":2}}}]"#;
        for text in [
            r#"{"tool_calls": [{"name": "f", "arguments": {"b": 1, "a": 2}}]}"#,
            r#"{"tool_calls": {"type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}}}"#,
            r#"{"tool_calls": "[{\"name\": \"f\", \"parameters\": {\"b\": 1, \"a\": 2}}]"}"#,
            r#"{"function_call": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}, "tool_calls": null}"#,
        ] {
            let fields = fields(&value(text)).unwrap();
            assert_eq!((fields.len(), fields[0].0), (1, "tool_calls"), "{text}");
            assert_eq!(json(&fields[0].1), call, "{text}");
        }
        let (_, calls) = of_text(r#"{"name": "f", "arguments": {"b": 1, "a": 2}}"#).unwrap();
        assert_eq!(json(&calls), call);
        let with_id = fields(&value(
            r#"{"tool_calls": [{"id": "7", "function": {"name": "f"}}], "name": "n"}"#,
        ));
        let with_id = with_id.unwrap();
        let expected = r#"[{"id":"7","type":"function","function":{"name":"f","arguments":{}}}]"#;
        assert_eq!(json(&with_id[0].1), expected);
        assert_eq!(with_id[1].0, "name");
    }

    #[test]
    fn tools_keep_the_order_of_their_fields() {
        let tool = r#"[{"type":"function","function":{"name":"f","description":"d"}}]"#;
        for text in [
            format!(r#"{{"tools": {tool}}}"#),
            format!(r#"{{"tools": {}}}"#, json(&tool)),
            r#"{"tools": [], "functions": [{"name": "f", "description": "d"}]}"#.to_owned(),
        ] {
            assert_eq!(json(&tools(&value(&text)).unwrap()), tool, "{text}");
        }
        assert_eq!(
            tools(&value(r#"{"tools": "[]", "functions": null}"#)),
            Ok(None)
        );
        for (text, expected) in [
            (r#"{"tools": "f"}"#, "not JSON"),
            (r#"{"tools": [1]}"#, "a list of objects"),
            (r#"{"tools": 1}"#, "a list of objects"),
        ] {
            assert!(
                tools(&value(text)).unwrap_err().contains(expected),
                "{text}"
            );
        }
        for (text, expected) in [
            (r#"{"tool_calls": [{}]}"#, "no `name`"),
            (r#"{"reasoning_content": 3}"#, "must be a text"),
            (
                r#"{"tool_calls": [{"name": "f"}], "function_call": {"name": "f"}}"#,
                "two spellings",
            ),
        ] {
            assert!(
                fields(&value(text)).unwrap_err().contains(expected),
                "{text}"
            );
        }
    }
}
