//! Columns of text.

use kernels_io::escape;
use std::fmt;

/// More is no column any more; and one cell of a file must not widen all others without end.
const WIDEST: usize = 100;

/// A table with a heading; columns are as wide as their widest cell, up to [`WIDEST`]. A cell is one line,
/// whatever its text holds.
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table with only a heading.
    pub fn new(heading: [&str; COLUMNS]) -> Self {
        Self {
            rows: vec![heading.map(str::to_owned)],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.map(|cell| escape(&cell).into_owned()));
    }
}

impl<const COLUMNS: usize> fmt::Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).min(WIDEST)
        };
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(widths);
            let line: Vec<_> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            let line = line.join("  ");
            if index > 0 {
                writeln!(f)?;
            }
            f.write_str(line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line_and_widens_its_column_only_so_far() {
        let mut table = Table::new(["a", "b"]);
        table.row(["x\n\x1b[2J".to_owned(), "y".to_owned()]);
        table.row(["z".repeat(5000), "y".to_owned()]);
        let text = table.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with(r"x\n\u{1b}[2J  "), "{}", lines[1]);
        assert_eq!(lines[1].len(), WIDEST + 3);
        assert_eq!(lines[2].len(), 5003);
    }
}
