//! The parts of Python that templates use: methods of its types, `tojson`, `raise_exception` and `strftime_now`.

use jiff::civil::Date;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io::{self, Write};

/// Adds all of it.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", to_json);
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

/// The largest indentation of JSON. Templates come with checkpoints, and each line of a value has it.
const MOST_INDENT: usize = 64;

/// Writes JSON as `json.dumps(value, ensure_ascii=False)` does.
fn to_json(value: Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<usize>>("indent")?,
    };
    let ascii = options.get::<Option<bool>>("ensure_ascii")?;
    let sorted = options.get::<Option<bool>>("sort_keys")?;
    if ascii == Some(true) || sorted == Some(true) || options.has("separators") {
        let problem = "`tojson` supports only the option `indent`";
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    options.assert_all_used()?;
    let json = match indent {
        Some(indent) if indent > MOST_INDENT => {
            let problem =
                format!("`tojson` indents by {MOST_INDENT} at most, but `indent` is {indent}");
            return Err(Error::new(ErrorKind::InvalidOperation, problem));
        }
        Some(indent) => {
            let spaces = vec![b' '; indent];
            write(&value, PrettyFormatter::with_indent(&spaces))
        }
        None => write(&value, OneLine),
    };
    let json = json.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(Value::from_safe_string(json))
}

fn write(value: &Value, formatter: impl Formatter) -> serde_json::Result<String> {
    let mut json = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut json, formatter,
    ))?;
    Ok(String::from_utf8(json).expect("serde_json writes UTF-8"))
}

/// JSON in one line, with a space behind commas and colons.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}
