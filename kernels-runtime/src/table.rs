use std::fmt;

/// Text columns of equal width, for reports.
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(head: [&str; N]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned)],
        }
    }

    pub(crate) fn row(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(str::to_owned));
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let mut table = Table::new(["a", "bb"]);
        table.row(["long", "x"]);
        assert_eq!(table.to_string(), "a     bb\nlong  x\n");
    }
}
