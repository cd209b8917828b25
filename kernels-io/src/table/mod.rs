//! Tables of text. Libraries for tables don't escape cells, shorten paths from the left, or keep `offset = 0` on one
//! line. Without these, they would only draw the gaps between columns.

pub(crate) mod fit;

use crate::page::{Look, Tone};
use crate::text::escape;
use std::fmt;

/// The number of blanks between two columns.
const GAP: usize = 2;

/// The largest width to which a cell widens its column in a table of any width. A long text from a file would otherwise
/// widen the column for all rows.
const WIDEST: usize = 100;

/// A table with an optional heading. Each column is as wide as its widest cell. Where the table is too wide for its
/// place, columns shrink: text wraps, and paths lose their first segments.
///
/// A cell shows each of its lines as one line, whatever characters it holds.
#[derive(Clone, Debug)]
pub struct Table<const N: usize> {
    heading: Option<[Cell; N]>,
    fits: [Fit; N],
    rows: Vec<[Cell; N]>,
}

/// The way in which a column shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Lines break between words.
    #[default]
    Wrap,
    /// A Rust path, such as `my_crate::model::Mlp::forward`, keeps its last segments.
    Item,
    /// A file path keeps its last segments.
    File,
}

/// The text of a row in one column.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The escaped lines of the text. Each starts on a line of its own.
    paragraphs: Vec<String>,
    tone: Tone,
}

impl Cell {
    /// Creates a cell of one line with this meaning.
    pub fn new(tone: Tone, text: impl fmt::Display) -> Self {
        Self {
            paragraphs: vec![escape(&text.to_string()).into_owned()],
            tone,
        }
    }

    /// Creates a cell that keeps the line ends of its text.
    pub fn lines(tone: Tone, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Self {
            paragraphs: text.split('\n').map(|line| escape(line).into()).collect(),
            tone,
        }
    }

    fn width(&self) -> usize {
        let widths = self.paragraphs.iter().map(|text| text.chars().count());
        widths.max().unwrap_or(0)
    }
}

impl<T: fmt::Display> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl<const N: usize> Table<N> {
    /// Creates a table with a heading and without rows.
    pub fn new(heading: [&str; N]) -> Self {
        Self {
            heading: Some(heading.map(|text| Cell::new(Tone::Heading, text))),
            ..Self::without_heading()
        }
    }

    /// Creates a table without rows and without a heading.
    pub fn without_heading() -> Self {
        Self {
            heading: None,
            fits: [Fit::Wrap; N],
            rows: Vec::new(),
        }
    }

    /// Sets how each column shrinks.
    #[must_use]
    pub fn fit(self, fits: [Fit; N]) -> Self {
        Self { fits, ..self }
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(&mut self, cells: [C; N]) {
        self.rows.push(cells.map(Into::into));
    }

    /// Returns `true` if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as text for a place.
    pub(crate) fn layout(&self, look: Look) -> String {
        let widths = self.widths(look.width);
        let rows = self.heading.iter().chain(&self.rows);
        rows.map(|row| self.row_lines(row, &widths, look)).collect()
    }

    fn widths(&self, most: Option<usize>) -> [usize; N] {
        let rows = || self.heading.iter().chain(&self.rows);
        let natural =
            std::array::from_fn(|column| rows().map(|row| row[column].width()).max().unwrap_or(0));
        let Some(most) = most else {
            return natural.map(|width| width.min(WIDEST));
        };
        let least = std::array::from_fn(|column| {
            let texts = rows().flat_map(|row| &row[column].paragraphs);
            let least = texts.map(|text| fit::least(text, self.fits[column]));
            least.max().unwrap_or(0)
        });
        fit::widths(natural, least, most.saturating_sub(GAP * (N - 1)))
    }

    fn row_lines(&self, row: &[Cell; N], widths: &[usize; N], look: Look) -> String {
        let columns: [Vec<String>; N] = std::array::from_fn(|column| {
            let texts = row[column].paragraphs.iter();
            let lines = texts.flat_map(|text| match look.width {
                Some(_) => fit::lines(text, widths[column], self.fits[column]),
                None => vec![text.clone()],
            });
            lines.collect()
        });
        let height = columns.iter().map(Vec::len).max().unwrap_or(0);
        let mut lines = String::new();
        for line in 0..height {
            // Blanks are written only before text, so that lines don't end with them.
            let mut blanks = 0;
            for (column, width) in widths.iter().enumerate() {
                let text = columns[column].get(line).map_or("", String::as_str);
                if !text.is_empty() {
                    lines.extend(std::iter::repeat_n(' ', blanks));
                    lines += &look.paint(row[column].tone, text);
                    blanks = 0;
                }
                blanks += width.saturating_sub(text.chars().count()) + GAP;
            }
            lines.push('\n');
        }
        lines
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    /// Writes each row as one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.layout(Look::WIDE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out<const N: usize>(table: &Table<N>, width: usize) -> String {
        table.layout(Look {
            width: Some(width),
            colours: false,
        })
    }

    fn plan() -> Table<4> {
        let mut table = Table::new(["site", "kernel", "computes", "written at"]).fit([
            Fit::Item,
            Fit::Wrap,
            Fit::Wrap,
            Fit::File,
        ]);
        table.row([
            "kernels_models::mixtral::MixtralSparseMoe::forward",
            "npu_fused_moe",
            "moe(part = block, scoring = softmax, renormalise = sum, weights = wide)",
            "models/src/mixtral.rs:120",
        ]);
        table
    }

    #[test]
    fn columns_align() {
        let mut table = Table::new(["a", "bb"]);
        table.row(["long", "x"]);
        table.row(["", "y"]);
        assert_eq!(table.to_string(), "a     bb\nlong  x\n      y\n");
        assert_eq!(laid_out(&table, 80), table.to_string());
        assert!(!table.is_empty());
    }

    #[test]
    fn a_table_fits_its_place() {
        let table = plan();
        for width in 30..200 {
            for line in laid_out(&table, width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let text = laid_out(&table, 100);
        assert!(text.contains("…::MixtralSparseMoe::forward"), "{text}");
        assert!(text.contains("scoring = softmax,"), "{text}");
        assert!(text.contains("mixtral.rs:120"), "{text}");
    }

    #[test]
    fn nothing_but_the_start_of_paths_is_left_out() {
        let words = |text: &str| {
            let words = text.split([' ', '\n']).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let text = laid_out(&plan(), 100);
        for word in words("npu_fused_moe moe(part = block, scoring softmax, sum, weights wide)") {
            assert!(words(&text).contains(&word), "{word}: {text}");
        }
    }

    #[test]
    fn without_a_width_a_row_is_a_line_and_a_cell_widens_its_column_only_so_far() {
        let mut table = Table::new(["a", "b"]);
        table.row(["x\n\x1b[2J", "y"]);
        table.row(["z".repeat(5000).as_str(), "y"]);
        let text = table.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with(r"x\n\u{1b}[2J  "), "{}", lines[1]);
        assert_eq!(lines[1].len(), WIDEST + 3);
        assert_eq!(lines[2].len(), 5003);
    }

    #[test]
    fn cells_may_have_line_ends_and_tables_no_heading() {
        let mut table = Table::without_heading();
        table.row([Cell::from("cpu"), Cell::lines(Tone::Plain, "one\n-> two")]);
        assert_eq!(laid_out(&table, 80), "cpu  one\n     -> two\n");
    }

    #[test]
    fn colours_take_no_room() {
        let mut table = Table::new(["a", "b"]);
        table.row([Cell::new(Tone::Good, "ok"), "x".into()]);
        let look = Look {
            width: Some(80),
            colours: true,
        };
        let text = table.layout(look);
        assert!(text.ends_with("\x1b[32mok\x1b[0m  x\n"), "{text:?}");
        assert!(text.starts_with("\x1b[1ma\x1b[0m   \x1b[1mb"), "{text:?}");
    }
}
