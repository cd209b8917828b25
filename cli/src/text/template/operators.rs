//! The operators `%` and `~` and the texts of templates, which are as in Python.
//!
//! The engine knows `%` for numbers only, writes some numbers otherwise for `~`, and its operators can't be replaced. So
//! each use of `%` becomes a filter that knows both: `'%s' % a.b` becomes `('%s'|percent(a.b))`. The operands of `~` become
//! texts first: `a ~ b` becomes `(a)|string ~ (b)|string`.

use super::printf;
use minijinja::Environment;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

/// The name of the filter.
const FILTER: &str = "percent";

/// Adds the filter.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter(FILTER, printf::percent);
}

/// Replaces the operators in a template. What is not understood stays.
pub(super) fn replace(source: &str) -> String {
    let mut edits: Vec<(usize, usize, Cow<'_, str>)> = Vec::new();
    let mut texts = BTreeSet::new();
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
                let edit = edit(&tokens, place).into_iter().flatten();
                edits.extend(edit.map(|(begin, end, new)| (begin, end, Cow::Borrowed(new))));
                escapes(&tokens[place], &mut edits);
                let operands = operands(&tokens, place).into_iter().flatten();
                texts.extend(operands.map(|operand| (operand.start, operand.end)));
            }
        }
    }
    for (begin, end) in texts {
        edits.extend([(begin, begin, "(".into()), (end, end, ")|string".into())]);
    }
    edits.sort_by_key(|edit| edit.0);
    let (mut replaced, mut done) = (String::with_capacity(source.len()), 0);
    for (begin, end, new) in edits {
        replaced.push_str(&source[done..begin]);
        replaced.push_str(&new);
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
    // A sign there is about the blanks before the tag.
    let mut at = from + usize::from(source[from..].starts_with(['-', '+']));
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
            c if word(c) => word_length(rest, word),
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

/// Returns the length of a name, or of a number up to its point and with its exponent.
fn word_length(rest: &str, word: impl Fn(char) -> bool) -> usize {
    let end = |from: usize| {
        let length = rest[from..].find(|c| !word(c));
        length.map_or(rest.len(), |length| from + length)
    };
    let length = end(0);
    let number = rest[..length].trim_end_matches(['e', 'E']);
    let is_number =
        number.len() + 1 == length && number.chars().all(|c| c.is_ascii_digit() || c == '_');
    let signed = rest[length..].strip_prefix(['-', '+']);
    match signed.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit())) {
        true if is_number && number.starts_with(|c: char| c.is_ascii_digit()) => end(length + 1),
        _ => length,
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

/// Replaces the escapes in a text that the engine doesn't know: `\a`, `\v`, `\101` and `\U0001f642`.
fn escapes(token: &Token<'_>, edits: &mut Vec<(usize, usize, Cow<'_, str>)>) {
    if !token.text.starts_with(['\'', '"']) {
        return;
    }
    let mut at = 0;
    while let Some(place) = token.text[at..].find('\\').map(|place| at + place) {
        let behind = &token.text[place + 1..];
        let octal = behind.bytes().take(3);
        let octal = octal.take_while(|byte| (b'0'..b'8').contains(byte)).count();
        let (length, code) = match behind.chars().next() {
            Some('a') => (1, Some(7)),
            Some('v') => (1, Some(11)),
            Some('0'..='7') => (octal, u32::from_str_radix(&behind[..octal], 8).ok()),
            Some('U') if behind.is_char_boundary(9) => {
                (9, u32::from_str_radix(&behind[1..9], 16).ok())
            }
            other => (other.map_or(0, char::len_utf8), None),
        };
        if let Some(code) = code.filter(|code| char::from_u32(*code).is_some()) {
            // As two units of UTF-16, which the engine knows.
            let mut units = [0; 2];
            let units = char::from_u32(code)
                .unwrap_or_default()
                .encode_utf16(&mut units);
            let new: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let begin = token.begin + place;
            edits.push((begin, begin + 1 + length, new.into()));
        }
        at = place + 1 + length;
    }
}

/// Returns the bytes of both operands of a `~` at a place, as far as they can be told. Texts stay as they are.
fn operands(tokens: &[Token<'_>], place: usize) -> [Option<Range<usize>>; 2] {
    if tokens[place].text != "~" {
        return [None, None];
    }
    let bytes = |(first, last): (usize, usize)| {
        let is_text = first == last && tokens[first].text.starts_with(['\'', '"']);
        (!is_text).then(|| tokens[first].begin..tokens[last].end())
    };
    let before = place.checked_sub(1);
    let before = before.and_then(|last| Some((first_of_product(tokens, last)?, last)));
    let behind = last_of_product(tokens, place + 1).map(|last| (place + 1, last));
    [before.and_then(bytes), behind.and_then(bytes)]
}

fn multiplies(token: &Token<'_>) -> bool {
    matches!(token.text, "*" | "/" | "//" | "%" | "**")
}

/// Returns the first token of the product that ends at a place.
fn first_of_product(tokens: &[Token<'_>], last: usize) -> Option<usize> {
    let mut first = first_of(tokens, last)?;
    loop {
        let Some(before) = first.checked_sub(1) else {
            return Some(first);
        };
        let ends_operand = |token: &Token<'_>| token.is_plain() || token.closes();
        match &tokens[before] {
            token if multiplies(token) => first = first_of(tokens, before.checked_sub(1)?)?,
            token if token.text == "-" => {
                let operand = before.checked_sub(1).map(|at| &tokens[at]);
                match operand {
                    Some(token) if ends_operand(token) => return Some(first),
                    _ => first = before,
                }
            }
            // The argument of a test, or a test.
            token if ends_operand(token) || matches!(token.text, "is" | "not") => return None,
            _ => return Some(first),
        }
    }
}

/// Returns the last token of the product that begins at a place.
fn last_of_product(tokens: &[Token<'_>], first: usize) -> Option<usize> {
    let mut last = last_of(tokens, first)?;
    loop {
        match tokens.get(last + 1) {
            Some(token) if multiplies(token) => last = last_of(tokens, last + 2)?,
            Some(token) if token.text == "is" || token.is_plain() => return None,
            _ => return Some(last),
        }
    }
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
                "{{ (a)|string ~ (('%' |percent( f(b)|length)))|string }}",
            ),
            (
                "{{ ('%s' % ('%d' % 1)) }}",
                "{{ (('%s' |percent( (('%d' |percent( 1)))))) }}",
            ),
            ("{{- '%s' % a -}}", "{{- ('%s' |percent( a)) -}}"),
            (
                "{%- set x = -a.b[0] ~ 'c' ~ 2 * d|f(1) + 1 -%}",
                "{%- set x = (-a.b[0])|string ~ 'c' ~ (2 * d|f(1))|string + 1 -%}",
            ),
            (
                "{{ a if b is even ~ 'c' else (d ~ e) ~ f }}",
                "{{ a if b is even ~ 'c' else (((d)|string ~ (e)|string))|string ~ (f)|string }}",
            ),
        ] {
            assert_eq!(replace(source), expected);
        }
        assert_eq!(
            replace(r"{{ '\a\n\101x\U0001f642\\a' }}\a"),
            r"{{ '\u0007\n\u0041x\ud83d\ude42\\a' }}\a"
        );
        for same in [
            "{{ 2 * a % 3 }}{{ -a % 3 }}{# a % b #}{% raw %}{{ a % b }}{% endraw %}",
            "50 % off {{ '%' }}{{ {'a': {}} }}{% if a %}{% endif %}{%",
            "{{ a % }}{{ % b }}{{ 'a % b",
        ] {
            assert_eq!(replace(same), same);
        }
    }
}
