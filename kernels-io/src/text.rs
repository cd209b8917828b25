//! Escaping of text from outside.
//!
//! A name in a file can hold control sequences that a terminal executes (colours, cursor, title), characters that
//! change the direction of the text around them, and line ends that imitate lines of this program. Every character that
//! is not shown as itself becomes `\u{…}`, or `\n` and the like.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// Escapes text into one line.
///
/// ```
/// assert_eq!(kernels_io::escape("gate\x1b[2J\n\u{202e}"), r"gate\u{1b}[2J\n\u{202e}");
/// assert_eq!(kernels_io::escape("C:\\größe \"日本語\""), "C:\\größe \"日本語\"");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_but(text, |_| false)
}

/// Escapes text and keeps its line ends.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_but(text, |c| c == '\n')
}

/// Indents all lines but the first, so that they can't be taken for lines of this program.
///
/// ```
/// assert_eq!(kernels_io::indent_lines("a\nerror: b"), "a\n    error: b");
/// ```
pub fn indent_lines(text: &str) -> Cow<'_, str> {
    match text.contains('\n') {
        true => Cow::Owned(text.replace('\n', "\n    ")),
        false => Cow::Borrowed(text),
    }
}

/// Shortens text to at most `most` bytes and appends its full length.
///
/// ```
/// assert_eq!(kernels_io::shorten("größer", 3), "gr… (8 bytes)");
/// ```
pub fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    match text.len() <= most {
        true => Cow::Borrowed(text),
        false => {
            let start = &text[..text.floor_char_boundary(most)];
            Cow::Owned(format!("{start}… ({} bytes)", text.len()))
        }
    }
}

/// Escapes a path. Use it in place of [`Path::display`].
pub fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy()).into_owned()
}

/// Escapes JSON: the values stay the same, and strings hold no character that a terminal executes. Line ends between
/// values stay.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(|c| is_shown(c) || c == '\n') {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        // Outside of strings JSON is printable ASCII, and line ends inside strings are already escaped.
        if is_shown(c) || c == '\n' {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(escaped, "\\u{unit:04x}").expect("strings take any text");
            }
        }
    }
    Cow::Owned(escaped)
}

fn escape_but(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let plain = |c| is_shown(c) || kept(c);
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match plain(c) {
            true => escaped.push(c),
            false => escaped.extend(c.escape_debug()),
        }
    }
    Cow::Owned(escaped)
}

/// Returns `true` if a screen shows the character as itself, by the tables of the standard library. Control and format
/// characters (bidirectional ones among them), line ends and unusual blanks are not.
fn is_shown(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // Puts the character after a letter, where combining marks are shown.
    let mut text = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut text[1..]).len();
    let text = str::from_utf8(&text[..end]).expect("a letter and a character");
    text.escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        for (text, shown) in [
            ("\x1b]0;title\x07", r"\u{1b}]0;title\u{7}"),
            ("a\rb\nc\td\0", r"a\rb\nc\td\0"),
            ("\u{7f}\u{9b}31m", r"\u{7f}\u{9b}31m"),
            (
                "\u{202e}\u{2066}\u{200f}\u{61c}",
                r"\u{202e}\u{2066}\u{200f}\u{61c}",
            ),
            ("\u{2028}\u{feff}\u{e0041}", r"\u{2028}\u{feff}\u{e0041}"),
        ] {
            assert_eq!(escape(text), shown);
        }
        assert_eq!(escape_lines("a\n\x1bb"), "a\n\\u{1b}b");
    }

    #[test]
    fn names_in_any_script_stay() {
        for text in [
            "",
            "model.layers.0",
            "größe",
            "e\u{301}",
            "日本語",
            "имя",
            "\"'\\",
            "🙂",
        ] {
            assert!(
                matches!(escape(text), Cow::Borrowed(same) if same == text),
                "{text}"
            );
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let text = "\"a\u{9b}\u{202e}\u{e0041}\u{7f}é\"";
        let escaped = escape_json(text);
        assert_eq!(escaped, r#""a\u009b\u202e\udb40\udc41\u007fé""#);
        assert_eq!(escape_json("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
    }
}
