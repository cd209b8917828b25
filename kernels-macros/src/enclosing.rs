//! The type whose `impl` block a place of a source file is in.
//!
//! An attribute on a method sees the method alone. Its source file is read to name the type. Where it can't be, as in the
//! expansion of another macro, the running program finds the type, and the record in the built file lacks it.

use crate::target::type_name;
use syn::ext::IdentExt;
use syn::{Ident, ItemImpl};

/// The largest source file that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// Returns the type around the attribute that is being expanded.
pub(crate) fn of_expansion() -> Option<Ident> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = proc_macro::Span::call_site();
    let file = span.local_file()?;
    let length = std::fs::metadata(&file).ok()?.len();
    if length > LARGEST {
        return None;
    }
    type_around(
        &std::fs::read_to_string(file).ok()?,
        span.line(),
        span.column(),
    )
}

/// Returns the type of the innermost block at a line and column, counted from 1, if it is an `impl` block.
fn type_around(source: &str, line: usize, column: usize) -> Option<Ident> {
    let begin = source.split_inclusive('\n').take(line.checked_sub(1)?);
    let begin: usize = begin.map(str::len).sum();
    let ahead = source.get(begin..)?.char_indices();
    let end = ahead
        .map(|(at, _)| begin + at)
        .nth(column.checked_sub(1)?)?;
    // What is before each open brace, since the statement or item before it.
    let (mut headers, mut header) = (Vec::new(), String::new());
    let mut at = 0;
    while at < end {
        let rest = &source[at..];
        let length = token_length(rest);
        let token = rest.get(..length)?;
        match token {
            "{" => headers.push(std::mem::take(&mut header)),
            "}" => {
                headers.pop();
                header.clear();
            }
            ";" if is_closed(&header) => header.clear(),
            comment if comment.starts_with("//") || comment.starts_with("/*") => header.push(' '),
            token => {
                header.push_str(token);
                // An attribute of the file belongs to no item.
                if token == "]" && is_closed(&header) && header.trim_start().starts_with("#!") {
                    header.clear();
                }
            }
        }
        at += length;
    }
    let block: ItemImpl = syn::parse_str(&format!("{} {{}}", headers.last()?)).ok()?;
    type_name(&block.self_ty).map(IdentExt::unraw)
}

/// Returns `true` if all brackets are closed.
fn is_closed(header: &str) -> bool {
    header.matches('[').count() == header.matches(']').count()
}

/// Returns the length of a comment, a literal in quotes, or else of the next character.
fn token_length(rest: &str) -> usize {
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let to = |end: &str, from: usize| {
        let found = rest.get(from..).and_then(|rest| rest.find(end));
        found.map_or(rest.len(), |found| from + found + end.len())
    };
    if rest.starts_with("//") {
        return to("\n", 0);
    }
    if rest.starts_with("/*") {
        return comment_length(rest);
    }
    let raw = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - raw.len();
    if let Some(hashes) = raw.strip_prefix('r').filter(|_| prefix < 2) {
        let count = hashes.len() - hashes.trim_start_matches('#').len();
        if hashes[count..].starts_with('"') {
            return to(&format!("\"{}", "#".repeat(count)), prefix + count + 2);
        }
    }
    match rest.chars().next() {
        Some('"') => quoted_length(rest, '"'),
        // A character, and not a lifetime.
        Some('\'') if is_character(rest) => quoted_length(rest, '\''),
        // A whole word, so that `br` in `for_abr"…"` is none of the prefixes.
        Some(c) if c.is_alphanumeric() || c == '_' => rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len()),
        _ => first,
    }
}

fn is_character(rest: &str) -> bool {
    let mut characters = rest.chars().skip(1);
    match characters.next() {
        Some('\\') => true,
        _ => characters.next() == Some('\''),
    }
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a comment that may hold others.
fn comment_length(rest: &str) -> usize {
    let (mut open, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (open, at) = (open + 1, at + 2),
            [b'*', b'/', ..] => (open, at) = (open - 1, at + 2),
            _ => at += 1,
        }
        if open == 0 {
            return at;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the type around each `@` of a source.
    fn types(source: &str) -> Vec<String> {
        let plain = source.replace('@', " ");
        let places = source.match_indices('@').map(|(at, _)| {
            let before = &source[..at];
            let begin = before.rfind('\n').map_or(0, |end| end + 1);
            let line = before.matches('\n').count() + 1;
            let found = type_around(&plain, line, before[begin..].chars().count() + 1);
            found.map_or_else(|| "-".to_owned(), |name| name.to_string())
        });
        places.collect()
    }

    #[test]
    fn the_innermost_block_names_the_type() {
        let source = r##"
            // impl Wrong {
            /* impl Wrong { /* } */ */
            @
            #[derive(Module)] pub struct Mixer<'a> { x: &'a str }
            impl<'a, const N: usize> Mixer<'a> where [(); N]: { @ fn f() { @ } @ }
            const TEXT: &str = "impl Wrong { \" "; const OTHER: &[u8] = br#"impl Wrong { " "#;
            #[cfg(any(feature = "}"))]
            /// A layer {
            unsafe impl<T: Into<Vec<u8>>> model::Layer<T> for crate::r#type::Norm<T> {
                fn a(c: char) { match c { '{' | '\'' | '\u{7d}' => {} _ => 'a: loop {} } }
                @
            }
            mod inner { @ impl r#Fn { é fn b() { let f = |x| { x }; } @ } }
            fn free() { impl Local { @ } }
            impl dyn Any { @ }
            macro_rules! m { () => { impl $t { @ } } }
        "##;
        assert_eq!(types("#![a(b[c])]\n#![d]\nimpl A { @ }"), ["A"]);
        let found = types(source);
        let expected = [
            "-", "Mixer", "-", "Mixer", "Norm", "-", "Fn", "Local", "-", "-",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn places_outside_of_a_file_name_nothing() {
        let found = |line, column| type_around("impl A {\n    fn a() {}\n", line, column);
        assert_eq!(found(2, 5).unwrap(), "A");
        for (line, column) in [(0, 1), (1, 0), (9, 1), (2, 99)] {
            assert!(found(line, column).is_none(), "{line}:{column}");
        }
        for cut in ["'", "\"", "r#\"", "/*", "//", "b'", "impl"] {
            type_around(&format!("impl A {{ {cut}"), 1, 10);
            type_around(&format!("{cut}\n\n{cut} x"), 3, 2);
        }
    }
}
