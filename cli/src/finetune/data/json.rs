//! JSON as programs write it.

use serde::de::DeserializeOwned;

/// A value whose objects keep the order of their fields, as templates write them.
pub type Ordered = minijinja::Value;

/// Parses JSON. The numbers `NaN` and `Infinity`, which JSON lacks and Python writes, are null.
///
/// # Errors
/// Returns an error if the text is something else.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match without_nan(text) {
        Some(replaced) => serde_json::from_str(&replaced),
        None => Err(error),
    })
}

/// Returns the text of an error without its line.
pub fn problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let said = match said.split(" at line ").next().unwrap_or_default() {
        half if half.contains("hex escape") => "a half of a surrogate pair, such as \\ud83d alone",
        said => said,
    };
    format!("not valid JSON: {said} (column {})", error.column())
}

/// Replaces `NaN` and infinities by `null`. Returns `None` if the text has neither.
fn without_nan(text: &str) -> Option<String> {
    const NONE: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    let (mut replaced, mut done, mut at) = (String::new(), 0, 0);
    let mut inside = false;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'\\' if inside => at += 1,
            b'"' => inside = !inside,
            b'-' | b'I' | b'N' if !inside => {
                let number = NONE.iter().find(|number| text[at..].starts_with(**number));
                if let Some(number) = number {
                    replaced += &text[done..at];
                    replaced += "null";
                    at += number.len() - 1;
                    done = at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    (done > 0).then(|| replaced + &text[done..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn numbers_that_are_none_are_null() {
        let text =
            r#"{"a": NaN, "b": [-Infinity, Infinity, -1], "c": "NaN \" -Infinity", "é": NaN}"#;
        let expected =
            json!({"a": null, "b": [null, null, -1], "c": "NaN \" -Infinity", "é": null});
        assert_eq!(parse::<Value>(text).unwrap(), expected);
        for broken in [
            r#"{"a": Nan}"#,
            r#"{"a": NaN"#,
            r#"{"a": "NaN}"#,
            "NaNNaN",
            "\"\\",
        ] {
            assert!(parse::<Value>(broken).is_err(), "{broken}");
        }
        let said = problem(&parse::<Value>("{\"a\": \"\\ud83d\"}").unwrap_err());
        assert!(
            said.contains("surrogate") && !said.contains("line"),
            "{said}"
        );
    }
}
