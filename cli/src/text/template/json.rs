//! `tojson`, as transformers has it: `json.dumps` of Python with its options.

use super::write::{DEEPEST, float};
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt::Write;

/// The largest indentation. Templates come with checkpoints, and each line of a value has it.
const MOST_INDENT: usize = 64;

/// The options of `json.dumps`.
struct Style {
    ascii: bool,
    indent: Option<String>,
    comma: String,
    colon: String,
    sorted: bool,
}

/// Writes JSON.
pub(super) fn to_json(
    state: &State<'_, '_>,
    value: Value,
    ascii: Option<Value>,
    indent: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let style = Style::of(ascii, indent, &named)?;
    let mut out = String::new();
    style.write(state, &value, 0, &mut out)?;
    Ok(Value::from(out))
}

fn wrong(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.into())
}

impl Style {
    fn of(ascii: Option<Value>, indent: Option<Value>, named: &Kwargs) -> Result<Self, Error> {
        let option = |given: Option<Value>, name: &str| match given {
            Some(value) => Ok(value),
            None => named
                .get::<Option<Value>>(name)
                .map(Option::unwrap_or_default),
        };
        let ascii = option(ascii, "ensure_ascii")?.is_true();
        let indent = indentation(&option(indent, "indent")?)?;
        let separators = option(None, "separators")?;
        let sorted = option(None, "sort_keys")?.is_true();
        named.assert_all_used()?;
        let (comma, colon) = match separators.is_none() || separators.is_undefined() {
            true if indent.is_some() => (",".to_owned(), ": ".to_owned()),
            true => (", ".to_owned(), ": ".to_owned()),
            false => {
                let parts: Vec<Value> = separators.try_iter()?.collect();
                match parts.as_slice() {
                    [comma, colon] => (comma.to_string(), colon.to_string()),
                    _ => return Err(wrong("`separators` of `tojson` are two texts")),
                }
            }
        };
        Ok(Self {
            ascii,
            indent,
            comma,
            colon,
            sorted,
        })
    }

    fn write(
        &self,
        state: &State<'_, '_>,
        value: &Value,
        depth: usize,
        out: &mut String,
    ) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(wrong(format!(
                "`tojson`: the value is more than {DEEPEST} deep"
            )));
        }
        // A list may hold another several times, so that the text is much larger than all lists.
        state.consume_fuel(1)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.text(state, value.as_str().unwrap_or_default(), out)?,
            ValueKind::Seq | ValueKind::Iterable => {
                out.push('[');
                let mut count = 0;
                for item in value.try_iter()? {
                    self.next(&mut count, depth, out);
                    self.write(state, &item, depth + 1, out)?;
                }
                self.close(count, depth, out);
                out.push(']');
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                out.push('{');
                let mut count = 0;
                for key in keys {
                    self.next(&mut count, depth, out);
                    self.text(state, &name(&key)?, out)?;
                    out.push_str(&self.colon);
                    self.write(state, &value.get_item(&key)?, depth + 1, out)?;
                }
                self.close(count, depth, out);
                out.push('}');
            }
            other => {
                return Err(wrong(format!(
                    "`tojson`: a value of the kind {other} can't be written as JSON"
                )));
            }
        }
        Ok(())
    }

    /// Begins the next item.
    fn next(&self, count: &mut usize, depth: usize, out: &mut String) {
        if *count > 0 {
            out.push_str(&self.comma);
        }
        *count += 1;
        self.line(depth + 1, out);
    }

    /// Ends the items.
    fn close(&self, count: usize, depth: usize, out: &mut String) {
        if count > 0 {
            self.line(depth, out);
        }
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn text(&self, state: &State<'_, '_>, text: &str, out: &mut String) -> Result<(), Error> {
        state.consume_fuel(text.len() as u64 / 64)?;
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || self.ascii && c >= '\u{7f}' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // A `String` takes all that is written.
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
        Ok(())
    }
}

/// Returns the indentation of each level.
fn indentation(value: &Value) -> Result<Option<String>, Error> {
    if value.is_none() || value.is_undefined() {
        return Ok(None);
    }
    let indent = match value.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let width = i64::try_from(value.clone())?.max(0);
            " ".repeat(
                usize::try_from(width)
                    .unwrap_or(usize::MAX)
                    .min(MOST_INDENT + 1),
            )
        }
    };
    match indent.len() > MOST_INDENT {
        true => Err(wrong(format!(
            "`tojson` indents by {MOST_INDENT} at most, but `indent` is {value}"
        ))),
        false => Ok(Some(indent)),
    }
}

/// Returns the name of an entry.
fn name(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.to_string()),
        ValueKind::None => Ok("null".into()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.into()),
        ValueKind::Number => Ok(number(key)),
        other => Err(wrong(format!(
            "`tojson`: a key of the kind {other} can't be written as JSON"
        ))),
    }
}

/// Returns a number as Python writes it.
fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if !value.is_integer() => match number {
            _ if number.is_nan() => "NaN".into(),
            f64::INFINITY => "Infinity".into(),
            f64::NEG_INFINITY => "-Infinity".into(),
            finite => float(finite),
        },
        _ => value.to_string(),
    }
}
