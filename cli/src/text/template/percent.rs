//! The operator `%`, which in Python formats texts too.
//!
//! The engine knows it for numbers only, and operators can't be replaced. So each use becomes a filter that knows both:
//! `'%s' % a.b` becomes `('%s'|percent(a.b))`.

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

/// The name of the filter.
const FILTER: &str = "percent";

/// Adds the filter.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter(FILTER, percent);
}

fn percent(left: Value, right: Value) -> Result<Value, Error> {
    if let Some(pattern) = left.as_str() {
        let several = right.downcast_object_ref::<Tuple>();
        let arguments = match several {
            Some(several) => several.to_vec(),
            None => vec![right],
        };
        return format(FormatStyle::Printf, pattern, &arguments).map(Value::from);
    }
    let unknown = || {
        let problem = format!("tried to use % on {} and {}", left.kind(), right.kind());
        Error::new(ErrorKind::InvalidOperation, problem)
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
            Ok(Value::from(left - right * (left / right).floor()))
        }
    }
}

/// Replaces the operator in a template. What is not understood stays.
pub(super) fn replace(source: &str) -> String {
    let mut edits: Vec<(usize, usize, &str)> = Vec::new();
    let mut at = 0;
    while let Some(begin) = source[at..].find('{').map(|begin| at + begin) {
        let rest = &source[begin..];
        at = begin + 1;
        if rest.starts_with("{#") {
            at = begin + rest.find("#}").map_or(rest.len(), |end| end + 2);
        } else if rest.starts_with("{{") || rest.starts_with("{%") {
            let Some((tokens, end)) = tokens(source, begin + 2, rest.starts_with("{%")) else {
                break;
            };
            at = end;
            let name = tokens.iter().find(|token| token.is_plain());
            if name.is_some_and(|token| token.text == "raw") {
                at += source[end..].find("endraw").unwrap_or(0);
            }
            for place in 0..tokens.len() {
                edits.extend(edit(&tokens, place).into_iter().flatten());
            }
        }
    }
    edits.sort_by_key(|edit| edit.0);
    let (mut replaced, mut done) = (String::with_capacity(source.len()), 0);
    for (begin, end, new) in edits {
        replaced.push_str(&source[done..begin]);
        replaced.push_str(new);
        done = end;
    }
    replaced.push_str(&source[done..]);
    replaced
}

/// A token of an expression.
struct Token<'a> {
    text: &'a str,
    begin: usize,
    /// For a bracket, the place of the other among the tokens.
    other: Option<usize>,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.begin + self.text.len()
    }

    /// Returns `true` for a name, a number or a text.
    fn is_plain(&self) -> bool {
        const WORDS: [&str; 9] = ["if", "else", "elif", "in", "is", "not", "and", "or", "set"];
        let first = self.text.chars().next();
        first.is_some_and(|c| c.is_alphanumeric() || "_'\"".contains(c))
            && !WORDS.contains(&self.text)
    }

    fn closes(&self) -> bool {
        matches!(self.text, ")" | "]" | "}")
    }
}

/// Returns the tokens up to the end of a tag, and that end. Returns `None` if it does not end.
fn tokens(source: &str, from: usize, block: bool) -> Option<(Vec<Token<'_>>, usize)> {
    let close = if block { "%}" } else { "}}" };
    let (mut tokens, mut open) = (Vec::<Token<'_>>::new(), Vec::new());
    let mut at = from;
    loop {
        let rest = &source[at..];
        let first = rest.chars().next()?;
        if open.is_empty() && rest.starts_with(close) {
            return Some((tokens, at + 2));
        }
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '\'' | '"' => text_length(rest, first)?,
            c if word(c) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            '*' | '/' if rest[1..].starts_with(first) => 2,
            c => c.len_utf8(),
        };
        let mut other = None;
        match first {
            '(' | '[' | '{' => open.push(tokens.len()),
            ')' | ']' | '}' => {
                let opener = open.pop()?;
                tokens[opener].other = Some(tokens.len());
                other = Some(opener);
            }
            _ => {}
        }
        tokens.push(Token {
            text: &rest[..length],
            begin: at,
            other,
        });
        at += length;
    }
}

/// Returns the length of a text in quotes.
fn text_length(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns the changes for the operator at a place, if it is one between two operands that can be told.
fn edit<'a>(tokens: &[Token<'_>], place: usize) -> Option<[(usize, usize, &'a str); 3]> {
    let operator = &tokens[place];
    if operator.text != "%" {
        return None;
    }
    let first = first_of(tokens, place.checked_sub(1)?)?;
    let last = last_of(tokens, place + 1)?;
    let before = first.checked_sub(1).map(|before| &tokens[before]);
    // An operator that binds as much or more takes the operand first.
    let bound =
        |token: &Token<'_>| matches!(token.text, "*" | "/" | "//" | "%" | "**" | "is" | "." | "|");
    let sign = |token: &Token<'_>| {
        let operand = first.checked_sub(2).map(|at| &tokens[at]);
        matches!(token.text, "-" | "+")
            && !operand.is_some_and(|token| token.is_plain() || token.closes())
    };
    if before.is_some_and(|token| bound(token) || sign(token))
        || tokens.get(last + 1).is_some_and(|token| token.text == "**")
    {
        return None;
    }
    let (begin, end) = (tokens[first].begin, tokens[last].end());
    Some([
        (begin, begin, "("),
        (operator.begin, operator.end(), "|percent("),
        (end, end, "))"),
    ])
}

/// Returns the first token of the operand that ends at a place: a value with calls, subscripts, attributes and filters.
fn first_of(tokens: &[Token<'_>], last: usize) -> Option<usize> {
    let mut first = last;
    loop {
        let token = &tokens[first];
        if token.closes() {
            first = token.other?;
            let called = first.checked_sub(1).map(|at| &tokens[at]);
            if called.is_some_and(|token| token.is_plain() || token.closes()) {
                first -= 1;
                continue;
            }
        } else if !token.is_plain() {
            return None;
        }
        match first.checked_sub(2) {
            Some(before) if matches!(tokens[before + 1].text, "." | "|") => first = before,
            _ => return Some(first),
        }
    }
}

/// Returns the last token of the operand that begins at a place.
fn last_of(tokens: &[Token<'_>], first: usize) -> Option<usize> {
    let mut at = first;
    if tokens.get(at)?.text == "-" {
        at += 1;
    }
    loop {
        let token = tokens.get(at)?;
        let mut last = match token.text {
            "(" | "[" | "{" => token.other?,
            _ if token.is_plain() => at,
            _ => return None,
        };
        while let Some(next) = tokens
            .get(last + 1)
            .filter(|next| matches!(next.text, "(" | "["))
        {
            last = next.other?;
        }
        match tokens.get(last + 1) {
            Some(next) if matches!(next.text, "." | "|") => at = last + 2,
            _ => return Some(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_between_operands_become_filters() {
        for (source, expected) in [
            ("{{ '%s' % a }}", "{{ ('%s' |percent( a)) }}"),
            (
                "{% if x.y[0] % 2 == 1 %}%{% endif %}",
                "{% if (x.y[0] |percent( 2)) == 1 %}%{% endif %}",
            ),
            (
                "{{ a ~ '%' % f(b)|length }}",
                "{{ a ~ ('%' |percent( f(b)|length)) }}",
            ),
            (
                "{{ ('%s' % ('%d' % 1)) }}",
                "{{ (('%s' |percent( (('%d' |percent( 1)))))) }}",
            ),
        ] {
            assert_eq!(replace(source), expected);
        }
        for same in [
            "{{ 2 * a % 3 }}{{ -a % 3 }}{# a % b #}{% raw %}{{ a % b }}{% endraw %}",
            "50 % off {{ '%' }}{{ {'a': {}} }}{% if a %}{% endif %}{%",
            "{{ a % }}{{ % b }}{{ 'a % b",
        ] {
            assert_eq!(replace(same), same);
        }
    }
}
