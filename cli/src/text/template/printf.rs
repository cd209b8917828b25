//! The operator `%` of texts and the filter `format`.

use super::format::{Width, size};
use super::write;
use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Rest, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

fn wrong(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.into())
}

/// The operator `%`: the rest of a division, or a formatted text.
pub(super) fn percent(state: &State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    if let Some(pattern) = left.as_str() {
        let several = right
            .downcast_object_ref::<Tuple>()
            .map(|tuple| tuple.to_vec());
        let mapping = (right.kind() == ValueKind::Map).then(|| right.clone());
        let arguments = several.unwrap_or_else(|| vec![right]);
        return Printf::new(state, &arguments, mapping)
            .text(pattern)
            .map(Value::from);
    }
    let unknown = || {
        wrong(format!(
            "tried to use % on {} and {}",
            left.kind(),
            right.kind()
        ))
    };
    let number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if !number(&left) || !number(&right) {
        return Err(unknown());
    }
    // As in Python, the result has the sign of the divisor.
    match (i64::try_from(left.clone()), i64::try_from(right.clone())) {
        (Ok(left), Ok(right)) if right != 0 => {
            let (left, right) = (i128::from(left), i128::from(right));
            Ok(Value::from(((left % right) + right) % right))
        }
        (Ok(_), Ok(_)) => Err(unknown()),
        _ => {
            let (left, right) = (f64::try_from(left.clone())?, f64::try_from(right.clone())?);
            match right == 0.0 {
                true => Err(unknown()),
                false => Ok(Value::from(left - right * (left / right).floor())),
            }
        }
    }
}

/// The filter `format`: `%` with the arguments, or with those that have names.
pub(super) fn filter(
    state: &State<'_, '_>,
    pattern: Value,
    arguments: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let mut names = Vec::new();
    for name in named.args() {
        names.push((name.to_owned(), named.get::<Value>(name)?));
    }
    let pattern = write::text(state, &pattern)?;
    let mapping = (!names.is_empty()).then(|| Value::from_pairs(names));
    if mapping.is_some() && !arguments.is_empty() {
        return Err(wrong(
            "`format` takes arguments with names or without, not both",
        ));
    }
    let arguments = match &mapping {
        Some(mapping) => vec![mapping.clone()],
        None => arguments.to_vec(),
    };
    Printf::new(state, &arguments, mapping)
        .text(&pattern)
        .map(Value::from)
}

/// The arguments of `%`.
struct Printf<'a> {
    state: &'a State<'a, 'a>,
    arguments: std::slice::Iter<'a, Value>,
    mapping: Option<Value>,
}

impl<'a> Printf<'a> {
    fn new(state: &'a State<'_, '_>, arguments: &'a [Value], mapping: Option<Value>) -> Self {
        Self {
            state,
            arguments: arguments.iter(),
            mapping,
        }
    }

    fn next(&mut self) -> Result<&'a Value, Error> {
        self.arguments
            .next()
            .ok_or_else(|| wrong("not enough arguments for format string"))
    }

    fn text(mut self, pattern: &str) -> Result<String, Error> {
        let (mut out, mut rest) = (String::new(), pattern);
        while let Some((before, field)) = rest.split_once('%') {
            out.push_str(before);
            rest = match field.strip_prefix('%') {
                Some(rest) => {
                    out.push('%');
                    rest
                }
                None => self.field(field, &mut out)?,
            };
        }
        out.push_str(rest);
        match self.arguments.next() {
            Some(_) if self.mapping.is_none() => Err(wrong(
                "not all arguments converted during string formatting",
            )),
            _ => Ok(out),
        }
    }

    /// Writes a field, and returns the text behind it.
    fn field<'p>(&mut self, field: &'p str, out: &mut String) -> Result<&'p str, Error> {
        let incomplete = || wrong("incomplete format");
        let (named, field) = match field.strip_prefix('(') {
            Some(inside) => {
                let (name, field) = inside.split_once(')').ok_or_else(incomplete)?;
                let mapping = self.mapping.as_ref();
                let mapping = mapping.ok_or_else(|| wrong("format requires a mapping"))?;
                let value = mapping.get_item(&Value::from(name))?;
                if value.is_undefined() {
                    return Err(wrong(format!("format: there is no key '{name}'")));
                }
                (Some(value), field)
            }
            None => (None, field),
        };
        let digits = |text: &'p str, from: usize| {
            let text = &text[from..];
            text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len() + from
        };
        let flags = field.len() - field.trim_start_matches(|c| "#0- +".contains(c)).len();
        let width_end = digits(field, flags);
        let end = match field[width_end..].starts_with('.') {
            true => digits(field, width_end + 1),
            false => width_end,
        };
        let behind = field[end..].trim_start_matches(['h', 'l', 'L']);
        let kind = behind.chars().next().ok_or_else(incomplete)?;
        let value = match named {
            Some(value) => value,
            None => self.next()?.clone(),
        };
        let (width, precision) = (&field[flags..width_end], &field[width_end..end]);
        let spec = Width {
            width: size(self.state, width)?.unwrap_or(0),
            precision: match precision.strip_prefix('.') {
                Some(digits) => Some(size(self.state, digits)?.unwrap_or(0)),
                None => None,
            },
            fill: ' ',
            align: if field[..flags].contains('-') {
                '<'
            } else {
                '>'
            },
        };
        let text = match kind {
            's' => spec.padded(&write::text(self.state, &value)?),
            'r' => spec.padded(&write::repr(self.state, &value)?),
            'c' if value.as_str().is_some_and(|text| text.chars().count() == 1) => {
                spec.padded(value.as_str().unwrap_or_default())
            }
            'd' | 'i' | 'u' | 'o' | 'x' | 'X' | 'c' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                let (kind, value) = number(kind, &value)?;
                let pattern = format!("%{}{kind}", &field[..end]);
                format(FormatStyle::Printf, &pattern, &[value])?
            }
            kind => {
                return Err(wrong(format!(
                    "unsupported format character '{}'",
                    kind.escape_default()
                )));
            }
        };
        out.push_str(&text);
        Ok(&behind[kind.len_utf8()..])
    }
}

/// Returns a value as a number of a kind of `%`.
fn number(kind: char, value: &Value) -> Result<(char, Value), Error> {
    let needs = |what: &str| {
        wrong(format!(
            "%{kind} format: {what} is required, not a {}",
            value.kind()
        ))
    };
    let value = match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number => value.clone(),
        _ => return Err(needs("a number")),
    };
    match kind {
        'd' | 'i' | 'u' if value.is_integer() => Ok(('d', value)),
        'd' | 'i' | 'u' => match f64::try_from(value.clone())? {
            number if number.is_finite() => Ok(('d', Value::from(number.trunc() as i128))),
            _ => Err(needs("a finite number")),
        },
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => Ok((kind, Value::from(f64::try_from(value)?))),
        _ if value.is_integer() => Ok((kind, value)),
        _ => Err(needs("an integer")),
    }
}
