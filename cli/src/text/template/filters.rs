//! Filters of Python's Jinja that the engine lacks or has otherwise.

use super::objects::Method;
use super::{methods, write};
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// The methods that the filter `attr` finds.
const OF_TEXTS: &str = "capitalize casefold center count encode endswith expandtabs find format index isalnum isalpha isascii \
    isdecimal isdigit islower isnumeric isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix \
    replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill";
const OF_LISTS: &str = "copy count index";
const OF_MAPS: &str = "copy get items keys values";
const OF_NUMBERS: &str = "is_integer";

/// The longest text of a value that `pprint` of Python writes in one line.
const LINE: usize = 80;

fn wrong(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.into())
}

/// Returns an attribute of a value: a method, and not an item.
pub(super) fn attr(value: &Value, name: &str) -> Value {
    let methods = match value.kind() {
        ValueKind::String => OF_TEXTS,
        ValueKind::Seq => OF_LISTS,
        ValueKind::Number => OF_NUMBERS,
        ValueKind::Map if !write::is_namespace(value) => OF_MAPS,
        _ => return value.get_attr(name).unwrap_or_default(),
    };
    match methods.split(' ').any(|method| method == name) {
        true => Value::from_object(Method {
            value: value.clone(),
            name: name.to_owned(),
        }),
        false => Value::UNDEFINED,
    }
}

/// Joins the texts of values, or of an attribute of each.
pub(super) fn join(
    state: &State<'_, '_>,
    values: &Value,
    given: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let [between, attribute] = options(&given, &named, ["d", "attribute"])?;
    let between = write::text(state, &between.unwrap_or_default())?;
    let attribute = attribute.filter(|attribute| !attribute.is_none());
    let mut joined = String::new();
    for (at, mut value) in values.try_iter()?.enumerate() {
        if let Some(attribute) = &attribute {
            value = item(&value, attribute)?;
        }
        let text = write::text(state, &value)?;
        state.consume_fuel((between.len() + text.len()) as u64 / 64)?;
        joined.push_str(if at > 0 { &between } else { "" });
        joined.push_str(&text);
    }
    Ok(joined.into())
}

/// Returns the item at a path of names and numbers between dots.
fn item(value: &Value, path: &Value) -> Result<Value, Error> {
    let Some(path) = path.as_str() else {
        return value.get_item(path);
    };
    path.split('.')
        .try_fold(value.clone(), |value, part| match part.parse::<usize>() {
            Ok(at) => value.get_item(&Value::from(at)),
            Err(_) => value.get_item(&Value::from(part)),
        })
}

/// Returns a value as `pprint` writes it, if that is one line.
pub(super) fn pretty(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    let text = write::repr(state, &sorted(value, 0)?)?;
    match text.chars().count() > LINE {
        true => Err(wrong(format!(
            "`pprint` of a value of more than {LINE} characters is not there"
        ))),
        false => Ok(text),
    }
}

/// Returns a value in which the keys of all dictionaries are sorted.
fn sorted(value: &Value, depth: usize) -> Result<Value, Error> {
    let deeper = |value: Value| match depth > LINE {
        true => Err(wrong("`pprint`: the value is nested too deeply")),
        false => sorted(&value, depth + 1),
    };
    match value.kind() {
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if keys.iter().any(|key| key.kind() != keys[0].kind()) {
                return Err(wrong("`pprint` of keys of several kinds is not there"));
            }
            keys.sort();
            let pairs = keys.into_iter().map(|key| {
                let item = deeper(value.get_item(&key)?)?;
                Ok((key, item))
            });
            Ok(Value::from_pairs(pairs.collect::<Result<Vec<_>, Error>>()?))
        }
        ValueKind::Seq if !value.is_tuple() => value.try_iter()?.map(deeper).collect(),
        _ => Ok(value.clone()),
    }
}

/// Escapes a text for a URL, or writes the entries of a dictionary or pairs as its query.
pub(super) fn url_encode(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    if value.as_str().is_some() || value.is_none() || value.try_iter().is_err() {
        return Ok(quoted(&write::text(state, value)?, "/"));
    }
    let mut parts = Vec::new();
    for entry in value.try_iter()? {
        let (name, item) = match value.kind() {
            ValueKind::Map => (entry.clone(), value.get_item(&entry)?),
            _ => {
                let pair: Vec<Value> = entry.try_iter()?.collect();
                match <[Value; 2]>::try_from(pair) {
                    Ok([name, item]) => (name, item),
                    Err(_) => return Err(wrong("`urlencode` takes a text, a dictionary or pairs")),
                }
            }
        };
        let quote = |value: &Value| {
            let text = write::text(state, value)?;
            Ok::<_, Error>(quoted(&text, "").replace("%20", "+"))
        };
        parts.push(format!("{}={}", quote(&name)?, quote(&item)?));
    }
    Ok(parts.join("&"))
}

/// Indents the lines of a text behind the first.
pub(super) fn indent(
    state: &State<'_, '_>,
    value: &Value,
    given: Rest<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let [width, first, blank] = options(&given, &named, ["width", "first", "blank"])?;
    let by = match width {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(text) => text.to_owned(),
            None => {
                let width = usize::try_from(i64::try_from(width)?).unwrap_or(0);
                state.consume_fuel(width as u64 / 64)?;
                " ".repeat(width)
            }
        },
    };
    let (first, blank) = (truth(first), truth(blank));
    let text = write::text(state, value)? + "\n";
    let mut indented = String::new();
    for (at, line) in methods::lines(&text, false).into_iter().enumerate() {
        let line = line.as_str().unwrap_or_default();
        state.consume_fuel((by.len() + line.len()) as u64 / 64)?;
        indented.push_str(if at > 0 { "\n" } else { "" });
        let indents = if at > 0 {
            blank || !line.is_empty()
        } else {
            first
        };
        indented.push_str(if indents { &by } else { "" });
        indented.push_str(line);
    }
    Ok(indented)
}

/// Cuts a text off that is longer than a length by more than a leeway.
pub(super) fn truncate(
    state: &State<'_, '_>,
    value: &Value,
    given: Rest<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let [length, words, end, leeway] =
        options(&given, &named, ["length", "killwords", "end", "leeway"])?;
    let size = |value: Option<Value>, default| value.map_or(Ok(default), usize::try_from);
    let (length, leeway) = (size(length, 255)?, size(leeway, 5)?);
    let end = match end {
        Some(end) => write::text(state, &end)?,
        None => "...".to_owned(),
    };
    let text = write::text(state, value)?;
    let kept = length.checked_sub(end.chars().count());
    let kept = kept.ok_or_else(|| wrong("`length` of `truncate` is less than that of `end`"))?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let mut cut: String = text.chars().take(kept).collect();
    if !truth(words) {
        cut.truncate(cut.rfind(' ').unwrap_or(cut.len()));
    }
    Ok(cut + &end)
}

/// Replaces a text by another.
pub(super) fn replace(
    state: &mut State<'_, '_>,
    value: &Value,
    given: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let [old, new, count] = options(&given, &named, ["old", "new", "count"])?;
    let (Some(old), Some(new)) = (old, new) else {
        return Err(wrong("`replace` needs two texts"));
    };
    let mut args =
        Vec::from([write::text(state, &old)?, write::text(state, &new)?].map(Value::from));
    args.extend(count.filter(|count| !count.is_none()));
    let text = Value::from(write::text(state, value)?);
    methods::call(state, &text, "replace", &args)
}

/// Returns the options of a filter, which are given by place or by name.
pub(super) fn options<const N: usize>(
    given: &[Value],
    named: &Kwargs,
    names: [&str; N],
) -> Result<[Option<Value>; N], Error> {
    if given.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut options = [const { None }; N];
    for (at, name) in names.into_iter().enumerate() {
        options[at] = match given.get(at) {
            Some(value) => Some(value.clone()),
            None => named.get::<Option<Value>>(name)?,
        };
    }
    named.assert_all_used()?;
    Ok(options)
}

fn truth(option: Option<Value>) -> bool {
    option.is_some_and(|option| option.is_true())
}

fn quoted(text: &str, safe: &str) -> String {
    let is_safe = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) || safe.as_bytes().contains(&byte)
    };
    let quote = |byte: u8| match is_safe(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(quote).collect()
}
