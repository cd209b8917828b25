//! Text for people: lines and tables that fit a width, with colours where the place shows them.

use crate::table::{Fit, Table, fit};
use crate::text::{escape, escape_lines};
use anstyle::{AnsiColor, Style};
use std::fmt;

/// The meaning of a piece of text, which decides its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Text without a special meaning.
    #[default]
    Plain,
    /// The heading of a column, in bold.
    Heading,
    /// A good result, in green.
    Good,
    /// Something to look at, in yellow.
    Caution,
    /// An error, in red.
    Bad,
}

impl Tone {
    fn style(self) -> Style {
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Good => colour(AnsiColor::Green),
            Self::Caution => colour(AnsiColor::Yellow),
            Self::Bad => colour(AnsiColor::Red),
        }
    }
}

/// The width and the colours of the place where a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The largest width of a table, in columns. With `None`, each row is one line of any length.
    pub width: Option<usize>,
    /// True if the place shows colours.
    pub colours: bool,
}

impl Look {
    /// The width of a table, in columns, if the width of the place is unknown.
    pub const USUAL: usize = 100;

    /// Text without colours, [`Look::USUAL`] columns wide.
    pub const PLAIN: Self = Self {
        width: Some(Self::USUAL),
        colours: false,
    };

    /// Text without colours, where each row of a table is one line.
    pub const WIDE: Self = Self {
        width: None,
        colours: false,
    };

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let style = tone.style();
        match self.colours && !style.is_plain() {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

/// Lines and tables, laid out for one place. Added text is escaped, so that the page's own colours are the only control
/// sequences.
///
/// ```
/// use kernels_io::{Look, Page};
///
/// let mut page = Page::new(Look::PLAIN);
/// page.line("gate\x1b[2J");
/// assert_eq!(page.to_string(), "gate\\u{1b}[2J\n");
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    look: Look,
    text: String,
}

impl Page {
    /// Creates an empty page.
    pub fn new(look: Look) -> Self {
        Self {
            look,
            text: String::new(),
        }
    }

    /// Returns the place that the page is laid out for.
    pub fn look(&self) -> Look {
        self.look
    }

    /// Adds text of one or more lines.
    pub fn line(&mut self, text: impl fmt::Display) {
        self.toned(Tone::Plain, text);
    }

    /// Adds text of one or more lines with this meaning.
    pub fn toned(&mut self, tone: Tone, text: impl fmt::Display) {
        let text = text.to_string();
        for line in escape_lines(&text).trim_end().split('\n') {
            self.text += &self.look.paint(tone, line);
            self.text.push('\n');
        }
    }

    /// Adds sentences, with lines broken between words at the page's width.
    pub fn paragraph(&mut self, text: impl fmt::Display) {
        let text = escape(&text.to_string()).into_owned();
        let lines = match self.look.width {
            Some(width) => fit::lines(&text, width, Fit::Wrap),
            None => vec![text],
        };
        lines.iter().for_each(|line| self.line(line));
    }

    /// Adds a table.
    pub fn table<const N: usize>(&mut self, table: &Table<N>) {
        self.text += &table.layout(self.look);
    }

    /// Adds another page unchanged.
    pub fn page(&mut self, other: &Self) {
        self.text += &other.text;
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_the_pages_own_and_only_where_there_are_any() {
        let page = |colours| {
            let mut page = Page::new(Look {
                width: None,
                colours,
            });
            page.toned(Tone::Bad, "a\x1b[0m\nb");
            page.line("c");
            page.to_string()
        };
        assert_eq!(page(false), "a\\u{1b}[0m\nb\nc\n");
        assert_eq!(
            page(true),
            "\x1b[31ma\\u{1b}[0m\x1b[0m\n\x1b[31mb\x1b[0m\nc\n"
        );
    }

    #[test]
    fn paragraphs_break_between_words() {
        let text = |width| {
            let mut page = Page::new(Look {
                width,
                colours: false,
            });
            page.paragraph("one two three\n");
            page.to_string()
        };
        assert_eq!(text(Some(9)), "one two\nthree\\n\n");
        assert_eq!(text(None), "one two three\\n\n");
    }

    #[test]
    fn pages_join() {
        let mut first = Page::new(Look::PLAIN);
        first.line("");
        let mut second = Page::new(Look::PLAIN);
        second.line("a");
        first.page(&second);
        assert_eq!(first.to_string(), "\na\n");
        assert_eq!(first.look(), Look::PLAIN);
    }
}
