//! The parts of Python and of its Jinja that templates use and the engine lacks or has otherwise.

use super::{filters, json, methods, objects, operators, printf, write};
use jiff::civil::Date;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

/// Adds all of it.
pub(super) fn add(environment: &mut Environment<'static>) {
    minijinja_contrib::add_to_environment(environment);
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(write::print);
    operators::add(environment);
    environment.add_filter("tojson", json::to_json);
    environment.add_filter("wordcount", word_count);
    environment.add_filter("int", integer);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("string", string);
    environment.add_filter("escape", escape);
    environment.add_filter("e", escape);
    environment.add_filter("attr", filters::attr);
    environment.add_filter("format", printf::filter);
    environment.add_filter("indent", filters::indent);
    environment.add_filter("join", filters::join);
    environment.add_filter("pprint", filters::pretty);
    environment.add_filter("replace", filters::replace);
    environment.add_filter("truncate", filters::truncate);
    environment.add_filter("urlencode", filters::url_encode);
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
    environment.add_function("cycler", objects::cycler);
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

/// Returns a value as a text.
fn string(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    match value.is_safe() {
        true => Ok(value.clone()),
        false => write::text(state, value).map(Value::from),
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
    if f64::try_from(value.clone()).is_ok_and(f64::is_infinite) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "infinity is no whole number",
        ));
    }
    let text = match value.kind() {
        ValueKind::Bool => return Ok(Value::from(i64::from(value.is_true()))),
        _ => value.to_string(),
    };
    let text = text.trim();
    // Python reads `1_000` as 1000, and neither `_1` nor `1__0`.
    let apart = text.split('_').all(|part| {
        part.starts_with(|c: char| c.is_alphanumeric())
            && part.ends_with(|c: char| c.is_alphanumeric())
    });
    let text = match apart {
        true => text.replace('_', ""),
        false => text.to_owned(),
    };
    let text = text.as_str();
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
pub(super) fn escape(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
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
fn default(value: &Value, given: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [other, boolean] = filters::options(&given, &named, ["default_value", "boolean"])?;
    let is_false = boolean.is_some_and(|boolean| boolean.is_true()) && !value.is_true();
    Ok(match value.is_undefined() || is_false {
        true => other.unwrap_or_else(|| Value::from("")),
        false => value.clone(),
    })
}
