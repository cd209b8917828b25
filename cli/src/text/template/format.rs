//! The method `str.format`, and the widths of formatted texts.
//!
//! The engine formats numbers. Fields, conversions and the widths of texts, which it counts in bytes, are here.

use super::write;
use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Rest, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// The largest width and precision of a field. A template may not write much more in all.
const WIDEST: usize = 1 << 20;

fn wrong(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.into())
}

/// Reads a width or a precision, and pays for its characters.
pub(super) fn size(state: &State<'_, '_>, digits: &str) -> Result<Option<usize>, Error> {
    if digits.is_empty() {
        return Ok(None);
    }
    let size = digits.parse().ok().filter(|size| *size <= WIDEST);
    let size = size.ok_or_else(|| {
        wrong(format!(
            "a width in a format string is {WIDEST} characters at most"
        ))
    })?;
    state.consume_fuel(size as u64 / 64)?;
    Ok(Some(size))
}

/// The width of a text.
pub(super) struct Width {
    pub(super) width: usize,
    pub(super) precision: Option<usize>,
    pub(super) fill: char,
    pub(super) align: char,
}

impl Width {
    pub(super) fn padded(&self, text: &str) -> String {
        let text: String = match self.precision {
            Some(most) => text.chars().take(most).collect(),
            None => text.to_owned(),
        };
        let missing = self.width.saturating_sub(text.chars().count());
        let left = match self.align {
            '<' => 0,
            '^' => missing / 2,
            _ => missing,
        };
        let fill = |count: usize| self.fill.to_string().repeat(count);
        format!("{}{text}{}", fill(left), fill(missing - left))
    }
}

/// The method `str.format`.
pub(super) fn method(state: &State<'_, '_>, pattern: &str, args: &[Value]) -> Result<Value, Error> {
    let (arguments, named): (Rest<Value>, Kwargs) = from_args(args)?;
    let mut fields = Fields {
        state,
        arguments: &arguments,
        named: &named,
        next: Some(0),
    };
    fields.text(pattern, 0).map(Value::from)
}

/// The arguments of `str.format`.
struct Fields<'a> {
    state: &'a State<'a, 'a>,
    arguments: &'a [Value],
    named: &'a Kwargs,
    /// The argument of the next field without a name, or `None` after a field with a number.
    next: Option<usize>,
}

impl Fields<'_> {
    fn text(&mut self, pattern: &str, depth: usize) -> Result<String, Error> {
        let (mut out, mut rest) = (String::new(), pattern);
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let (brace, behind) = rest[at..].split_at(1);
            if behind.starts_with(brace) && depth == 0 {
                out.push_str(brace);
                rest = &behind[1..];
                continue;
            }
            if brace == "}" {
                return Err(wrong("Single '}' encountered in format string"));
            }
            if depth > 1 {
                return Err(wrong("Max string recursion exceeded"));
            }
            let end = end_of_field(behind)?;
            out.push_str(&self.field(&behind[..end], depth)?);
            rest = &behind[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Returns the text of a field: `name!conversion:spec`.
    fn field(&mut self, field: &str, depth: usize) -> Result<String, Error> {
        let bracket = field.rfind(']').map_or(0, |at| at + 1);
        let name_end = field[bracket..].find(['!', ':']).map(|at| at + bracket);
        let name_end = match field.find(['!', ':', '[']) {
            Some(at) if !field[at..].starts_with('[') => at,
            _ => name_end.unwrap_or(field.len()),
        };
        let (name, rest) = field.split_at(name_end);
        let value = self.value(name)?;
        let (value, spec) = match rest.strip_prefix('!') {
            None => (value, rest),
            Some(rest) => {
                let conversion = rest.chars().next().unwrap_or(' ');
                let value = match conversion {
                    's' => write::text(self.state, &value)?,
                    'r' => write::repr(self.state, &value)?,
                    _ => return Err(wrong("a conversion in a format string must be !s or !r")),
                };
                (Value::from(value), &rest[1..])
            }
        };
        let spec = match spec {
            "" => String::new(),
            spec => {
                let spec = spec.strip_prefix(':');
                let spec = spec.ok_or_else(|| wrong("expected ':' after conversion specifier"))?;
                self.text(spec, depth + 1)?
            }
        };
        formatted(self.state, &value, &spec)
    }

    /// Returns the value of a name such as `0.a[b]`.
    fn value(&mut self, name: &str) -> Result<Value, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut path) = name.split_at(end);
        let mut value = match first.parse::<usize>() {
            _ if first.is_empty() => {
                let at = self.next.ok_or_else(|| {
                    wrong("cannot switch from manual field specification to automatic field numbering")
                })?;
                self.next = Some(at + 1);
                self.argument(at)?
            }
            Ok(at) if self.next.is_none_or(|next| next == 0) => {
                self.next = None;
                self.argument(at)?
            }
            Ok(_) => {
                return Err(wrong(
                    "cannot switch from automatic field numbering to manual field specification",
                ));
            }
            Err(_) => match self.named.get::<Option<Value>>(first)? {
                Some(value) => value,
                None => return Err(wrong(format!("format: there is no argument '{first}'"))),
            },
        };
        while !path.is_empty() {
            let (key, rest) = match path.strip_prefix('[') {
                Some(inside) => {
                    let parts = inside.split_once(']');
                    parts.ok_or_else(|| wrong("Missing ']' in format string"))?
                }
                None => {
                    let inside = path.strip_prefix('.').unwrap_or(path);
                    inside.split_at(inside.find(['.', '[']).unwrap_or(inside.len()))
                }
            };
            value = match key.parse::<usize>() {
                Ok(at) if path.starts_with('[') => value.get_item(&Value::from(at))?,
                _ => value.get_item(&Value::from(key))?,
            };
            path = rest;
        }
        Ok(value)
    }

    fn argument(&self, at: usize) -> Result<Value, Error> {
        let value = self.arguments.get(at).cloned();
        value.ok_or_else(|| {
            wrong(format!(
                "Replacement index {at} out of range for positional args tuple"
            ))
        })
    }
}

/// Returns the place of the brace that ends a field.
fn end_of_field(field: &str) -> Result<usize, Error> {
    let mut open = 0;
    for (at, c) in field.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open == 0 => return Ok(at),
            '}' => open -= 1,
            _ => {}
        }
    }
    Err(wrong("expected '}' before end of string"))
}

/// Returns a value in the format of a specification.
fn formatted(state: &State<'_, '_>, value: &Value, spec: &str) -> Result<String, Error> {
    if spec.is_empty() {
        return write::text(state, value);
    }
    let characters: Vec<char> = spec.chars().collect();
    let is_align = |at: usize| characters.get(at).is_some_and(|c| "<>=^".contains(*c));
    let behind = if is_align(1) {
        2
    } else {
        usize::from(is_align(0))
    };
    let sizes = characters[behind..].iter().collect::<String>();
    let mut numbers = sizes.split(|c: char| !c.is_ascii_digit());
    numbers.try_for_each(|digits| size(state, digits).map(drop))?;
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            padded_by(state, text, (&characters, behind), &sizes)
        }
        ValueKind::Number | ValueKind::Bool => match sizes.strip_suffix('%') {
            // The engine has no percentages.
            Some(precision)
                if behind == 0 && (precision.is_empty() || precision.starts_with('.')) =>
            {
                let number = Value::from(f64::try_from(value.clone())? * 100.0);
                let pattern = format!("{{:{precision}f}}");
                Ok(format(FormatStyle::StrFormat, &pattern, &[number])? + "%")
            }
            _ => {
                let pattern = format!("{{:{spec}}}");
                format(
                    FormatStyle::StrFormat,
                    &pattern,
                    std::slice::from_ref(value),
                )
            }
        },
        other => Err(wrong(format!(
            "unsupported format string '{spec}' for a {other}"
        ))),
    }
}

/// Returns a text in the width of a specification, whose first characters are fill and alignment.
fn padded_by(
    state: &State<'_, '_>,
    text: &str,
    (characters, behind): (&[char], usize),
    sizes: &str,
) -> Result<String, Error> {
    let invalid = || wrong(format!("invalid format specifier '{sizes}' for a text"));
    let sizes = sizes.strip_suffix('s').unwrap_or(sizes);
    let (width, precision) = match sizes.split_once('.') {
        Some((width, precision)) if !precision.is_empty() => (width, Some(precision)),
        Some(_) => return Err(invalid()),
        None => (sizes, None),
    };
    let zeros = width.starts_with('0') && behind == 0;
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let align = match behind {
        0 => '<',
        behind => characters[behind - 1],
    };
    if !digits(width) || !precision.is_none_or(digits) || align == '=' {
        return Err(invalid());
    }
    let spec = Width {
        width: size(state, width)?.unwrap_or(0),
        precision: precision
            .map(|digits| size(state, digits))
            .transpose()?
            .flatten(),
        fill: match behind {
            2 => characters[0],
            _ if zeros => '0',
            _ => ' ',
        },
        align,
    };
    Ok(spec.padded(text))
}
