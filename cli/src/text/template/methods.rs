//! Methods of Python's types that templates call.
//!
//! Most come from `minijinja-contrib`. Those that it lacks, or has with fewer parameters, are here.

use super::format;
use super::objects::View;
use minijinja::value::{Kwargs, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback as known;

/// Calls a method of a value.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match (value.kind(), value.as_str(), method) {
        (_, Some(text), "split" | "rsplit") => split(text, args, method == "rsplit"),
        (_, Some(text), "splitlines") => {
            let (keep, named): (Option<bool>, Kwargs) = from_args(args)?;
            let keep = keep.or(named.get("keepends")?).unwrap_or(false);
            named.assert_all_used()?;
            Ok(lines(text, keep).into())
        }
        (_, Some(text), "find" | "rfind" | "index" | "rindex") => find(text, args, method),
        (_, Some(text), "startswith" | "endswith" | "count") if args.len() > 1 => {
            let (what, start, end): (Value, Option<i64>, Option<i64>) = from_args(args)?;
            let part = Value::from(part(text, start, end).1);
            known(state, &part, method, &[what])
        }
        (_, Some(text), "partition" | "rpartition") => {
            let (between,): (&str,) = from_args(args)?;
            Ok(partition(text, not_empty(between)?, method == "rpartition"))
        }
        (_, Some(text), "removeprefix" | "removesuffix") => {
            let (end,): (&str,) = from_args(args)?;
            let rest = match method {
                "removeprefix" => text.strip_prefix(end),
                _ => text.strip_suffix(end),
            };
            Ok(rest.unwrap_or(text).into())
        }
        (_, Some(text), "format") => format::method(state, text, args),
        (_, Some(text), "join") => {
            let (values,): (&Value,) = from_args(args)?;
            join(state, text, values)
        }
        (_, Some(text), "expandtabs") => {
            let (width, named): (Option<i64>, Kwargs) = from_args(args)?;
            let width = width.or(named.get("tabsize")?).unwrap_or(8);
            named.assert_all_used()?;
            expand_tabs(state, text, usize::try_from(width).unwrap_or(0))
        }
        (_, Some(text), "zfill" | "ljust" | "rjust" | "center") => fill(state, text, args, method),
        (_, Some(text), "title") => {
            let () = from_args(args)?;
            Ok(title(text).into())
        }
        (_, Some(text), "swapcase" | "casefold" | "istitle" | "isdecimal") => {
            let () = from_args(args)?;
            Ok(match method {
                "swapcase" => text.chars().map(swapped).collect::<String>().into(),
                "casefold" => text.to_uppercase().to_lowercase().into(),
                "istitle" => (text == title(text) && text.chars().any(char::is_alphabetic)).into(),
                _ => (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())).into(),
            })
        }
        (_, Some(text), "isspace") => {
            let () = from_args(args)?;
            Ok((!text.is_empty() && text.chars().all(is_space)).into())
        }
        (_, Some(text), "strip" | "lstrip" | "rstrip") => {
            let (chars,): (Option<Value>,) = from_args(args)?;
            match chars.filter(|chars| !chars.is_none()) {
                Some(_) => known(state, value, method, args),
                None if method == "strip" => Ok(text.trim_matches(is_space).into()),
                None if method == "lstrip" => Ok(text.trim_start_matches(is_space).into()),
                None => Ok(text.trim_end_matches(is_space).into()),
            }
        }
        (ValueKind::Map, _, "keys" | "values" | "items") => {
            let () = from_args(args)?;
            let items = known(state, value, method, args)?.try_iter()?.collect();
            let name = match method {
                "keys" => "dict_keys",
                "values" => "dict_values",
                _ => "dict_items",
            };
            Ok(Value::from_object(View { name, items }))
        }
        (ValueKind::Seq, _, "index") => {
            let (what,): (&Value,) = from_args(args)?;
            let at = value.try_iter()?.position(|item| item == *what);
            at.map(Value::from)
                .ok_or_else(|| wrong(format!("{what} is not in the list")))
        }
        (ValueKind::Seq | ValueKind::Map, _, "copy") => {
            let () = from_args(args)?;
            Ok(value.clone())
        }
        (ValueKind::Number, _, "is_integer") => {
            let () = from_args(args)?;
            let fraction = f64::try_from(value.clone()).map(f64::fract);
            Ok((value.is_integer() || fraction.is_ok_and(|part| part == 0.0)).into())
        }
        _ => known(state, value, method, args),
    }
}

fn wrong(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.into())
}

fn not_empty(separator: &str) -> Result<&str, Error> {
    match separator {
        "" => Err(wrong("empty separator")),
        separator => Ok(separator),
    }
}

/// Returns `true` for a blank of Python.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}

/// Splits a text at a separator or at blanks, `maxsplit` times, from its start or its end.
fn split<'a>(text: &'a str, args: &[Value], from_end: bool) -> Result<Value, Error> {
    let (between, times, named): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let between = match between {
        Some(between) => Some(between),
        None => named.get::<Option<Value>>("sep")?,
    };
    let times = match times {
        Some(times) => Some(times),
        None => named.get::<Option<i64>>("maxsplit")?,
    };
    named.assert_all_used()?;
    let times = times.and_then(|times| usize::try_from(times).ok());
    let most = times.map_or(usize::MAX, |times| times.saturating_add(1));
    let between = between.filter(|between| !between.is_none());
    let mut parts: Vec<&str> = match (&between, from_end) {
        (None, false) => {
            let trim = |rest: &'a str| rest.trim_start_matches(is_space);
            words(text, most, trim, |rest| rest.split_once(is_space))
        }
        (None, true) => {
            let trim = |rest: &'a str| rest.trim_end_matches(is_space);
            words(text, most, trim, |rest| {
                let parts = rest.rsplit_once(is_space);
                parts.map(|(rest, last)| (last, rest))
            })
        }
        (Some(between), _) => {
            let between = between
                .as_str()
                .ok_or_else(|| wrong("the separator must be a text"))?;
            match from_end {
                false => text.splitn(most, not_empty(between)?).collect(),
                true => text.rsplitn(most, not_empty(between)?).collect(),
            }
        }
    };
    if from_end {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

/// Returns the words of a text, at most `most`. The last has the rest of the text.
fn words<'a>(
    text: &'a str,
    most: usize,
    trim: impl Fn(&'a str) -> &'a str,
    next: impl Fn(&'a str) -> Option<(&'a str, &'a str)>,
) -> Vec<&'a str> {
    let mut rest = trim(text);
    let mut words = Vec::new();
    while !rest.is_empty() {
        let (word, behind) = match words.len() + 1 < most {
            true => next(rest).unwrap_or((rest, "")),
            false => (rest, ""),
        };
        words.push(word);
        rest = trim(behind);
    }
    words
}

/// Returns the lines of a text, which end at any of Python's ends of lines.
pub(super) fn lines(text: &str, keep: bool) -> Vec<Value> {
    let ends =
        |c: char| matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((line, _)) = rest.split_once(ends) {
        let behind = &rest[line.len()..];
        let first = behind.chars().next().map_or(0, char::len_utf8);
        let end = if behind.starts_with("\r\n") { 2 } else { first };
        let kept = if keep { end } else { 0 };
        lines.push(Value::from(&rest[..line.len() + kept]));
        rest = &behind[end..];
    }
    if !rest.is_empty() {
        lines.push(Value::from(rest));
    }
    lines
}

/// Returns the part of a text between two places, counted in characters as slices of Python are, and its first place.
fn part(text: &str, start: Option<i64>, end: Option<i64>) -> (usize, &str) {
    let length = text.chars().count();
    let place = |place: i64| {
        let from_end = place.unsigned_abs() as usize;
        match place < 0 {
            true => length.saturating_sub(from_end),
            false => length.min(from_end),
        }
    };
    let (start, end) = (start.map_or(0, place), end.map_or(length, place));
    let byte = |place| {
        text.char_indices()
            .nth(place)
            .map_or(text.len(), |(byte, _)| byte)
    };
    let part = text.get(byte(start)..byte(end));
    (start, part.unwrap_or_default())
}

fn find(text: &str, args: &[Value], method: &str) -> Result<Value, Error> {
    let (what, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    let (first, part) = part(text, start, end);
    let found = match method.starts_with('r') {
        true => part.rfind(what),
        false => part.find(what),
    };
    match found {
        Some(byte) => Ok(Value::from(first + part[..byte].chars().count())),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => Err(wrong("substring not found")),
    }
}

fn partition(text: &str, between: &str, from_end: bool) -> Value {
    let parts = match from_end {
        true => text.rsplit_once(between),
        false => text.split_once(between),
    };
    let parts = match parts {
        Some((left, right)) => [left, between, right],
        None if from_end => ["", "", text],
        None => [text, "", ""],
    };
    Value::from(Tuple::from(parts.map(Value::from)))
}

/// Fills a text up to a width: with zeros behind its sign, or with a character at its ends.
fn fill(state: &State<'_, '_>, text: &str, args: &[Value], method: &str) -> Result<Value, Error> {
    let (width, filler): (usize, Option<char>) = match method {
        "zfill" => (from_args::<(usize,)>(args)?.0, Some('0')),
        _ => from_args(args)?,
    };
    let missing = width.saturating_sub(text.chars().count());
    state.consume_fuel(missing as u64 / 64)?;
    let filled = |count: usize| filler.unwrap_or(' ').to_string().repeat(count);
    let text = match method {
        "ljust" => format!("{text}{}", filled(missing)),
        "rjust" => format!("{}{text}", filled(missing)),
        "center" => {
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", filled(left), filled(missing - left))
        }
        _ => {
            let sign = text.starts_with(['+', '-']).into();
            format!("{}{}{}", &text[..sign], filled(missing), &text[sign..])
        }
    };
    Ok(text.into())
}

/// Joins texts.
fn join(state: &State<'_, '_>, between: &str, values: &Value) -> Result<Value, Error> {
    let mut joined = String::new();
    for (at, value) in values.try_iter()?.enumerate() {
        let Some(text) = value.as_str() else {
            return Err(wrong(format!(
                "sequence item {at}: expected a text, found a {}",
                value.kind()
            )));
        };
        state.consume_fuel((between.len() + text.len()) as u64 / 64)?;
        joined.push_str(if at > 0 { between } else { "" });
        joined.push_str(text);
    }
    Ok(joined.into())
}

/// Replaces tabs by blanks up to the next multiple of a width.
fn expand_tabs(state: &State<'_, '_>, text: &str, width: usize) -> Result<Value, Error> {
    let (mut expanded, mut column) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '\t' if width == 0 => {}
            '\t' => {
                let missing = width - column % width;
                state.consume_fuel(missing as u64 / 64)?;
                expanded.push_str(&" ".repeat(missing));
                column += missing;
            }
            c => {
                expanded.push(c);
                column = if matches!(c, '\n' | '\r') {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    Ok(expanded.into())
}

/// Returns a text whose words begin with capitals. A word ends at any character that is not a letter.
fn title(text: &str) -> String {
    let mut title = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        match inside {
            true => title.extend(c.to_lowercase()),
            false => {
                // A letter such as `ß` becomes two, of which one is a capital.
                let mut letters = c.to_uppercase();
                title.extend(letters.next());
                title.extend(letters.flat_map(char::to_lowercase));
            }
        }
        inside = c.is_alphabetic();
    }
    title
}

fn swapped(c: char) -> String {
    match c.is_uppercase() {
        true => c.to_lowercase().collect(),
        false => c.to_uppercase().collect(),
    }
}
