//! Values as Python's `str` and `repr` write them.

use super::objects::View;
use super::python;
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value};
use std::fmt::Write;

/// The largest depth of a value.
pub(super) const DEEPEST: usize = 200;

/// Prints a value into the text of the template.
pub(super) fn print(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match state.auto_escape() {
        minijinja::AutoEscape::None => out.write_str(&text(state, value)?).map_err(Error::from),
        minijinja::AutoEscape::Html => {
            let escaped = python::escape(state, value)?;
            let text = escaped.as_str().unwrap_or_default();
            out.write_str(text).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// Returns a value as `str` writes it.
pub(super) fn text(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None if value.is_undefined() => Ok(String::new()),
        None => repr(state, value),
    }
}

/// Returns a value as `repr` writes it.
pub(super) fn repr(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write(state, value, 0, &mut out)?;
    Ok(out)
}

fn wrong(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.into())
}

fn write(
    state: &State<'_, '_>,
    value: &Value,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(wrong(format!(
            "a value that is more than {DEEPEST} deep can't be printed"
        )));
    }
    // A list may hold another several times, so that the text is much larger than all lists.
    state.consume_fuel(1)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            state.consume_fuel(text.len() as u64 / 64)?;
            match value.is_safe() {
                true => write_around(out, "Markup(", ")", |out| quote(text, out)),
                false => quote(text, out),
            }
        }
        // Slices and sums of lists are iterators to the engine.
        ValueKind::Seq | ValueKind::Iterable => {
            let tuple = value.downcast_object_ref::<Tuple>();
            let tuple = tuple
                .map(|tuple| tuple.len())
                .or_else(|| group_length(value));
            let view = value.downcast_object_ref::<View>().map(|view| view.name);
            let (begin, end) = match (tuple, view) {
                (Some(1), _) => ("(", ",)"),
                (Some(_), _) => ("(", ")"),
                (None, Some(_)) => ("([", "])"),
                (None, None) => ("[", "]"),
            };
            out.push_str(view.unwrap_or_default());
            out.push_str(begin);
            for (at, item) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write(state, &item, depth + 1, out)?;
            }
            out.push_str(end);
        }
        ValueKind::Map => {
            let named = is_namespace(value);
            out.push_str(if named { "<Namespace {" } else { "{" });
            for (at, key) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write(state, &key, depth + 1, out)?;
                out.push_str(": ");
                write(state, &value.get_item(&key)?, depth + 1, out)?;
            }
            out.push_str(if named { "}>" } else { "}" });
        }
        other => return Err(wrong(format!("a {other} can't be printed"))),
    }
    Ok(())
}

/// Returns `true` for a value of `namespace`.
pub(super) fn is_namespace(value: &Value) -> bool {
    let object = value.as_object();
    object.is_some_and(|object| object.type_name().contains("Namespace"))
}

/// Returns the length of a pair of the filter `groupby`, which is a tuple in Python.
fn group_length(value: &Value) -> Option<usize> {
    let object = value.as_object()?;
    object.type_name().contains("GroupTuple").then_some(2)
}

fn write_around(out: &mut String, begin: &str, end: &str, inside: impl FnOnce(&mut String)) {
    out.push_str(begin);
    inside(out);
    out.push_str(end);
}

/// Writes a text in quotes.
fn quote(text: &str, out: &mut String) {
    let quote = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(quote);
    for c in text.chars() {
        // A `String` takes all that is written.
        let _ = match c {
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            c if c == quote => write!(out, "\\{c}"),
            c if is_printable(c) => out.write_char(c),
            c => match u32::from(c) {
                code @ 0..=0xff => write!(out, "\\x{code:02x}"),
                code @ 0x100..=0xffff => write!(out, "\\u{code:04x}"),
                code => write!(out, "\\U{code:08x}"),
            },
        };
    }
    out.push(quote);
}

/// Returns `true` for a character that `repr` writes as it is: none of the categories "other" and "separator".
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // Rust escapes the same characters, and, where a text begins, those that join with the character before.
    let mut text = ['a', c].iter().collect::<String>();
    text = text.escape_debug().to_string();
    !text.contains('\\')
}

/// Returns a number as `repr` writes it.
fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if !value.is_integer() => match number {
            _ if number.is_nan() => "nan".into(),
            f64::INFINITY => "inf".into(),
            f64::NEG_INFINITY => "-inf".into(),
            finite => float(finite),
        },
        _ => value.to_string(),
    }
}

/// Returns a finite number as `repr` writes it.
pub(super) fn float(number: f64) -> String {
    let exponential = format!("{number:e}");
    let (digits, exponent) = exponential.split_once('e').unwrap_or((&exponential, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => match number.to_string() {
            whole if !whole.contains('.') => whole + ".0",
            decimal => decimal,
        },
    }
}
