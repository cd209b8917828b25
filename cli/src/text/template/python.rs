//! The parts of Python and of its Jinja that templates use and the engine lacks or has otherwise.

use super::{json, methods, percent};
use jiff::civil::Date;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};

/// Adds all of it.
pub(super) fn add(environment: &mut Environment<'static>) {
    minijinja_contrib::add_to_environment(environment);
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(print);
    percent::add(environment);
    environment.add_filter("tojson", json::to_json);
    environment.add_filter("wordcount", word_count);
    environment.add_filter("int", integer);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("string", string);
    environment.add_filter("escape", escape);
    environment.add_filter("e", escape);
    // The engine's own filter writes other text than Python's.
    environment.remove_filter("pprint");
    environment.add_filter(
        "center",
        |state: &mut State<'_, '_>, text: Value, width: Option<usize>| {
            let width = Value::from(width.unwrap_or(80));
            methods::call(state, &Value::from(text.to_string()), "center", &[width])
        },
    );
    environment.add_test("iterable", |value: &Value| {
        !value.is_none() && value.try_iter().is_ok()
    });
    environment.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined
        )
    });
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn strftime_now(format: String) -> Result<String, Error> {
    written(&format, strtime::format(&format, &jiff::Zoned::now()))
}

/// Has `strftime_now` write this date at midnight in UTC, in place of the time.
pub(super) fn fix_date(environment: &mut Environment<'static>, date: Date) {
    environment.add_function("strftime_now", move |format: String| {
        let midnight = date.to_zoned(TimeZone::UTC);
        let text = midnight.and_then(|midnight| strtime::format(&format, &midnight));
        written(&format, text)
    });
}

fn written(format: &str, text: Result<String, jiff::Error>) -> Result<String, Error> {
    text.map_err(|error| {
        let problem = format!("strftime_now(\"{format}\"): {error}");
        Error::new(ErrorKind::InvalidOperation, problem)
    })
}

/// Prints a value: floats as Python does, and everything else as the engine does.
fn print(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match float(value) {
        Some(number) => out.write_str(&json::float(number)).map_err(Error::from),
        None => minijinja::escape_formatter(out, state, value),
    }
}

/// Returns a finite number that is a float.
fn float(value: &Value) -> Option<f64> {
    let is_float = value.kind() == ValueKind::Number && !value.is_integer();
    let number = is_float.then(|| f64::try_from(value.clone()).ok())?;
    number.filter(|number| number.is_finite())
}

/// Returns a value as a text: floats as Python writes them, and everything else as the engine does, within its limits.
fn string(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    match float(value) {
        Some(number) => Ok(Value::from(json::float(number))),
        None => minijinja::filters::string(state, value),
    }
}

/// Counts the words of a text: runs of letters, digits and `_`.
fn word_count(text: String) -> usize {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).count()
}

/// Returns the whole number of a value, or `default` if it has none.
fn integer(
    value: Value,
    default: Option<Value>,
    base: Option<u32>,
    named: Kwargs,
) -> Result<Value, Error> {
    let default = match default {
        Some(default) => default,
        None => named
            .get::<Option<Value>>("default")?
            .unwrap_or_else(|| Value::from(0)),
    };
    let base = base.or(named.get("base")?).unwrap_or(10);
    named.assert_all_used()?;
    if !(2..=36).contains(&base) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "`base` of `int` is from 2 to 36",
        ));
    }
    if value.is_integer() {
        return Ok(value);
    }
    let text = match value.kind() {
        ValueKind::Bool => return Ok(Value::from(i64::from(value.is_true()))),
        _ => value.to_string(),
    };
    let text = text.trim();
    let digits = match base {
        16 => text.trim_start_matches("0x").trim_start_matches("0X"),
        8 => text.trim_start_matches("0o"),
        2 => text.trim_start_matches("0b"),
        _ => text,
    };
    let whole = i128::from_str_radix(digits, base).map(Value::from).ok();
    let part = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    Ok(whole
        .or_else(|| part().map(|number| Value::from(number.trunc() as i128)))
        .unwrap_or(default))
}

/// Escapes a text for HTML, with the entities that Python's `markupsafe` writes.
fn escape(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let text = string(state, value)?.to_string();
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    Ok(Value::from_safe_string(escaped))
}

/// Returns another value in place of an undefined one, or, with `boolean`, in place of a false one.
fn default(
    value: &Value,
    other: Value,
    boolean: Option<bool>,
    named: Kwargs,
) -> Result<Value, Error> {
    let named_boolean = named.get::<Option<bool>>("boolean")?;
    named.assert_all_used()?;
    let is_false = boolean.or(named_boolean) == Some(true) && !value.is_true();
    Ok(match value.is_undefined() || is_false {
        true => other,
        false => value.clone(),
    })
}
